"""All errors of the client.

::

    ArianeError                     reason, outcome_unknown, retriable, retry_after_s, metadata
    +-- ClientNotRunning            used before it was started, or after it was closed
    +-- ClientForked                made in a parent process
    +-- ClientOnOtherLoop           started on another event loop
    +-- SendBufferFull              `send_nowait` found no room in the buffer
    +-- MessagesFailed              raised by a listener: which of its messages failed
    +-- ConsumptionHeld             raised by a listener that cannot work for a while
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

from ariane_sdk.errors.arguments import (
    BodyDamaged,
    ColumnIllegal,
    FilterIllegal,
    IllegalArgument,
    MessageIllegal,
    MessageTooLarge,
    NameIllegal,
)
from ariane_sdk.errors.calls import (
    AccessDenied,
    BatchDiffers,
    CallError,
    ConsumerOffsetRefused,
    DeadlinePassed,
    FeatureNotAvailable,
    FilterFailed,
    FilterRefused,
    FilterServersUnreachable,
    GroupNotFound,
    GroupRefused,
    MessageNotFound,
    MessagesLost,
    NameServersUnreachable,
    QueueNotFound,
    QueueOffsetOutOfRange,
    ReceiptExpired,
    RecordDamaged,
    RequestTooLarge,
    RouteNotFound,
    ServiceUnavailable,
    SinkNotFound,
    TopicExists,
    TopicNotFound,
    TopicRefused,
    TransactionDecided,
    TransactionForeign,
    TransactionNotFound,
)
from ariane_sdk.errors.clients import (
    ClientForked,
    ClientNotRunning,
    ClientOnOtherLoop,
    ConsumptionHeld,
    MessagesFailed,
    OffsetFileDamaged,
    OffsetFileInUse,
    SendBufferFull,
)
from ariane_sdk.errors.root import (
    ArianeError,
)
from ariane_sdk.errors.sending import (
    BatchSendError,
    ColumnsSendError,
    QueueOrderUnknown,
    RequestTimeout,
    SendError,
)

__all__ = [
    "AccessDenied",
    "ArianeError",
    "BatchDiffers",
    "BatchSendError",
    "BodyDamaged",
    "CallError",
    "ClientForked",
    "ClientNotRunning",
    "ClientOnOtherLoop",
    "ColumnIllegal",
    "ColumnsSendError",
    "ConsumerOffsetRefused",
    "ConsumptionHeld",
    "DeadlinePassed",
    "FeatureNotAvailable",
    "FilterFailed",
    "FilterIllegal",
    "FilterRefused",
    "FilterServersUnreachable",
    "GroupNotFound",
    "GroupRefused",
    "IllegalArgument",
    "MessageIllegal",
    "MessageNotFound",
    "MessageTooLarge",
    "MessagesFailed",
    "MessagesLost",
    "NameIllegal",
    "NameServersUnreachable",
    "OffsetFileDamaged",
    "OffsetFileInUse",
    "QueueNotFound",
    "QueueOffsetOutOfRange",
    "QueueOrderUnknown",
    "ReceiptExpired",
    "RecordDamaged",
    "RequestTimeout",
    "RequestTooLarge",
    "RouteNotFound",
    "SendBufferFull",
    "SendError",
    "ServiceUnavailable",
    "SinkNotFound",
    "TopicExists",
    "TopicNotFound",
    "TopicRefused",
    "TransactionDecided",
    "TransactionForeign",
    "TransactionNotFound",
]
