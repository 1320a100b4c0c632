r"""The time by which messages age: the clock's, except after a recent jump ahead.

A clock that is 15 days ahead for a moment would make all messages look expired, and deletion is
final. So the clock is compared with the monotonic clock, which cannot be set; at the start, without
anything to compare with, it is compared with the times of the store's files::

    clock      |----------.                      ,-------------------->  15 days ahead
                           \                    /
    believed   |---------------------------------------.
                           ^ jump ahead: doubted        \-------------->  it has stood for
                                                                          the retention time

A jump ahead that lasts as long as messages are kept is believed: by then everything from before the
jump is old by either clock. A jump back is believed at once, because it deletes nothing. A doubt
outlives the process, in ``clock-doubt.json``::

    {"ahead_ms": 1296000000, "since_ms": 1700000000000}     since: as the doubted clock says
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from ariane_storage.disk.clock import Clock
from ariane_storage.disk.disk import Disk
from ariane_storage.errors import StateFileDamaged
from ariane_storage.state_file import StateFile

JUMP_MS: Final = 60_000
"""Smaller differences are no jumps. Clocks kept by NTP do not jump."""


class ClockDoubt(NamedTuple):
    """A clock that is doubted."""

    ahead_ms: int
    """How far it is ahead of the believed time."""
    since_ms: int
    """When it jumped, by itself."""


class BelievedTime:
    """The time for code that deletes or drops old data."""

    def __init__(self, clock: Clock, disk: Disk, path: Path, *, patience_ms: int) -> None:
        self._clock = clock
        self._file = StateFile(path, disk)
        self._patience_ms = patience_ms
        self._doubt: ClockDoubt | None = None
        self._saved: ClockDoubt | None = None
        self._believe(clock.now_ms(), clock.steady_ms())

    @property
    def doubt(self) -> ClockDoubt | None:
        """The present doubt; None if the clock is believed."""
        self.now_ms()
        return self._doubt

    def now_ms(self) -> int:
        """Milliseconds since the epoch; never ahead of the clock. Any thread."""
        now_ms, steady_ms = self._clock.now_ms(), self._clock.steady_ms()
        believed_ms, then_ms = self._believed
        expected_ms = believed_ms + steady_ms - then_ms
        ahead_ms = now_ms - expected_ms
        if ahead_ms <= JUMP_MS:
            self._believe(now_ms, steady_ms)
            return now_ms
        doubt = self._doubt
        if doubt is None or abs(ahead_ms - doubt.ahead_ms) > JUMP_MS:
            doubt = ClockDoubt(ahead_ms, now_ms)
        self._doubt = doubt
        if now_ms - doubt.since_ms >= self._patience_ms:
            self._believe(now_ms, steady_ms)
            return now_ms
        return expected_ms

    def _believe(self, now_ms: int, steady_ms: int) -> None:
        # In one assignment, because several threads call: the time and the monotonic clock then.
        self._believed = now_ms, steady_ms
        self._doubt = None

    # State that is kept across restarts.

    def resume(self, last_seen_ms: int | None) -> None:
        """Doubt a clock that was doubted before, or that is far ahead of the last write.

        A store that was closed for longer than half of the retention time looks the same as a jump:
        then old messages are deleted that much later.

        Args:
            last_seen_ms: When the store was last written to, by its files; None if unknown.
        """
        now_ms = self._clock.now_ms()
        doubt = self._load(now_ms)
        if doubt is not None and 0 <= now_ms - doubt.since_ms < self._patience_ms:
            self._believe(now_ms - doubt.ahead_ms, self._clock.steady_ms())
            self._doubt = doubt
        elif last_seen_ms is not None and now_ms - last_seen_ms > self._patience_ms // 2:
            self._believe(last_seen_ms, self._clock.steady_ms())
        self.now_ms()

    def save(self) -> None:
        """Save the doubt if it has changed; waits for the disk.

        Raises:
            OSError: The disk failed.
        """
        doubt = self._doubt
        if doubt == self._saved:
            return
        # A file with "no doubt" is safer than no file: a power loss could undo a removal.
        self._file.save({} if doubt is None else doubt._asdict())
        self._saved = doubt

    def _load(self, now_ms: int) -> ClockDoubt | None:
        """Load the saved doubt; if it is unreadable, a doubt under which nothing ages."""
        try:
            state = self._file.load()
            if state is None or state == {}:
                return None
            self._saved = ClockDoubt(int(state["ahead_ms"]), int(state["since_ms"]))
        except (StateFileDamaged, KeyError, TypeError, ValueError):
            return ClockDoubt(now_ms, now_ms)
        return self._saved
