"""Errors of calls to services."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, ClassVar, Final, Self

from ariane_sdk.errors.root import ArianeError

if TYPE_CHECKING:
    from ariane_sdk.message_queue import MessageQueue


class CallError(ArianeError):
    """A service answered with an error, or not at all.

    There are subclasses for errors that applications distinguish; the others are of this class,
    with their reason.
    """

    _has_answer: ClassVar[bool] = True

    @property
    def unanswered(self) -> bool:
        """Whether no service answered. A service that refuses a call has answered it."""
        return not self._has_answer


class NameServersUnreachable(CallError):
    """No name server answered."""

    reason = "NAME_SERVERS_UNREACHABLE"
    _has_answer = False


class ServiceUnavailable(CallError):
    """The service is unreachable, starting, draining, busy or full."""

    reason = "UNREACHABLE"

    @property
    def unanswered(self) -> bool:
        """See ``CallError``; a service that is starting or full answers with another reason."""
        return self.reason == ServiceUnavailable.reason


class DeadlinePassed(CallError):
    """No answer in time."""

    reason = "DEADLINE_PASSED"
    _has_answer = False


KNOWN_TO_EXIST: Final = frozenset({"queue_order", "away_brokers"})
"""Metadata that say why a topic without a route exists."""

MAY_COME_BACK: Final = KNOWN_TO_EXIST | {"warming_up"}
"""The same, or why it may."""


class RouteNotFound(CallError):
    """No live broker has the topic."""

    reason = "ROUTE_NOT_FOUND"

    @property
    def may_come_back(self) -> bool:
        """Whether the topic may exist nevertheless, so that nobody should create it elsewhere.

        Name servers have just started, know the order of its queues, or remember a broker that had
        it and is away. Then the error is retriable.
        """
        return not MAY_COME_BACK.isdisjoint(self.metadata)

    @property
    def away_brokers(self) -> frozenset[str]:
        """Names of brokers, a few at most, that had the topic and may come back."""
        return frozenset(filter(None, self.metadata.get("away_brokers", "").split(",")))

    @classmethod
    def still_at(cls, topic: str, broker_names: Collection[str]) -> Self:
        """The error for a topic that was deleted, but at brokers that are away."""
        names = sorted(broker_names)
        return cls(
            f"no live broker has topic {topic!r} any more, but {', '.join(names)} had it and may"
            f" come back with it: delete it again then, or else: ariane broker forget {names[0]}",
            retriable=True,
            metadata={"topic": topic, "away_brokers": ",".join(names)},
        )


class TopicNotFound(CallError):
    """The broker does not know the topic."""

    reason = "TOPIC_NOT_FOUND"


class TopicExists(CallError):
    """A topic with that name exists already."""

    reason = "TOPIC_EXISTS"


class TopicRefused(CallError):
    """The topic may not be written or read here, or belongs to the system."""

    reason = "TOPIC_NOT_WRITABLE"


class QueueNotFound(CallError):
    """The broker has no such message queue."""

    reason = "QUEUE_NOT_FOUND"


class QueueOffsetOutOfRange(CallError):
    """The queue offset is outside of what is kept; ``queue_offset``, ``min``, ``max``."""

    reason = "QUEUE_OFFSET_OUT_OF_RANGE"

    @property
    def min_queue_offset(self) -> int:
        """The oldest queue offset that is kept."""
        return int(self.metadata["min"])

    @property
    def max_queue_offset(self) -> int:
        """The readable end, exclusive."""
        return int(self.metadata["max"])


class MessageNotFound(CallError):
    """No broker has a message with that id."""

    reason = "MESSAGE_NOT_FOUND"


class RecordDamaged(CallError):
    """A stored record fails its checksum; the call is never repeated."""

    reason = "RECORD_CORRUPTED"


class MessagesLost(CallError):
    """A broker has lost messages; only if the client is to fail then. Offsets stay before them."""


class FilterServersUnreachable(CallError):
    """A broker answers, but none of its FilterServers does; offsets stay."""

    reason = "FILTER_SERVERS_UNREACHABLE"


class FilterRefused(CallError):
    """An uploaded filter does not run: it is missing, invalid, in use, or quarantined.

    ``reason`` says which; offsets stay.
    """

    reason = "FILTER_QUARANTINED"


class FilterFailed(CallError):
    """A filter exceeded its limits or raised, and passed nothing."""

    reason = "FILTER_FAILED"


class GroupNotFound(CallError):
    """The broker does not know the group."""

    reason = "GROUP_NOT_FOUND"


class GroupRefused(CallError):
    """The group does not accept this member: other subscriptions, or a client id in use."""

    reason = "SUBSCRIPTION_CONFLICT"


class ConsumerOffsetRefused(CallError):
    """Some consumer offsets were not stored; the others were."""

    reason = "CONSUMER_OFFSET_REFUSED"

    def __init__(self, refused: Mapping[MessageQueue, CallError]) -> None:
        reasons = "; ".join(f"{queue}: {error}" for queue, error in refused.items())
        super().__init__(f"consumer offsets were refused: {reasons}")
        self.refused = refused
        """The error of each, by message queue."""


class TransactionDecided(CallError):
    """The transaction already has another outcome, which stands."""

    reason = "TRANSACTION_DECIDED"

    @property
    def outcome(self) -> str:
        """That outcome: "COMMIT" or "ROLLBACK"."""
        return self.metadata.get("outcome", "")


class TransactionNotFound(CallError):
    """No half message with this id is known: it never existed, or it ended too long ago."""

    reason = "TRANSACTION_NOT_FOUND"


class TransactionForeign(CallError):
    """The half message belongs to another producer group, which alone may end it."""

    reason = "TRANSACTION_FOREIGN"


class ReceiptExpired(CallError):
    """Another consumer has the message, or it was settled; of a recall, it was delivered."""

    reason = "RECEIPT_HANDLE_EXPIRED"


class BatchDiffers(CallError):
    """A batch was committed earlier with other contents, or too long ago to tell."""

    reason = "BATCH_DIFFERS"

    @property
    def committed_count(self) -> int | None:
        """Messages of the committed batch; ``None`` if the broker does not remember."""
        digits = self.metadata.get("committed_count", "")
        return int(digits) if digits else None


class SinkNotFound(CallError):
    """No broker knows the sink of exactly-once writes."""

    reason = "SINK_NOT_FOUND"


class RequestTooLarge(CallError):
    """More bytes, or more metadata, than the service accepts in one call.

    Send less in one call. The limits are the service's settings ``receive_bytes_max`` and
    ``metadata_bytes_max``.
    """

    reason = "REQUEST_TOO_LARGE"


class AccessDenied(CallError):
    """Credentials or rights are missing."""

    reason = "ACCESS_DENIED"


class FeatureNotAvailable(CallError):
    """The service does not support this yet."""

    reason = "FEATURE_NOT_AVAILABLE"
