"""Virtual time: what happens when, in one order, and the trace of it."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush
from random import Random
from typing import Any, Final, TextIO

EPOCH_MS: Final = 1_700_000_000_000
"""The wall clock at the beginning of time."""

NOTED_MAX: Final = 1000
"""How many lines of the trace are hashed at once, where nobody reads them."""


class Timeline:
    """What is to happen, by time and then by the order in which it was asked for."""

    def __init__(self, seed: int, trace: TextIO | None = None) -> None:
        """``trace``: where each line of the trace is written to, beside its digest."""
        self.now = 0.0
        """Seconds since the beginning."""
        self._seed = seed
        self._events: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._order = 0
        self._until_s = 0.0
        self._digest = blake2b(digest_size=16)
        self._trace = trace
        self._noted: list[str] = []
        self._noted_max = NOTED_MAX if trace is None else 1

    def chance(self, name: str) -> Random:
        """Random numbers of one concern, which no other concern disturbs."""
        return Random(f"{self._seed}/{name}")

    def at(self, when: float, act: Callable[..., object], *given: Any) -> None:
        """Let something happen at a time; in the past means now."""
        self._order += 1
        heappush(self._events, (max(when, self.now), self._order, act, given))

    def after(self, seconds: float, act: Callable[..., object], *given: Any) -> None:
        """Let something happen after a while."""
        self._order += 1
        when = self.now + seconds if seconds > 0.0 else self.now
        heappush(self._events, (when, self._order, act, given))

    def run(self, until_s: float) -> None:
        """Let happen what happens before a time."""
        events, self._until_s = self._events, until_s
        while events and events[0][0] <= until_s:
            self.now, _, act, given = heappop(events)
            act(*given)
        self.now = max(self.now, until_s)

    def pass_by(self, seconds: float) -> bool:
        """Let a while pass at once, if nothing happens in it; return whether it has passed."""
        when = self.now + seconds
        if when > self._until_s or (self._events and self._events[0][0] <= when):
            return False
        self.now = when
        return True

    def note(self, line: str) -> None:
        """Add a line to the trace."""
        self._noted.append(f"{self.now:.6f} {line}\n")
        if len(self._noted) >= self._noted_max:
            self._write()

    @property
    def digest(self) -> str:
        """The trace so far, as a number that differs if a line does."""
        self._write()
        return self._digest.copy().hexdigest()

    def _write(self) -> None:
        text = "".join(self._noted)
        self._noted.clear()
        self._digest.update(text.encode())
        if self._trace is not None:
            self._trace.write(text)
