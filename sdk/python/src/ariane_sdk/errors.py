"""All errors of the client.

::

    ArianeError                     reason, outcome_unknown, retriable, retry_after_s, metadata
    +-- ClientNotRunning            used before it was started, or after it was closed
    +-- ClientForked                made in a parent process
    +-- SendBufferFull              `send_nowait` found no room in the buffer
    +-- MessagesFailed              raised by a listener: which of its messages failed
    +-- OffsetFileDamaged           the offsets of a broadcasting consumer cannot be read
    +-- OffsetFileInUse             another consumer uses that file
    +-- IllegalArgument (ValueError)
    |   +-- NameIllegal             a topic or group name outside the rules
    |   +-- MessageIllegal          a message that breaks a rule; it was not sent
    |   |   +-- MessageTooLarge     its body is larger than the limit
    |   +-- ColumnIllegal           a column or row of a table that cannot become messages
    |   +-- FilterIllegal           a filter expression that is invalid
    +-- BodyDamaged                 a compressed body cannot be decompressed, or grows too large
    +-- RequestTimeout              no reply came in time; a consumer may have the request
    +-- SendError                   a message was not acknowledged; may be stored if outcome_unknown
    |   +-- BatchSendError          some messages of a batch were not acknowledged
    |   +-- ColumnsSendError        some rows of a table were not acknowledged
    |   +-- QueueOrderUnknown       no name server could tell the queues of message groups
    +-- CallError                   a service answered with an error, or not at all
        +-- NameServersUnreachable  no name server answered
        +-- FilterServersUnreachable  no FilterServer of a broker answered
        +-- FilterRefused           an uploaded filter is missing, invalid or quarantined
        +-- FilterFailed            a filter exceeded its limits or raised
        +-- ServiceUnavailable      unreachable, starting, draining, busy or full
        +-- DeadlinePassed          no answer in time
        +-- RouteNotFound           no live broker has the topic, or would create it
        +-- TopicNotFound           the broker does not know the topic
        +-- TopicExists
        +-- TopicRefused            no permission to write or read the topic, or it is reserved
        +-- QueueNotFound
        +-- QueueOffsetOutOfRange   queue_offset, min, max
        +-- MessageNotFound
        +-- RecordDamaged           a stored record fails its checksum
        +-- MessagesLost            a broker has lost messages, and that is to be an error
        +-- GroupNotFound
        +-- GroupRefused            the group does not accept this member
        +-- ConsumerOffsetRefused   some consumer offsets were not stored
        +-- TransactionDecided      the transaction already has another outcome
        +-- TransactionNotFound     no half message with this id is known
        +-- TransactionForeign      it belongs to another producer group, and has no outcome yet
        +-- ReceiptExpired          another consumer has the message by now, or it is settled
        +-- BatchDiffers            the batch was committed earlier with other contents
        +-- SinkNotFound            no broker knows the sink of exactly-once writes
        +-- RequestTooLarge         more than the service accepts in one call
        +-- AccessDenied            credentials or rights are missing
        +-- FeatureNotAvailable     the service does not support this yet

Every error says what may be done about it: ``retriable`` whether the same call may succeed later,
``outcome_unknown`` whether it may have taken effect nevertheless. An unknown outcome is never
reported as a failure, and a retry after it may store a message twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import pyarrow as pa

    from ariane_sdk.message import ReceivedMessage, SendResult
    from ariane_sdk.message_queue import MessageQueue

_NO_METADATA: Mapping[str, str] = MappingProxyType({})


class ArianeError(Exception):
    """Root of all errors of this package.

    Attributes:
        reason: The reason, as a word that never changes: the name of an ``ErrorReason`` of the
            contract without its prefix, or one of the client's own.
        outcome_unknown: Whether the call may have taken effect nevertheless.
        retriable: Whether the same call may succeed later, or elsewhere.
        retry_after_s: How long the service asks to wait before a retry, in seconds; 0 if it does
            not say.
        metadata: The numbers and names in the text.
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
    """The client was created in a parent process; connections and loops do not survive a fork.

    Create clients after the fork, or start processes by "spawn" or "forkserver".
    """

    reason = "CLIENT_FORKED"


class SendBufferFull(ArianeError):
    """``send_nowait`` found no room in the buffer; ``wait_for_room`` waits for some."""

    reason = "SEND_BUFFER_FULL"


