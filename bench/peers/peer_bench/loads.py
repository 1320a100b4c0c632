"""What is asked of a contender, and what one run of it gave."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

Shape = Literal["batches", "columns", "singles", "listener", "chunks"]
"""How messages are handed over: sent in explicit batches, as columns, or one by one and each
awaited; consumed by a call for each small batch, or in chunks as large as the client has."""


@dataclass(frozen=True, slots=True)
class Load:
    """One piece of work.

    Attributes:
        shape: How messages are handed over.
        topic: Where to, or where from.
        count: Messages.
        body_bytes: Of each body.
        in_flight: Sends, or batches, that wait for their acknowledgement at the same time.
        batch: Messages of one explicit batch.
    """

    shape: Shape
    topic: str
    count: int
    body_bytes: int
    in_flight: int = 1
    batch: int = 1000

    def on(self, topic: str) -> Load:
        """The same on another topic."""
        return replace(self, topic=topic)

    def of(self, count: int) -> Load:
        """The same with another count."""
        return replace(self, count=count)

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
    """One run of one contender.

    Attributes:
        count: Messages acknowledged, or consumed.
        seconds: What they took: of a produce, from the first send to the last acknowledgement; of
            a consume, from the first delivery to the last.
        failures: Sends that were refused, or whose outcome stayed unknown.
        lost: Messages that were acknowledged and not consumed, or not as they were sent.
        digest: Sum of the checksums of what was consumed; ``None`` where the tool gives none.
        client: What the client took.
        server: What the servers took.
        notes: What else the tool said.
    """

    count: int
    seconds: float
    failures: int = 0
    lost: int = 0
    digest: int | None = None
    client: Usage = Usage()
    server: Usage = Usage()
    notes: dict[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.count / self.seconds
