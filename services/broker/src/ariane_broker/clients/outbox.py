"""Notices to a client, and the outbox in which they wait for the client's stream.

Notices are hints: clients also poll slowly for each of these changes. So an outbox keeps each
notice once, and drops none.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class MembershipChanged:
    """The members of a group changed: rebalance now."""

    consumer_group: str


@dataclass(frozen=True, slots=True)
class OffsetsReset:
    """Offsets of a group in a topic were reset: forget positions and read them again."""

    consumer_group: str
    topic: str
    queue_offsets: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class BrokerDraining:
    """The broker is about to stop: go elsewhere."""

    grace_seconds: float


@dataclass(frozen=True, slots=True)
class HeartbeatHeard:
    """The answer to a heartbeat."""


@dataclass(frozen=True, slots=True)
class ClientStateAsked:
    """A question for the client's state."""

    question_id: str
    with_stacks: bool = False


@dataclass(frozen=True, slots=True)
class ConsumptionAsked:
    """A request to consume a message beside the present work, and to report the outcome."""

    question_id: str
    consumer_group: str
    record: bytes


@dataclass(frozen=True, slots=True)
class TransactionAsked:
    """A question for the outcome of a transaction."""

    transaction_id: str
    record: bytes
    check_count: int


@dataclass(frozen=True, slots=True)
class ForRelayed:
    """A question to a client that is reached by way of the one whose outbox this is in."""

    client_id: str
    notice: ClientStateAsked | ConsumptionAsked | TransactionAsked


PlainNotice: TypeAlias = (
    MembershipChanged | OffsetsReset | BrokerDraining | HeartbeatHeard | ClientStateAsked
)
"""Notices that are the same for every client."""

Notice: TypeAlias = PlainNotice | TransactionAsked | ConsumptionAsked | ForRelayed
"""Notices with a message have it in the form that the client reads."""


class Outbox:
    """Notices on their way to one client; equal notices that wait are kept once."""

    def __init__(self) -> None:
        """Start empty and open."""
        self._notices: dict[Notice, None] = {}
        self._arrived = asyncio.Event()
        self._open = True

    @property
    def is_open(self) -> bool:
        """Whether further notices may still arrive."""
        return self._open

    def put(self, notice: Notice) -> None:
        """Add a notice; after ``close`` it is dropped."""
        if self._open:
            self._notices[notice] = None
            self._arrived.set()

    def close(self) -> None:
        """End the stream once the outbox is empty."""
        self._open = False
        self._arrived.set()

    async def take(self) -> Notice | None:
        """Take the oldest notice; None when the outbox is closed and empty."""
        while not self._notices:
            if not self._open:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        notice = next(iter(self._notices))
        del self._notices[notice]
        return notice
