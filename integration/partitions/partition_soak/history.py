"""What clients of a run did and saw.

A send ends as stored, refused or unknown, and nothing else: a time-out is unknown. Values are
unique: who sent, and which it was of that client's.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Outcome(enum.StrEnum):
    """How a send ended."""

    STORED = "stored"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Send:
    """One send."""

    client: str
    """Who; one client sends one batch after another."""
    batch: int
    """Which batch of that client: its messages were handed over together."""
    value: str
    """The body."""
    queue: int
    """The number of the queue that it was for."""
    outcome: Outcome = Outcome.UNKNOWN
    """How it ended; unknown until it has."""
    queue_offset: int = -1
    """Where it was stored."""
    commit_log_offset: int = -1
    """The same in the log."""
    broker: str = ""
    """Who acknowledged it, "host:port"."""
    repeated: bool = False
    """Whether it had been stored before, and the broker that acknowledged it knew that from its
    log: another may have stored it."""


class Entry(NamedTuple):
    """A message as somebody read it."""

    queue_offset: int
    value: str


class Poll(NamedTuple):
    """What one reader got at once."""

    reader: str
    """Who; it goes on where it was."""
    queue: int
    """The number of the queue."""
    entries: Sequence[Entry]
    """What it got, in order."""


@dataclass(slots=True)
class History:
    """All of a run."""

    sends: list[Send] = field(default_factory=list)
    """In the order in which they began."""
    polls: list[Poll] = field(default_factory=list)
    """In the order in which they ended."""
    final: dict[int, list[Entry]] = field(default_factory=dict)
    """What each queue holds when all is healed, read from its beginning."""
    epochs: list[tuple[int, int]] = field(default_factory=list)
    """Each epoch of the log with the commit-log offset where it begins, oldest first."""

    @property
    def stored(self) -> list[Send]:
        """The sends that were acknowledged."""
        return [send for send in self.sends if send.outcome is Outcome.STORED]
