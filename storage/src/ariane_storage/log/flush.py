"""Flushing: one flush at a time, on three intervals, and never again after a failure.

After a failed ``fsync`` the kernel has dropped the pages or marked them clean: a second call
succeeds without meaning anything. So the first failure poisons the store for good.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from ariane_storage.config import FlushMode, StoreConfig
from ariane_storage.errors import StorePoisoned

_PAGE_BYTES: Final = 4096
_REST: Final = 10
"""Between two writes of derived files there is a pause of this many times their duration."""
_DERIVED_INTERVAL_MAX_MS: Final = 60_000
_T = TypeVar("_T")


class FlushGuard:
    """Runs durability steps one at a time, and remembers the first failure. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cause: OSError | None = None

    @property
    def is_poisoned(self) -> bool:
        """Whether a flush has failed."""
        return self._cause is not None

    def check(self) -> None:
        """Raise if a flush has failed.

        Raises:
            StorePoisoned: A flush has failed.
        """
        if self._cause is not None:
            raise StorePoisoned(self._cause)

    def run(self, step: Callable[[], _T]) -> _T:
        """Run a step that makes something durable.

        Raises:
            StorePoisoned: The step failed, or one has failed before.
        """
        with self._lock:
            self.check()
            return self.watch(step)

    def watch(self, step: Callable[[], _T]) -> _T:
        """Run a step that may meet a failing disk, without waiting for flushes.

        Raises:
            StorePoisoned: The disk has failed.
        """
        try:
            return step()
        except OSError as error:
            raise self.poison(error) from error

    def poison(self, error: OSError) -> StorePoisoned:
        """The disk has failed: nothing is written any more. Returns what to raise."""
        self._cause = error
        return StorePoisoned(error)


@dataclass(slots=True)
class FlushSchedule:
    """Decides which flushes are due: the commit log by its intervals, derived files by theirs."""

    config: StoreConfig
    """Intervals and least sizes."""
    log_flushed_ms: int = 0
    """When the commit log was last flushed."""
    derived_flushed_ms: int = 0
    """When derived files were last written."""
    derived_took_ms: int = 0
    """How long that took."""

    def log_due(self, now_ms: int, waiting_bytes: int) -> bool:
        """Whether the commit log is due for a flush.

        Under ``FlushMode.SYNC`` those who wait for an acknowledgement flush; this covers records
        for which no caller waits.

        Args:
            now_ms: The time.
            waiting_bytes: Bytes that are written and not flushed.
        """
        config = self.config
        elapsed = now_ms - self.log_flushed_ms
        if waiting_bytes <= 0 or 0 <= elapsed < config.flush_interval_ms:
            return False
        enough = waiting_bytes >= config.flush_least_pages * _PAGE_BYTES
        thorough = not 0 <= elapsed < config.flush_thorough_interval_ms
        return enough or thorough or config.flush_mode is FlushMode.SYNC

    def derived_due(self, now_ms: int) -> bool:
        """Whether consume queues, index and checkpoint are due.

        Ten thousand queues take longer than a few: to spare concurrent appends, this takes at most
            a tenth of the time.
        """
        wait_ms = max(self.config.derived_interval_ms, _REST * self.derived_took_ms)
        elapsed = now_ms - self.derived_flushed_ms
        return not 0 <= elapsed < min(wait_ms, _DERIVED_INTERVAL_MAX_MS)
