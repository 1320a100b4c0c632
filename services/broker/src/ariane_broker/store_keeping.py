"""What the store needs besides appends and reads: flushes that are due, room ahead, retention.

All of it waits on the disk and runs in the keeper thread, except retention, which changes consume
queues and therefore runs on the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, Protocol

import structlog

from ariane_servicekit import Clock, Loop
from ariane_storage.errors import StoreFull, StorePoisoned
from ariane_storage.retention import RetentionReport

FLUSH_TICK_SECONDS: Final = 0.1
"""How often the store is asked what is due; its own intervals say what is."""

PREPARE_SECONDS_MAX: Final = 1.0
PREPARE_STEP_BYTES: Final = 8 << 20
"""Room ahead of the writer is made ready again whenever it has used up this much."""

RETENTION_SECONDS: Final = 10.0

_log = structlog.get_logger(__name__)


class KeptStore(Protocol):
    """What is asked of the store."""

    def flush_due(self) -> None:
        """Flush what is due; any thread."""
        ...

    def prepare_next_segment(self) -> None:
        """Make room ready for coming appends; any thread."""
        ...

    def apply_retention(self) -> RetentionReport:
        """Delete what is old enough; on the loop."""
        ...


class StoreKeeping:
    """The loops beside a store."""

    def __init__(
        self,
        store: KeptStore,
        keeper: Executor,
        clock: Clock,
        *,
        flush_tick_seconds: float,
        on_flushed: Callable[[], None],
        on_failed: Callable[[BaseException], None],
    ) -> None:
        """Take the parts.

        Args:
            store: What to keep.
            keeper: The thread that waits on the disk.
            clock: For the time between turns.
            flush_tick_seconds: How often to ask for flushes that are due.
            on_flushed: Called on the loop after them.
            on_failed: Called on the loop when a flush failed: the broker has to end.
        """
        self._store = store
        self._keeper = keeper
        self._on_flushed = on_flushed
        self._on_failed = on_failed
        self._prepared_offset = 0
        self._full_reason = ""
        self.last_retention: RetentionReport | None = None
        self._flushing = Loop("flush-due", self._flush, interval_s=flush_tick_seconds, clock=clock)
        self._preparing = Loop(
            "prepare-segment", self._prepare, interval_s=PREPARE_SECONDS_MAX, clock=clock
        )
        self._retention = Loop(
            "retention", self._apply_retention, interval_s=RETENTION_SECONDS, clock=clock
        )

    def start(self) -> None:
        """Start all loops."""
        self._flushing.start()
        self._preparing.start(at_once=True)
        self._retention.start(at_once=True)

    async def stop(self) -> None:
        """Stop all loops; what runs in the keeper thread ends by itself."""
        await self._retention.stop()
        await self._preparing.stop()
        await self._flushing.stop()

    def appended(self, next_commit_log_offset: int) -> None:
        """The log has grown to this commit-log offset."""
        if next_commit_log_offset - self._prepared_offset >= PREPARE_STEP_BYTES:
            self._prepared_offset = next_commit_log_offset
            self._preparing.wake()

    async def _flush(self) -> None:
        if await self._in_keeper(self._store.flush_due):
            self._on_flushed()

    async def _prepare(self) -> None:
        await self._in_keeper(self._store.prepare_next_segment)

    async def _apply_retention(self) -> None:
        try:
            self.last_retention = self._store.apply_retention()
        except StorePoisoned as error:
            self._on_failed(error)

    async def _in_keeper(self, step: Callable[[], None]) -> bool:
        """Run a step; whether it went well. Says once that the disk is full, not every time."""
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._keeper, step)
        except StorePoisoned as error:
            self._on_failed(error)
            return False
        except StoreFull as error:
            if error.reason != self._full_reason:
                _log.error("store_full", reason=error.reason)
            self._full_reason = error.reason
            return False
        self._full_reason = ""
        return True
