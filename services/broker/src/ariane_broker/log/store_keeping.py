"""What the store needs besides appends and reads: flushes, keys filed, room ahead, retention.

All of it waits on the disk and runs in the keeper thread; a repair of queues, which may read the
whole log, in one of its own. Only what retention has chosen is let go
of on the loop, between two reads, before the keeper thread deletes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from functools import partial
from typing import Final

from ariane_broker.log.early_deletions import EarlyDeletions
from ariane_broker.log.recovery_words import RecoveryProgress
from ariane_broker.queue_key import QueueKey
from ariane_servicekit import Clock, Loop, get_logger
from ariane_storage.errors import StoreFull, StorePoisoned
from ariane_storage.keeping.retention import RetentionReport
from ariane_storage.log.damage import Damage
from ariane_storage.recovery.queue_repair import QueueRepair
from ariane_storage.store import Store

FLUSH_TICK_SECONDS: Final = 0.1
"""How often the store is asked what is due; its own intervals say what is."""

PREPARE_SECONDS_MAX: Final = 1.0
PREPARE_STEP_BYTES: Final = 8 << 20
"""Room ahead of the writer is made ready again whenever it has used up this much."""

FILING_TICK_SECONDS: Final = 0.1
FILING_STEP_KEYS: Final = 1 << 16
"""Keys are filed at once when so many wait: fewer are not worth a hop to another thread."""

INDEX_BACKLOG_KEYS: Final = 1 << 20
"""Keys that may wait, 20 MB of them: seconds of the highest rate, for an index file to be flushed
and the next one allocated meanwhile. Beyond, an append files some itself, and so the backlog never
grows without end."""

REPAIR_TICK_SECONDS: Final = 0.1
"""How often it is asked whether reads have met entries of queues that lead astray."""

RETENTION_SECONDS: Final = 10.0

_log = get_logger(__name__)


class StoreKeeping:
    """The loops beside a store.

    Attributes:
        last_retention: What the last turn of retention has done and seen.
        early_deletions: What was deleted before its time.
        disk_used_ratio: Share of the disk in use when it was looked at last, 0 to 1.
    """

    def __init__(
        self,
        store: Store,
        keeper: Executor,
        clock: Clock,
        *,
        flush_tick_seconds: float,
        disk_refuse_ratio: float,
        on_flushed: Callable[[], None],
        on_repaired: Callable[[Collection[QueueKey]], None],
        on_failed: Callable[[BaseException], None],
    ) -> None:
        """Take the parts.

        Args:
            store: What to keep.
            keeper: The thread that waits on the disk.
            clock: For the time between turns.
            flush_tick_seconds: How often to ask for flushes that are due.
            disk_refuse_ratio: Share of the disk in use from which on the store takes nothing.
            on_flushed: Called on the loop after them.
            on_repaired: Called on the loop with queues that can be read again.
            on_failed: Called on the loop when a flush failed: the broker has to end.
        """
        self._store = store
        self._keeper = keeper
        self._on_flushed = on_flushed
        self._on_repaired = on_repaired
        self._repair: asyncio.Future[list[QueueRepair]] | None = None
        self._on_failed = on_failed
        self._prepared_offset = 0
        self._append_refusal = ""
        self._needed_from: list[Callable[[], int | None]] = []
        self._disk_refuse_ratio = disk_refuse_ratio
        self._full_reasons: dict[str, str] = {}
        self._known_damage: frozenset[Damage] | None = None
        self._unreadable_told = 0
        self._clock = clock
        self.last_retention: RetentionReport | None = None
        self.early_deletions = EarlyDeletions()
        self.disk_used_ratio = 0.0
        self._flushing = Loop("flush-due", self._flush, interval_s=flush_tick_seconds, clock=clock)
        self._filing = Loop(
            "file-keys", self._file_keys, interval_s=FILING_TICK_SECONDS, clock=clock
        )
        self._repairing = Loop(
            "repair-queues", self._repair_queues, interval_s=REPAIR_TICK_SECONDS, clock=clock
        )
        self._preparing = Loop(
            "prepare-segment", self._prepare, interval_s=PREPARE_SECONDS_MAX, clock=clock
        )
        self._retention = Loop(
            "retention", self._apply_retention, interval_s=RETENTION_SECONDS, clock=clock
        )

    def start(self) -> None:
        """Start all loops; the store is open."""
        self._known_damage = frozenset(self._store.damage)
        self._unreadable_told = len(self._store.unreadable)
        # Not after the first turn of retention: a disk that is full already takes nothing.
        self._look_at_disk(self._store.disk_used_ratio)
        self._flushing.start()
        self._filing.start()
        self._repairing.start(at_once=True)
        self._preparing.start(at_once=True)
        self._retention.start(at_once=True)

    async def stop(self) -> None:
        """Stop all loops; what runs in the keeper thread ends by itself.

        A repair of queues is broken off: the next start begins it anew.
        """
        if self._known_damage is not None:
            self._store.repairs.stop()
        await self._repairing.stop()
        if self._repair is not None:
            await asyncio.wait((self._repair,))
        await self._retention.stop()
        await self._preparing.stop()
        await self._filing.stop()
        await self._flushing.stop()
        if self._known_damage is not None:
            self._tell_damage()

    @property
    def refusal(self) -> str:
        """Why the store takes nothing; empty when it does."""
        if self._store.is_poisoned:
            return "a flush failed; restart the broker"
        if self.disk_used_ratio >= self._disk_refuse_ratio:
            return f"the disk is {self.disk_used_ratio:.0%} full"
        return self._append_refusal

    def appended(self, next_commit_log_offset: int) -> None:
        """The log has grown to this commit-log offset."""
        self._append_refusal = ""
        if next_commit_log_offset - self._prepared_offset >= PREPARE_STEP_BYTES:
            self._prepared_offset = next_commit_log_offset
            self._preparing.wake()
        if self._store.keeping.waiting_keys >= FILING_STEP_KEYS:
            self._filing.wake()

    def refused(self, reason: str) -> None:
        """The store had no room for an append."""
        self._append_refusal = reason

    def keep_needed(self, needed_from: Callable[[], int | None]) -> None:
        """Have retention delete nothing that somebody needs.

        Args:
            needed_from: Says from which commit-log offset on; None when nothing is needed.
        """
        self._needed_from.append(needed_from)

    @property
    def needed_from(self) -> int:
        """From which commit-log offset on somebody may need the log; on the loop.

        Records that are appended after the question are not known yet, so all of them are needed.
        """
        floors = [needed() for needed in self._needed_from]
        return min([self._store.max_offset, *(floor for floor in floors if floor is not None)])

    async def _flush(self) -> None:
        self._tell_damage()
        if await self._in_keeper("flush", self._store.keeping.flush_due):
            self._on_flushed()

    async def _file_keys(self) -> None:
        if self._store.keeping.waiting_keys:
            await self._in_keeper("file keys", self._store.keeping.file_keys)

    async def _repair_queues(self) -> None:
        """Have entries made again that lead astray: in a thread of its own, as long as it takes."""
        if not self._store.repairs.needed:
            return
        _log.warning("queue_repair_begun")
        progress = RecoveryProgress("queue_repair_progress")
        loop = asyncio.get_running_loop()
        self._repair = loop.run_in_executor(None, self._store.repairs.run, progress)
        try:
            repairs = await asyncio.shield(self._repair)
        except (StorePoisoned, StoreFull) as error:
            self._tell_failure("repair queues", error)
            return
        self._full_reasons.pop("repair queues", None)
        for repair in repairs:
            _log.warning(
                "queue_repaired",
                topic=repair.topic,
                queue_id=repair.queue_id,
                begin_queue_offset=repair.begin,
                end_queue_offset=repair.end,
                restored_count=repair.restored,
                lost_count=repair.lost,
            )
        self._on_repaired([QueueKey(repair.topic, repair.queue_id) for repair in repairs])

    async def _prepare(self) -> None:
        if await self._in_keeper("prepare", self._store.keeping.prepare_next_segment):
            self._append_refusal = ""

    async def _apply_retention(self) -> None:
        loop, keeping = asyncio.get_running_loop(), self._store.keeping
        choose = partial(keeping.plan_retention, keep_from=self.needed_from)
        try:
            plan = await loop.run_in_executor(self._keeper, choose)
            keeping.let_go(plan)
            report = await loop.run_in_executor(self._keeper, keeping.finish_retention, plan)
        except (StorePoisoned, StoreFull) as error:
            self._tell_failure("retention", error)
            return
        self._full_reasons.pop("retention", None)
        self.last_retention = report
        self.early_deletions.tell(report, self._clock.now_ms())
        self._look_at_disk(report.disk_ratio)

    def _look_at_disk(self, used: float) -> None:
        """Say when the disk becomes too full to write to, and when it is no more."""
        used_before, self.disk_used_ratio = self.disk_used_ratio, used
        limit = self._disk_refuse_ratio
        ratios = {"disk_used_ratio": round(used, 3), "disk_refuse_ratio": limit}
        if used_before < limit <= used:
            _log.warning("writes_refused", **ratios)
        elif used < limit <= used_before:
            _log.info("writes_accepted", **ratios)

    def _tell_damage(self) -> None:
        """Say what reads have found damaged or unreadable since the last time."""
        found = self._store.damage
        for damage in found:
            if damage not in (self._known_damage or ()):
                _log.warning(
                    "damage_found",
                    begin_commit_log_offset=damage.begin,
                    end_commit_log_offset=damage.end,
                    reason=damage.reason.value,
                )
        self._known_damage = frozenset(found)
        for place in self._store.unreadable[self._unreadable_told :]:
            self._unreadable_told += 1
            _log.warning(
                "file_unreadable",
                path=str(place.path),
                position=place.position,
                reason=place.reason,
            )

    async def _in_keeper(self, name: str, step: Callable[[], None]) -> bool:
        """Run a step; whether it went well."""
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._keeper, step)
        except (StorePoisoned, StoreFull) as error:
            self._tell_failure(name, error)
            return False
        self._full_reasons.pop(name, None)
        return True

    def _tell_failure(self, name: str, error: StorePoisoned | StoreFull) -> None:
        """End the broker, or say that the disk is full: once, not every time."""
        if isinstance(error, StorePoisoned):
            self._on_failed(error)
            return
        if error.reason != self._full_reasons.get(name):
            _log.error("store_full", reason=error.reason)
        self._full_reasons[name] = error.reason
