"""What is asked of a contender, and what one run of it gave."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

Shape = Literal[
    "batches", "columns", "singles", "transactions", "each", "listener", "chunks", "receive"
]
"""How messages are handed over: sent in explicit batches, as columns, one by one and each awaited,
or each in a transaction that commits at once; consumed by a call for each message, or for each
small batch, in chunks as large as the client has, or received without owning queues, in batches
that are acknowledged."""


@dataclass(frozen=True, slots=True)
class Load:
    """One piece of work."""

    shape: Shape
    """How messages are handed over."""
    topic: str
    """Where to, or where from."""
    count: int
    """Messages."""
    body_bytes: int
    """Of each body."""
    in_flight: int = 1
    """Sends, or batches, that wait for their acknowledgement at the same time."""
    batch: int = 1000
    """Messages of one explicit batch."""
    rows: int = 16_384
    """Of a table, where columns are sent."""
    topics: int = 1
    """How many topics they go to in turn; the names of more than one have numbers."""
    groups: int = 1
    """How many groups consume all of it, at the same time."""
    group: str = ""
    """Who consumes all legs, whose topics are the same ones then, and what comes between them;
    empty: each leg has new topics, and a new group."""
    rate: int = 0
    """Messages a second of a schedule that waits for nobody; 0: as fast as can be."""
    warm_up_count: int = 0
    """How many of a schedule's first messages are not looked at."""
    delay_ms: int = 0
    """With a schedule: each message is to be delivered that long after it was due to be sent, and
    up to twice that long, in turn; 0: at once."""
    until_ready: bool = False
    """Whether who sent waits, when all is acknowledged, until all can be consumed."""

    def on(self, topic: str) -> Load:
        """The same on another topic."""
        return replace(self, topic=topic)

    def of(self, count: int) -> Load:
        """The same with another count."""
        return replace(self, count=count)

    def for_seconds(self, seconds: float, warm_up_s: float) -> Load:
        """The same schedule, for so long after so long."""
        warm_up_count = round(self.rate * warm_up_s)
        count = warm_up_count + round(self.rate * seconds)
        return replace(self, count=count, warm_up_count=warm_up_count)

    def asked(self) -> dict[str, Any]:
        """The load as a driver is asked for it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Usage:
    """What processes took: CPU seconds within a leg, and the largest memory until its end."""

    cpu_s: float = 0.0
    peak_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Leg:
    """One run of one contender."""

    count: int
    """Messages acknowledged, or consumed."""
    seconds: float
    """What they took: of a produce, from the first send to the last acknowledgement; of a consume,
    from the first delivery to the last."""
    failures: int = 0
    """Sends that were refused, or whose outcome stayed unknown."""
    lost: int = 0
    """Messages that were acknowledged and not consumed, or not as they were sent."""
    digest: int | None = None
    """Sum of the checksums of what was consumed; ``None`` where the tool gives none."""
    client: Usage = Usage()
    """What the client took."""
    server: Usage = Usage()
    """What the servers took."""
    ready_s: float = 0.0
    """Of a produce that was asked for it: from the first send until all can be consumed."""
    notes: dict[str, float] = field(default_factory=dict)
    """What else it says: of a schedule, the percentiles in milliseconds."""

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.count / self.seconds
