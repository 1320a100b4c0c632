"""Flushing: one at a time, on three clocks, and never again after one has failed.

After a failed ``fsync`` the kernel has dropped the pages or marked them clean: calling it again
succeeds and means nothing. So the first failure poisons the store, for ever.
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
"""Derived files rest so many times as long as writing them took."""
_DERIVED_INTERVAL_MAX_MS: Final = 60_000
_T = TypeVar("_T")


class FlushGuard:
    """Runs what touches durability one at a time, and remembers the first failure. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cause: OSError | None = None

    @property
    def is_poisoned(self) -> bool:
        """Whether a flush has failed."""
        return self._cause is not None

    def check(self) -> None:
        """Go on only if no flush has failed.

        Raises:
            StorePoisoned: One has.
        """
        if self._cause is not None:
            raise StorePoisoned(self._cause)

    def run(self, step: Callable[[], _T]) -> _T:
        """Run a step that makes something durable.

        Raises:
            StorePoisoned: It failed, or one has failed before.
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
            self._cause = error
            raise StorePoisoned(error) from error


@dataclass(slots=True)
class FlushSchedule:
    """What is due: the commit log every so often, derived files on their own clock.

    Attributes:
        config: Intervals and least sizes.
        log_flushed_ms: When the commit log was flushed last.
        derived_flushed_ms: When derived files were.
        derived_took_ms: How long that took.
    """

    config: StoreConfig
    log_flushed_ms: int = 0
    derived_flushed_ms: int = 0
    derived_took_ms: int = 0

    def log_due(self, now_ms: int, waiting_bytes: int) -> bool:
        """Whether the commit log is to be flushed now.

        Under ``FlushMode.SYNC`` whoever waits for an acknowledgement flushes, and this only sees
        to what nobody waits for.

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
        """Whether consume queues, index and checkpoint are to be written now.

        Ten thousand queues take longer than a few: appends beside must not feel it, so that a tenth
        of the time is the most that this takes.
        """
        wait_ms = max(self.config.derived_interval_ms, _REST * self.derived_took_ms)
        elapsed = now_ms - self.derived_flushed_ms
        return not 0 <= elapsed < min(wait_ms, _DERIVED_INTERVAL_MAX_MS)
