"""What a client is told, and the box in which it waits for the client's stream.

Notices are hints: every one has a slow poll behind it, so an outbox keeps each of them once and
drops none.
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
    """Offsets of a group in a topic were set anew: forget positions and read them again."""

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
    """Tell your state."""

    question_id: str
    with_stacks: bool = False


@dataclass(frozen=True, slots=True)
class ConsumptionAsked:
    """Consume a message beside what you have, and tell how that went."""

    question_id: str
    consumer_group: str
    record: bytes


@dataclass(frozen=True, slots=True)
class TransactionAsked:
    """Tell how a transaction ended."""

    transaction_id: str
    record: bytes
    check_count: int


PlainNotice: TypeAlias = (
    MembershipChanged | OffsetsReset | BrokerDraining | HeartbeatHeard | ClientStateAsked
)
"""Notices that are the same for every client."""

Notice: TypeAlias = PlainNotice | TransactionAsked | ConsumptionAsked
"""What carries a message is said in the form that the client reads."""


class Outbox:
    """Notices on their way to one client; an equal one that still waits is not put twice."""

    def __init__(self) -> None:
        """Start empty and open."""
        self._notices: dict[Notice, None] = {}
        self._arrived = asyncio.Event()
        self._open = True

    @property
    def is_open(self) -> bool:
        """Whether what is put into it may still arrive."""
        return self._open

    def put(self, notice: Notice) -> None:
        """Add a notice; after ``close`` it is dropped."""
        if self._open:
            self._notices[notice] = None
            self._arrived.set()

    def close(self) -> None:
        """End the stream behind what is in the box."""
        self._open = False
        self._arrived.set()

    async def take(self) -> Notice | None:
        """The oldest notice; None when the box is closed and empty."""
        while not self._notices:
            if not self._open:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        notice = next(iter(self._notices))
        del self._notices[notice]
        return notice
