"""What clients have done and seen, as the oracle needs it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Place(NamedTuple):
    """Where a message lies."""

    topic: str
    broker: str
    queue_id: int
    offset: int


@dataclass(slots=True)
class Sent:
    """A message that was sent.

    Attributes:
        value: Its body, of which there is only one.
        group: Its message group; empty for none.
        number: Its place among those of its sender.
        sent_s: When, by the world's clock.
        due_s: Before when nobody may get it.
        outcome: "open", "acknowledged", "unknown", "refused" or "rolled back".
        place: Where it was said to lie.
    """

    value: str
    topic: str
    group: str
    number: int
    sent_s: float
    due_s: float = 0.0
    outcome: str = "open"
    place: Place | None = None


class Delivered(NamedTuple):
    """A message that a consumer got."""

    at_s: float
    group: str
    member: str
    place: Place
    value: str


@dataclass(slots=True)
class History:
    """All of it.

    Attributes:
        sent: Messages by value.
        delivered: In order.
        groups: Topics of each consumer group.
        ordered: Groups that consume in order.
        seen: Values that each group has got.
        set_ahead_s: How far clocks of brokers were set ahead, all together.
        settled: When a receiving group was told that a message is settled, by group and value.
    """

    sent: dict[str, Sent] = field(default_factory=dict)
    delivered: list[Delivered] = field(default_factory=list)
    groups: dict[str, list[str]] = field(default_factory=dict)
    ordered: set[str] = field(default_factory=set)
    seen: dict[str, dict[str, None]] = field(default_factory=dict)
    settled: dict[tuple[str, str], float] = field(default_factory=dict)
    set_ahead_s: float = 0.0

    def take_part(self, group: str, topics: list[str], *, ordered: bool) -> None:
        """A group is to get all messages of some topics."""
        self.groups[group] = topics
        self.seen.setdefault(group, {})
        if ordered:
            self.ordered.add(group)

    def end_sender(self, prefix: str) -> None:
        """A sender has ended, perhaps killed: nobody will hear what became of what it sent."""
        for value, sent in self.sent.items():
            if sent.outcome == "open" and value.startswith(prefix):
                sent.outcome = "unknown"

    def deliver(self, delivered: Delivered) -> None:
        """A consumer has got a message."""
        self.delivered.append(delivered)
        self.seen[delivered.group][delivered.value] = None

    @property
    def acknowledged(self) -> list[Sent]:
        """Those whose senders were told that they are stored."""
        return [sent for sent in self.sent.values() if sent.outcome == "acknowledged"]

    def missing(self, group: str) -> list[Sent]:
        """Acknowledged messages that a group has not got yet."""
        seen, topics = self.seen[group], self.groups[group]
        return [s for s in self.acknowledged if s.value not in seen and s.topic in topics]
