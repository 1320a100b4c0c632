"""What each process of the soak says about messages, written before and after it acts.

A line is appended with one ``write`` to a file opened with ``O_APPEND``, so that ``kill -9`` loses
none. Messages have numbers, and the number of the producer says who sent it::

    producer   i 17          message 17 is about to be sent
               a 17          it was acknowledged
               u 17          the outcome of its send is unknown
               r 17          it was surely refused

    consumer   81234567890 broker-a/3 1200 p4.17      when (monotonic, ns), queue, queue offset,
                                                    message 17 of producer p4
    receiver   81234567890 broker-a/3 1200 p4.17 2    the same, and how often it was handed out;
                                                    in a second ledger what it acknowledged
    any consumer    81234567890 2.31                in a ledger of its own: when it went on after it
                                                    had stood still for seconds

A message belongs to the message group ``p4.g1``: number modulo the groups of a producer.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

GROUPS_PER_PRODUCER: Final = 4
"""Message groups of one producer; the messages take turns."""


def message_group(producer: str, number: int) -> str:
    """The message group of a producer's message."""
    return f"{producer}.g{number % GROUPS_PER_PRODUCER}"


class LedgerFile:
    """A ledger that is being written."""

    def __init__(self, path: Path) -> None:
        """Open it, and go on behind what an earlier life wrote."""
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, lines: Iterable[str]) -> None:
        """Append lines, all in one write."""
        os.write(self._descriptor, "".join(f"{line}\n" for line in lines).encode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


@dataclass(slots=True)
class SentLedger:
    """What one producer says, over all its lives."""

    intended: set[int] = field(default_factory=set)
    """Numbers that were about to be sent."""
    acknowledged: set[int] = field(default_factory=set)
    """Numbers that were acknowledged."""
    unknown: set[int] = field(default_factory=set)
    """Numbers whose send ended without an outcome."""
    refused: set[int] = field(default_factory=set)
    """Numbers that were surely not stored."""

    @classmethod
    def read(cls, path: Path) -> SentLedger:
        """Read a ledger; nothing when there is none."""
        ledger = cls()
        kinds = {
            "i": ledger.intended,
            "a": ledger.acknowledged,
            "u": ledger.unknown,
            "r": ledger.refused,
        }
        for line in _lines(path):
            kind, number = line.split()
            kinds[kind].add(int(number))
        return ledger

    @property
    def next_number(self) -> int:
        """The first number that was never intended."""
        return max(self.intended, default=-1) + 1


@dataclass(frozen=True, slots=True)
class Receipt:
    """One message, once handed to a listener."""

    time_ns: int
    """When, by the machine's monotonic clock, in nanoseconds."""
    queue: str
    """Broker and number of its queue, ``broker-a/3``."""
    queue_offset: int
    """Its index there."""
    producer: str
    """Who sent it."""
    number: int
    """Which it is of that producer."""
    attempt: int = 0
    """How often it had been handed out to a receiving group; else 0."""

    def line(self) -> str:
        """As it stands in the ledger."""
        return f"{self.time_ns} {self.queue} {self.queue_offset} {self.producer}.{self.number}"

    @classmethod
    def parse(cls, line: str) -> Receipt:
        """Read a line."""
        time_ns, queue, queue_offset, message, *attempt = line.split()
        producer, _, number = message.rpartition(".")
        return cls(
            int(time_ns), queue, int(queue_offset), producer, int(number), *map(int, attempt)
        )


def settled_path(received: Path) -> Path:
    """The second ledger of a receiving consumer."""
    return received.with_name(received.name.replace("received-", "settled-", 1))


def stalled_path(received: Path) -> Path:
    """The ledger of the times in which a consumer did not get to run."""
    return received.with_name(received.name.replace("received-", "stalled-", 1))


def read_stalls(path: Path) -> list[tuple[int, float]]:
    """When a consumer went on (monotonic, ns), and for how many seconds it had stood still."""
    pairs = map(str.split, _lines(path))
    return [(int(time_ns), float(seconds)) for time_ns, seconds in pairs]


def read_receipts(path: Path) -> list[Receipt]:
    """All receipts of one consumer over all its lives, in the order in which they happened."""
    return [Receipt.parse(line) for line in _lines(path)]


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
