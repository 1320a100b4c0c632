"""Virtual time: what happens when, in one order, and the trace of it."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from hashlib import blake2b
from random import Random
from typing import Any, Final, TextIO

EPOCH_MS: Final = 1_700_000_000_000
"""The wall clock at the beginning of time."""


class Timeline:
    """What is to happen, by time and then by the order in which it was asked for."""

    def __init__(self, seed: int, trace: TextIO | None = None) -> None:
        """``trace``: where each line of the trace is written to, beside its digest."""
        self.now = 0.0
        """Seconds since the beginning."""
        self.lines = 0
        """How many lines the trace has."""
        self._seed = seed
        self._events: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._order = 0
        self._digest = blake2b(digest_size=16)
        self._trace = trace

    def chance(self, name: str) -> Random:
        """Random numbers of one concern, which no other concern disturbs."""
        return Random(f"{self._seed}/{name}")

    def at(self, when: float, act: Callable[..., object], *given: Any) -> None:
        """Let something happen at a time; in the past means now."""
        self._order += 1
        heapq.heappush(self._events, (max(when, self.now), self._order, act, given))

    def after(self, seconds: float, act: Callable[..., object], *given: Any) -> None:
        """Let something happen after a while."""
        self.at(self.now + seconds, act, *given)

    def run(self, until_s: float) -> None:
        """Let happen what happens before a time."""
        while self._events and self._events[0][0] <= until_s:
            self.now, _, act, given = heapq.heappop(self._events)
            act(*given)
        self.now = max(self.now, until_s)

    def note(self, line: str) -> None:
        """Add a line to the trace."""
        text = f"{self.now:.6f} {line}\n"
        self.lines += 1
        self._digest.update(text.encode())
        if self._trace is not None:
            self._trace.write(text)

    @property
    def digest(self) -> str:
        """The trace so far, as a number that differs if a line does."""
        return self._digest.copy().hexdigest()
