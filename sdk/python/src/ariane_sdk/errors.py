"""Everything that can go wrong in the client.

::

    ArianeError                     reason, outcome_unknown, retriable, retry_after_s, metadata
    +-- ClientNotRunning            used before it was started, or after it was closed
    +-- ClientForked                made in a parent process
    +-- SendBufferFull              `send_nowait` found no room
    +-- MessagesFailed              raised by a listener: which of its messages are not done
    +-- OffsetFileDamaged           the offsets of a broadcasting consumer cannot be read
    +-- OffsetFileInUse             another consumer uses that file
    +-- IllegalArgument (ValueError)
    |   +-- NameIllegal             a topic or group name outside the rules
    |   +-- MessageIllegal          a message that breaks a rule; it never left the client
    |   |   +-- MessageTooLarge     its body is larger than the limit
    |   +-- ColumnIllegal           a column or row of a table that cannot become messages
    |   +-- FilterIllegal           a filter expression that cannot be understood
    +-- BodyDamaged                 a compressed body cannot be decompressed, or grows too large
    +-- RequestTimeout              no reply came in time; the request may be in work
    +-- SendError                   a message was not acknowledged; may be stored if outcome_unknown
    |   +-- BatchSendError          some messages of a batch were not acknowledged
    |   +-- ColumnsSendError        some rows of a table were not acknowledged
    |   +-- QueueOrderUnknown       nobody can tell to which queues message groups belong
    +-- CallError                   a service answered with an error, or not at all
        +-- NameServersUnreachable  no name server answered
        +-- FilterServersUnreachable  no FilterServer of a broker answered
        +-- FilterRefused           an uploaded filter is not there, no filter, or quarantined
        +-- FilterFailed            an uploaded filter broke its limits or raised
        +-- ServiceUnavailable      nobody answers there now, or it is starting, draining or full
        +-- DeadlinePassed          no answer in time
        +-- RouteNotFound           no live broker carries the topic, or would create it
        +-- TopicNotFound           the broker does not know the topic
        +-- TopicExists
        +-- TopicRefused            no permission to write or read it, or reserved
        +-- QueueNotFound
        +-- QueueOffsetOutOfRange   queue_offset, min, max
        +-- MessageNotFound
        +-- RecordDamaged           a stored record fails its checksum
        +-- GroupNotFound
        +-- GroupRefused            the group does not let this member in
        +-- ConsumerOffsetRefused   some consumer offsets were not stored
        +-- TransactionDecided      the transaction ended otherwise before; outcome
        +-- TransactionNotFound     no half message is known by this id
        +-- TransactionForeign      it is another producer group's, and has no outcome yet
        +-- ReceiptExpired          another consumer has the message by now, or it is settled
        +-- BatchDiffers            the batch was committed before with other contents
        +-- SinkNotFound            no broker knows the sink of exactly-once writes
        +-- RequestTooLarge         more than the service takes in one call
        +-- AccessDenied            credentials or rights are missing
        +-- FeatureNotAvailable     the service does not do this yet

Every error says what may be done about it: ``retriable`` whether the same may succeed later, and
``outcome_unknown`` whether it may have happened nevertheless. An unknown outcome is never reported
as a failure, and a retry after it may store a message twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from ariane_sdk.message import MessageQueue, ReceivedMessage, SendResult

_NO_METADATA: Mapping[str, str] = MappingProxyType({})


class ArianeError(Exception):
    """Root of every error of this package.

    Attributes:
        reason: Why, as a word that never changes: the name of an ``ErrorReason`` of the contract
            without its prefix, or one of the client's own.
        outcome_unknown: Whether what was asked for may have happened nevertheless.
        retriable: Whether the same may succeed later, or elsewhere.
        retry_after_s: How long the service asks to wait before a retry, in seconds; 0 if it
            does not say.
        metadata: The numbers and names that the text speaks of.
    """

    reason = "UNSPECIFIED"

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        outcome_unknown: bool = False,
        retriable: bool = False,
        retry_after_s: float = 0.0,
        metadata: Mapping[str, str] = _NO_METADATA,
    ) -> None:
        super().__init__(message)
        if reason:
            self.reason = reason
        self.outcome_unknown = outcome_unknown
        self.retriable = retriable
        self.retry_after_s = retry_after_s
        self.metadata = metadata


class ClientNotRunning(ArianeError):
    """The client was used before it was started, or after it was closed."""

    reason = "CLIENT_NOT_RUNNING"


class ClientForked(ArianeError):
    """The client was made in a parent process; connections and loops do not survive a fork.

    Make clients after the fork, or start processes by "spawn" or "forkserver".
    """

    reason = "CLIENT_FORKED"


class SendBufferFull(ArianeError):
    """``send_nowait`` found no room; ``wait_for_room`` waits for some."""

    reason = "SEND_BUFFER_FULL"


class MessagesFailed(ArianeError):
    """Raised by a listener that is done with some of its messages only.

    Attributes:
        messages: Those that failed; the others are done.
        rejected: Whether another try is of no use: they become dead letters at once.
    """

    reason = "MESSAGES_FAILED"

    def __init__(
        self, messages: Iterable[ReceivedMessage], cause: str = "", *, rejected: bool = False
    ) -> None:
        """Name them; the cause is for people, and kept with the messages."""
        super().__init__(cause)
        self.messages = tuple(messages)
        self.rejected = rejected


class OffsetFileDamaged(ArianeError):
    """The file with the offsets of a broadcasting consumer cannot be read, nor the one before."""

    reason = "OFFSET_FILE_DAMAGED"


class OffsetFileInUse(ArianeError):
    """Another consumer of this host keeps its offsets in the same file."""

    reason = "OFFSET_FILE_IN_USE"


class IllegalArgument(ArianeError, ValueError):
    """The client itself refuses; nothing left it."""

    reason = "FIELD_INVALID"


class NameIllegal(IllegalArgument):
    """A topic or group name outside the rules."""

    reason = "TOPIC_NAME_ILLEGAL"


class MessageIllegal(IllegalArgument):
    """A message that breaks a rule; it never left the client."""

    reason = "MESSAGE_ILLEGAL"


class MessageTooLarge(MessageIllegal):
    """A body larger than the limit; ``size_bytes`` and ``limit_bytes`` in the metadata."""

    reason = "MESSAGE_TOO_LARGE"


class ColumnIllegal(IllegalArgument):
    """A column of a table, as a whole or at one row, cannot become messages; nothing was sent.

    Attributes:
        column: Its name in the table.
        row: Number of the first wrong row, from 0; ``None`` when the column itself is wrong.
    """

    reason = "MESSAGE_ILLEGAL"

    def __init__(self, column: str, text: str, row: int | None = None) -> None:
        place = "" if row is None else f", row {row}"
        metadata = {"column": column} | ({} if row is None else {"row": str(row)})
        super().__init__(f"column {column!r}{place}: {text}", metadata=metadata)
        self.column = column
        self.row = row


class FilterIllegal(IllegalArgument):
    """A filter expression that cannot be understood."""

    reason = "FILTER_EXPRESSION_INVALID"


class BodyDamaged(ArianeError):
    """A compressed body cannot be decompressed, or would grow beyond the limit."""

    reason = "BODY_DAMAGED"


class RequestTimeout(ArianeError):
    """No reply came in time. The request is stored, and whoever got it may have acted on it."""

    reason = "REQUEST_TIMEOUT"


class SendError(ArianeError):
    """A message was not acknowledged; with ``outcome_unknown`` it may be stored nevertheless.

    Whatever a cluster does to a send comes as this, also that nobody could be reached. The error of
    the last try is the ``__cause__``, and gives the ``reason``.
    """


class BatchSendError(SendError):
    """Some messages of a batch were not acknowledged.

    Attributes:
        outcomes: One for each message, in their order: what it got, or why it was refused.
    """

    reason = "BATCH_INCOMPLETE"

    def __init__(self, outcomes: Sequence[SendResult | ArianeError]) -> None:
        failures = [outcome for outcome in outcomes if isinstance(outcome, ArianeError)]
        first = f"; the first: {failures[0]}" if failures else ""
        super().__init__(
            f"{len(failures)} of {len(outcomes)} messages were not acknowledged{first}",
            outcome_unknown=any(failure.outcome_unknown for failure in failures),
            retriable=all(failure.retriable for failure in failures),
        )
        self.outcomes = outcomes


class ColumnsSendError(SendError):
    """Some rows of a table were not acknowledged.

    Attributes:
        outcomes: An Arrow table with a row for each that was to be sent: what ``send_columns``
            returns (null for rows that were not acknowledged), ``outcome`` (``stored``,
            ``refused``: surely not stored, ``unknown``: may be stored) and ``reason``.
        errors: The errors behind it, one for each batch that failed.
    """

    reason = "BATCH_INCOMPLETE"

    def __init__(
        self, outcomes: pa.Table, errors: Sequence[ArianeError], failure_count: int
    ) -> None:
        """Sum up; there is one error at least, and so many rows were not acknowledged."""
        super().__init__(
            f"{failure_count} of {len(outcomes)} rows were not acknowledged; the first error:"
            f" {errors[0]}",
            outcome_unknown=any(error.outcome_unknown for error in errors),
            retriable=all(error.retriable for error in errors),
        )
        self.outcomes = outcomes
        self.errors = errors


class QueueOrderUnknown(SendError):
    """Nobody could tell in time to which queues the message groups of a topic belong.

    The topic is of type FIFO and no name server that answers was ever told the order of its queues,
    or all of them have just started and do not know the topic. Another queue might be the wrong
    one, so the message was not sent.
    """

    reason = "QUEUE_ORDER_UNKNOWN"


class CallError(ArianeError):
    """A service answered with an error, or not at all.

    Subclasses name what applications tell apart; everything else comes as this, with its reason.
    """

    @property
    def unanswered(self) -> bool:
        """Whether nobody answered. A service that refuses a call has answered it."""
        return False


class NameServersUnreachable(CallError):
    """No name server answered."""

    reason = "NAME_SERVERS_UNREACHABLE"

    @property
    def unanswered(self) -> bool:
        """See ``CallError``: none of them did."""
        return True


class ServiceUnavailable(CallError):
    """Nobody answers there now, or the service is starting, draining, busy or full."""

    reason = "UNREACHABLE"

    @property
    def unanswered(self) -> bool:
        """See ``CallError``; one that says that it is starting or full has another reason."""
        return self.reason == ServiceUnavailable.reason


class DeadlinePassed(CallError):
    """No answer in time."""

    reason = "DEADLINE_PASSED"

    @property
    def unanswered(self) -> bool:
        """See ``CallError``."""
        return True


class RouteNotFound(CallError):
    """No live broker carries the topic."""

    reason = "ROUTE_NOT_FOUND"


class TopicNotFound(CallError):
    """The broker does not know the topic."""

    reason = "TOPIC_NOT_FOUND"


class TopicExists(CallError):
    """A topic of that name stands already."""

    reason = "TOPIC_EXISTS"


class TopicRefused(CallError):
    """The topic may not be written or read here, or belongs to the system."""

    reason = "TOPIC_NOT_WRITABLE"


class QueueNotFound(CallError):
    """The broker has no such message queue."""

    reason = "QUEUE_NOT_FOUND"


class QueueOffsetOutOfRange(CallError):
    """The queue offset lies outside what is kept; ``queue_offset``, ``min``, ``max``."""

    reason = "QUEUE_OFFSET_OUT_OF_RANGE"

    @property
    def min_queue_offset(self) -> int:
        """Oldest queue offset that is kept."""
        return int(self.metadata["min"])

    @property
    def max_queue_offset(self) -> int:
        """Readable end, exclusive."""
        return int(self.metadata["max"])


class MessageNotFound(CallError):
    """No broker has a message of that id."""

    reason = "MESSAGE_NOT_FOUND"


class RecordDamaged(CallError):
    """A stored record fails its checksum; never repeated."""

    reason = "RECORD_CORRUPTED"


class FilterServersUnreachable(CallError):
    """No FilterServer of a broker answered, though the broker does; offsets stay."""

    reason = "FILTER_SERVERS_UNREACHABLE"


class FilterRefused(CallError):
    """An uploaded filter does not run: it is not there, no filter, in use, or quarantined.

    ``reason`` says which; offsets stay where they are.
    """

    reason = "FILTER_QUARANTINED"


class FilterFailed(CallError):
    """A filter broke its limits or raised, and passed nothing."""

    reason = "FILTER_FAILED"


class GroupNotFound(CallError):
    """The broker does not know the group."""

    reason = "GROUP_NOT_FOUND"


class GroupRefused(CallError):
    """The group does not let this member in: another subscription, or a client id taken."""

    reason = "SUBSCRIPTION_CONFLICT"


class ConsumerOffsetRefused(CallError):
    """Some consumer offsets were not stored; the others were.

    Attributes:
        refused: Why, by message queue.
    """

    reason = "CONSUMER_OFFSET_REFUSED"

    def __init__(self, refused: Mapping[MessageQueue, CallError]) -> None:
        reasons = "; ".join(f"{queue}: {error}" for queue, error in refused.items())
        super().__init__(f"consumer offsets were refused: {reasons}")
        self.refused = refused


class TransactionDecided(CallError):
    """The transaction has another outcome already, which stands."""

    reason = "TRANSACTION_DECIDED"

    @property
    def outcome(self) -> str:
        """That outcome: "COMMIT" or "ROLLBACK"."""
        return self.metadata.get("outcome", "")


class TransactionNotFound(CallError):
    """No half message is known by this id: it never was, or it ended too long ago."""

    reason = "TRANSACTION_NOT_FOUND"


class TransactionForeign(CallError):
    """The half message is of another producer group, which alone may end it; nothing has ended."""

    reason = "TRANSACTION_FOREIGN"


class ReceiptExpired(CallError):
    """What was received is another's by now, or was settled; of a recall, it was delivered."""

    reason = "RECEIPT_HANDLE_EXPIRED"


class BatchDiffers(CallError):
    """A batch was committed before with other contents, or too long ago to tell."""

    reason = "BATCH_DIFFERS"

    @property
    def committed_count(self) -> int | None:
        """Messages of the batch that stands; ``None`` when the broker does not remember."""
        digits = self.metadata.get("committed_count", "")
        return int(digits) if digits else None


class SinkNotFound(CallError):
    """No broker knows the sink of exactly-once writes."""

    reason = "SINK_NOT_FOUND"


class RequestTooLarge(CallError):
    """More bytes, or more metadata, than the service takes in one call.

    Send less in one call. What a service takes is its settings ``receive_bytes_max`` and
    ``metadata_bytes_max``.
    """

    reason = "REQUEST_TOO_LARGE"


class AccessDenied(CallError):
    """Credentials or rights are missing."""

    reason = "ACCESS_DENIED"


class FeatureNotAvailable(CallError):
    """The service does not do this yet."""

    reason = "FEATURE_NOT_AVAILABLE"
