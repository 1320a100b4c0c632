"""Calls that are made again and again, and the table of how each fared in each fault."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import pairwise

PAUSE_S = 0.3  # The brokers need the processor, too.


@dataclass
class Record:
    """What became of one kind of call."""

    name: str
    """The call."""
    done_s: list[tuple[float, float]] = field(default_factory=list)
    """When each that succeeded began and ended."""
    failed: list[tuple[float, str]] = field(default_factory=list)
    """When each that failed ended, and why."""

    def succeeded(self, began_s: float | None = None) -> None:
        """Note a success; of what only arrives, the begin is its end."""
        now_s = time.monotonic()
        self.done_s.append((now_s if began_s is None else began_s, now_s))

    def refused(self, error: BaseException | str) -> None:
        """Note a failure."""
        self.failed.append((time.monotonic(), f"{type(error).__name__}: {error}"))

    def has_begun_after(self, moment_s: float) -> bool:
        """Whether a call succeeded that was begun after a moment."""
        return bool(self.done_s) and self.done_s[-1][0] > moment_s


@dataclass(frozen=True)
class Cell:
    """How one call fared in one fault."""

    wait_s: float
    """The longest time without a success, from the fault on."""
    failed: int
    """How many failed."""
    count: int
    """How many were made."""
    why: str
    """The last failure."""

    def __str__(self) -> str:
        return f"{self.wait_s:.1f} s, {self.failed} of {self.count}"


class CallTable:
    """All calls, while faults happen."""

    def __init__(self, errors: tuple[type[Exception], ...]) -> None:
        """No call is made yet; ``errors`` are what a call may fail with."""
        self.records: dict[str, Record] = {}
        self._errors = errors
        self._columns: dict[str, dict[str, Cell]] = {}

    def record(self, name: str) -> Record:
        """The record of a call, a new one the first time."""
        return self.records.setdefault(name, Record(name))

    async def make(self, name: str, call: Callable[[], Awaitable[object]]) -> bool:
        """Make a call; whether it succeeded."""
        record, began_s = self.record(name), time.monotonic()
        try:
            await call()
        except self._errors as error:
            record.refused(error)
            return False
        record.succeeded(began_s)
        return True

    async def make_for_ever(self, name: str, call: Callable[[], Awaitable[object]]) -> None:
        """Make a call again and again."""
        self.record(name)
        while True:
            await self.make(name, call)
            await asyncio.sleep(PAUSE_S)

    async def wait_for_all(self, after_s: float, within_s: float) -> None:
        """Wait until each call has succeeded that was begun after a moment.

        Raises:
            AssertionError: Some have not, within that time.
        """
        end_s = time.monotonic() + within_s
        while missing := [
            each for each in self.records.values() if not each.has_begun_after(after_s)
        ]:
            if time.monotonic() > end_s:
                why = {each.name: each.failed[-1][1] if each.failed else "" for each in missing}
                raise AssertionError(f"no success within {within_s:.0f} s: {why}")
            await asyncio.sleep(0.1)

    def note(self, fault: str, begin_s: float, end_s: float) -> None:
        """Add the column of a fault that lasted from one moment to another."""
        self._columns[fault] = {
            name: _cell(record, begin_s, end_s) for name, record in self.records.items()
        }

    @property
    def cells(self) -> dict[tuple[str, str], Cell]:
        """All cells, by call and fault."""
        return {
            (name, fault): cell
            for fault, column in self._columns.items()
            for name, cell in column.items()
        }

    def __str__(self) -> str:
        """As Markdown."""
        rows = [
            [name, *(str(column[name]) for column in self._columns.values())]
            for name in self.records
        ]
        head = ["call", *self._columns]
        return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def _cell(record: Record, begin_s: float, end_s: float) -> Cell:
    within = [end for _, end in record.done_s if begin_s <= end <= end_s]
    failed = [why for at, why in record.failed if begin_s <= at <= end_s]
    waits = [later - earlier for earlier, later in pairwise([begin_s, *within, end_s])]
    return Cell(max(waits), len(failed), len(within) + len(failed), failed[-1] if failed else "")
