"""A client's membership of a consumer group, and the settings on which members must agree."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ariane_broker.clients.subscription import Subscription
from ariane_record.names import retry_topic


class ConsumeModel(StrEnum):
    """How a group shares messages."""

    CLUSTERING = "clustering"
    BROADCASTING = "broadcasting"
    RECEIVING = "receiving"


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """A client's membership of one consumer group."""

    consumer_group: str
    """The group."""
    model: ConsumeModel = ConsumeModel.CLUSTERING
    """How the group shares messages."""
    subscriptions: tuple[Subscription, ...] = ()
    """The topics and filters of the group."""
    ordered: bool = False
    """Whether the member consumes queues in order under the broker's lock."""
    strategy: str = ""
    """How the members share queues; empty for the client's default."""
    zone: str = ""
    """The member's machine room; may be empty."""
    owned: tuple[tuple[str, str, tuple[int, ...]], ...] = ()
    """Queues that it owns now, as topic, broker name and queue ids; other members get them."""
    keep_seconds: float = 0.0
    """How long its place is kept when it goes."""
    polls: bool = False
    """Whether the application polls for messages; otherwise a listener gets them."""

    @property
    def weight(self) -> int:
        """How much it says, about: characters of names and filters, and 4 for each queue."""
        wanted = sum(len(each.topic) + len(each.filter.text) + 16 for each in self.subscriptions)
        names = len(self.consumer_group) + len(self.strategy) + len(self.zone)
        return names + wanted + self.owned_weight

    @property
    def owned_weight(self) -> int:
        """How much of it names owned queues; that changes without the member's doing."""
        return sum(len(name) + len(broker) + 4 * len(ids) + 16 for name, broker, ids in self.owned)

    def difference(self, other: Membership) -> str:
        """The first difference in settings on which members must agree; empty if there is none."""
        if self.model is not other.model:
            return f"shares messages by {self.model.value} and not {other.model.value}"
        if self.strategy != other.strategy:
            return f"shares queues by {self.strategy!r} and not {other.strategy!r}"
        if self.ordered != other.ordered:
            return "differs in whether queues are consumed in order"
        own, others = self.wanted(), other.wanted()
        for topic in sorted(own.keys() | others.keys()):
            if own.get(topic) != others.get(topic):
                return f"wants other messages of topic {topic!r}"
        return ""

    def wanted(self) -> dict[str, object]:
        """The filter of each topic, in a form in which filters of equal meaning are equal.

        Without the group's retry topic: all its messages have passed a member's filter before.
        """
        return {
            subscription.topic: subscription.filter.meaning()
            for subscription in self.subscriptions
            if subscription.topic != retry_topic(self.consumer_group)
        }
