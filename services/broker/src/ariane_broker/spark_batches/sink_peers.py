"""The other brokers of a query, as this one asks and notifies them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ariane_broker.spark_batches.records.batch_records import BatchKey, Contents, NamedAttempt
from ariane_broker.spark_batches.records.sink_homes import SinkHome
from ariane_servicekit import ServicekitError


class PeerGone(ServicekitError):
    """No name server knows the broker: it has been away for some time, or never was there."""


class HomeElsewhere(ServicekitError):
    """A broker takes no word from this one: the query has another home."""

    def __init__(self, home: SinkHome) -> None:
        super().__init__(f"broker {home.broker_name} is the home now")
        self.home = home
        """That home, without its batches."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a preparation."""

    decided: bool
    """Whether it is known."""
    contents: Contents | None = None
    """What is committed; None: it never will be."""


class SinkPeers(Protocol):
    """Calls to other brokers, by their names.

    All raise:
        PeerGone: No name server knows the broker.
        HomeElsewhere: The query has another home.
        ServiceError: PEER_UNREACHABLE, or what the broker answered.
    """

    async def prepare(
        self,
        broker_name: str,
        batch: BatchKey,
        home: SinkHome,
        decision_id: int,
        attempts: Sequence[NamedAttempt],
    ) -> None:
        """Have a broker keep its part of a batch for the decision."""
        ...

    async def publish(
        self,
        broker_name: str,
        batch: BatchKey,
        home: SinkHome,
        contents: Contents,
        *,
        until_visible: bool = False,
    ) -> None:
        """Tell a broker that a batch is committed."""
        ...

    async def fate_of(self, broker_name: str, batch: BatchKey, decision_id: int) -> Fate:
        """Ask the home what became of a preparation."""
        ...

    async def note_home(
        self, broker_name: str, query_id: str, topic: str, home: SinkHome
    ) -> SinkHome:
        """Have a broker note a home; return the home that counts there, with what it knows."""
        ...