class MessagesFailed(ArianeError):
    """Raised by a listener that has failed only for some of its messages.

    Attributes:
        messages: The messages that failed; the others are done.
        rejected: Whether another try is useless: they become dead letters at once.
    """

    reason = "MESSAGES_FAILED"

    def __init__(
        self, messages: Iterable[ReceivedMessage], cause: str = "", *, rejected: bool = False
    ) -> None:
        """Name the failed messages; the cause is for people, and stored with them."""
        super().__init__(cause)
        self.messages = tuple(messages)
        self.rejected = rejected


class OffsetFileDamaged(ArianeError):
    """The offset file of a broadcasting consumer is unreadable, and so is its previous version."""

    reason = "OFFSET_FILE_DAMAGED"


class OffsetFileInUse(ArianeError):
    """Another consumer of this host uses the same offset file."""

    reason = "OFFSET_FILE_IN_USE"


class IllegalArgument(ArianeError, ValueError):
    """The client itself refuses the call; nothing was sent."""

    reason = "FIELD_INVALID"


class NameIllegal(IllegalArgument):
    """A topic or group name outside the rules."""

    reason = "TOPIC_NAME_ILLEGAL"


class MessageIllegal(IllegalArgument):
    """A message that breaks a rule; it was not sent."""

    reason = "MESSAGE_ILLEGAL"


class MessageTooLarge(MessageIllegal):
    """A body larger than the limit; ``size_bytes`` and ``limit_bytes`` in the metadata."""

    reason = "MESSAGE_TOO_LARGE"


class ColumnIllegal(IllegalArgument):
    """A column of a table, as a whole or in one row, cannot become messages; nothing was sent.

    Attributes:
        column: Its name in the table.
        row: Number of the first wrong row, from 0; ``None`` if the column itself is wrong.
    """

    reason = "MESSAGE_ILLEGAL"

    def __init__(self, column: str, text: str, row: int | None = None) -> None:
        place = "" if row is None else f", row {row}"
        metadata = {"column": column} | ({} if row is None else {"row": str(row)})
        super().__init__(f"column {column!r}{place}: {text}", metadata=metadata)
        self.column = column
        self.row = row


class FilterIllegal(IllegalArgument):
    """A filter expression is invalid."""

    reason = "FILTER_EXPRESSION_INVALID"


class BodyDamaged(ArianeError):
    """A compressed body cannot be decompressed, or would grow beyond the limit."""

    reason = "BODY_DAMAGED"


class RequestTimeout(ArianeError):
    """No reply came in time. The request is stored, and a consumer may have acted on it."""

    reason = "REQUEST_TIMEOUT"


class SendError(ArianeError):
    """A message was not acknowledged; with ``outcome_unknown``, it may be stored nevertheless.

    Every failure of a send in the cluster is of this class, including that no service could be
    reached. The error of the last try is its ``__cause__`` and gives its ``reason``.
    """


class BatchSendError(SendError):
    """Some messages of a batch were not acknowledged.

    Attributes:
        outcomes: One for each message, in their order: its result, or its error.
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
        outcomes: An Arrow table with a row for each row to be sent: the columns of ``send_columns``
            (null for rows that were not acknowledged), ``outcome`` (``stored``; ``refused``:
            certainly not stored; ``unknown``: may be stored) and ``reason``.
        errors: The underlying errors, one for each batch that failed.
    """

    reason = "BATCH_INCOMPLETE"

    def __init__(
        self, outcomes: pa.Table, errors: Sequence[ArianeError], failure_count: int
    ) -> None:
        """Sum up at least one error; ``failure_count`` rows were not acknowledged."""
        super().__init__(
            f"{failure_count} of {len(outcomes)} rows were not acknowledged; the first error:"
            f" {errors[0]}",
            outcome_unknown=any(error.outcome_unknown for error in errors),
            retriable=all(error.retriable for error in errors),
        )
        self.outcomes = outcomes
        self.errors = errors


class QueueOrderUnknown(SendError):
    """No name server could tell in time to which queues the message groups of a topic belong.

    The topic is of type FIFO, and no name server that answers has the order of its queues; or all
    of them have just started and do not know the topic. Another queue might be the wrong one, so
    the message was not sent.
    """

    reason = "QUEUE_ORDER_UNKNOWN"


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


class RouteNotFound(CallError):
    """No live broker has the topic."""

    reason = "ROUTE_NOT_FOUND"


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
    """Some consumer offsets were not stored; the others were.

    Attributes:
        refused: The error of each, by message queue.
    """

    reason = "CONSUMER_OFFSET_REFUSED"

    def __init__(self, refused: Mapping[MessageQueue, CallError]) -> None:
        reasons = "; ".join(f"{queue}: {error}" for queue, error in refused.items())
        super().__init__(f"consumer offsets were refused: {reasons}")
        self.refused = refused


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
