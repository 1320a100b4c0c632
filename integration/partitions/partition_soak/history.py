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
    """One send.

    Attributes:
        client: Who; one client sends one batch after another.
        batch: Which batch of that client: its messages were handed over together.
        value: The body.
        queue: The number of the queue that it was for.
        outcome: How it ended; unknown until it has.
        queue_offset: Where it was stored.
        commit_log_offset: The same in the log.
        broker: Who acknowledged it, "host:port".
        repeated: Whether it had been stored before, and the broker that acknowledged it knew that
            from its log: another may have stored it.
    """

    client: str
    batch: int
    value: str
    queue: int
    outcome: Outcome = Outcome.UNKNOWN
    queue_offset: int = -1
    commit_log_offset: int = -1
    broker: str = ""
    repeated: bool = False


class Entry(NamedTuple):
    """A message as somebody read it."""

    queue_offset: int
    value: str


class Poll(NamedTuple):
    """What one reader got at once.

    Attributes:
        reader: Who; it goes on where it was.
        queue: The number of the queue.
        entries: What it got, in order.
    """

    reader: str
    queue: int
    entries: Sequence[Entry]


@dataclass(slots=True)
class History:
    """All of a run.

    Attributes:
        sends: In the order in which they began.
        polls: In the order in which they ended.
        final: What each queue holds when all is healed, read from its beginning.
        epochs: Each epoch of the log with the commit-log offset where it begins, oldest first.
    """

    sends: list[Send] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    final: dict[int, list[Entry]] = field(default_factory=dict)
    epochs: list[tuple[int, int]] = field(default_factory=list)

    @property
    def stored(self) -> list[Send]:
        """The sends that were acknowledged."""
        return [send for send in self.sends if send.outcome is Outcome.STORED]
