"""Watches the machine's clock, and reports jumps and their consequences.

A jump of the broker's clock makes delayed messages early or late, and messages look older or
younger than they are. Comparison with the monotonic clock, which cannot be set, shows it.
"""

from __future__ import annotations

from typing import Final

from ariane_servicekit import Clock, Loop, get_logger
from ariane_storage.disk.clock import Clock as StoreClock
from ariane_storage.log.believed_time import ClockDoubt
from ariane_storage.store import Store

WATCH_SECONDS: Final = 1.0
JUMP_MS_MIN: Final = 1000
"""Smaller jumps are not reported."""

_log = get_logger(__name__)


class ClockWatch:
    """Compares the clocks once a second."""

    def __init__(self, store: Store, clock: StoreClock, pace: Clock) -> None:
        self._store = store
        self._clock = clock
        self._seen = clock.now_ms(), clock.steady_ms()
        self._were_stamps_ahead = False
        self._logged_doubt: ClockDoubt | None = None
        self.jump_count = 0
        """Jumps of a second or more since the start."""
        self.last_jump_ms = 0
        """Size of the last jump; negative for a jump back. 0 before the first."""
        self.last_jump_at_ms = 0
        """Time of the last jump, by the clock after it."""
        self.loop = Loop("watch-clock", self.turn, interval_s=WATCH_SECONDS, clock=pace)

    @property
    def stamp_ahead_ms(self) -> int:
        """How far store timestamps are ahead of the clock."""
        return self._store.stamp_ahead_ms

    @property
    def doubted_ms(self) -> int:
        """How far the clock is ahead of the time by which messages grow old."""
        doubt = self._store.clock_doubt
        return 0 if doubt is None else doubt.ahead_ms

    async def turn(self) -> None:
        """Compare the clocks, and report what is new."""
        self._look_for_jump()
        self._log_stamps()
        self._log_doubt()

    def _look_for_jump(self) -> None:
        now_ms, steady_ms = self._clock.now_ms(), self._clock.steady_ms()
        seen, self._seen = self._seen, (now_ms, steady_ms)
        jump_ms = now_ms - seen[0] - (steady_ms - seen[1])
        if abs(jump_ms) < JUMP_MS_MIN:
            return
        self.jump_count += 1
        self.last_jump_ms, self.last_jump_at_ms = jump_ms, now_ms
        _log.warning("clock_jumped", jump_s=jump_ms / 1000, jump_count=self.jump_count)

    def _log_stamps(self) -> None:
        ahead_ms = self._store.stamp_ahead_ms
        is_ahead = ahead_ms >= JUMP_MS_MIN
        if is_ahead and not self._were_stamps_ahead:
            _log.warning(
                "store_times_ahead",
                ahead_s=ahead_ms / 1000,
                meaning="messages get the same store time until the clock has caught up",
            )
        elif self._were_stamps_ahead and not is_ahead:
            _log.info("store_times_caught_up")
        self._were_stamps_ahead = is_ahead

    def _log_doubt(self) -> None:
        doubt = self._store.clock_doubt
        if doubt is not None and doubt != self._logged_doubt:
            _log.warning(
                "clock_doubted",
                ahead_s=doubt.ahead_ms / 1000,
                meaning="what only this clock calls old is not deleted until it has stood for the"
                " retention time",
            )
        elif doubt is None and self._logged_doubt is not None:
            _log.info("clock_believed")
        self._logged_doubt = doubt
