"""The table of public errors: one row for each ``ariane.common.v1.ErrorReason``.

What a caller can rely on is defined here and nowhere else: the gRPC code, whether the same call may
be repeated, whether it may have had an effect, and what a person can do. Reasons are append-only,
and so are rows. ``docs/errors.md`` shows this table, and the SDK has its inverse.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from grpc import StatusCode

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit.error_row import ErrorRow

_ROWS: Final = (
    ErrorRow(
        ErrorReason.ERROR_REASON_INTERNAL_FAULT,
        StatusCode.INTERNAL,
        "Look for the request id in the log of the service.",
        outcome_unknown=True,
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_FIELD_INVALID,
        StatusCode.INVALID_ARGUMENT,
        "Correct the named field of the request.",
        field="request",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_FEATURE_NOT_AVAILABLE,
        StatusCode.UNIMPLEMENTED,
        "Do without the feature, or use a later version of the service.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_SERVICE_STARTING,
        StatusCode.UNAVAILABLE,
        "Wait until health says SERVING, or go to another broker.",
        retriable=True,
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_SERVICE_DRAINING,
        StatusCode.UNAVAILABLE,
        "Go to another broker.",
        retriable=True,
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_SERVICE_BUSY,
        StatusCode.RESOURCE_EXHAUSTED,
        "Wait as RetryInfo says; make fewer calls at a time.",
        retriable=True,
        retry_after_ms=200,
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_DEADLINE_PASSED,
        StatusCode.DEADLINE_EXCEEDED,
        "Give the call a later deadline.",
        retriable=True,
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_CREDENTIALS_INVALID,
        StatusCode.UNAUTHENTICATED,
        "Check the configured credentials and the clock of the client.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_ACCESS_DENIED,
        StatusCode.PERMISSION_DENIED,
        "Grant the right to the caller.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_TOPIC_NAME_ILLEGAL,
        StatusCode.INVALID_ARGUMENT,
        "Use 1 to 127 characters of A-Z a-z 0-9 _ and -.",
        field="topic",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_TOPIC_NOT_FOUND,
        StatusCode.NOT_FOUND,
        "Create the topic, or refresh the route: the topic may live on another broker.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_TOPIC_EXISTS,
        StatusCode.ALREADY_EXISTS,
        "Choose another name, or update the existing topic.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_TOPIC_RESERVED,
        StatusCode.PERMISSION_DENIED,
        "Choose a name that the system does not reserve.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_TOPIC_NOT_WRITABLE,
        StatusCode.PERMISSION_DENIED,
        "Refresh the route and send to another broker, or give the topic write permission.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_TOPIC_NOT_READABLE,
        StatusCode.PERMISSION_DENIED,
        "Give the topic read permission.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_QUEUE_NOT_FOUND,
        StatusCode.NOT_FOUND,
        "Refresh the route: the topic's queue count differs.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_MESSAGE_TYPE_MISMATCH,
        StatusCode.FAILED_PRECONDITION,
        "Send to a topic of the message's type.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_TOPIC_LIMIT_REACHED,
        StatusCode.FAILED_PRECONDITION,
        "Delete unused topics, or start the broker with a higher limit in the named setting.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_MESSAGE_TOO_LARGE,
        StatusCode.INVALID_ARGUMENT,
        "Send a smaller message, or raise the limit of the broker.",
        field="messages",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_MESSAGE_ILLEGAL,
        StatusCode.INVALID_ARGUMENT,
        "Correct the message at the named position.",
        field="messages",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_BLOCK_CORRUPTED,
        StatusCode.INVALID_ARGUMENT,
        "Check the encoder that packed the block against docs/formats.md.",
        field="table",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_STORE_FULL,
        StatusCode.RESOURCE_EXHAUSTED,
        "Free disk space or shorten the retention; meanwhile send to another broker.",
        retriable=True,
        retry_after_ms=5_000,
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_STORE_POISONED,
        StatusCode.UNAVAILABLE,
        "Check the disk, then restart the broker; meanwhile go to another broker.",
        retriable=True,
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_FLUSH_UNCONFIRMED,
        StatusCode.DEADLINE_EXCEEDED,
        "Send again only if the message may be stored twice, or with a producer sequence.",
        outcome_unknown=True,
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_REPLICATION_UNCONFIRMED,
        StatusCode.DEADLINE_EXCEEDED,
        "Send again only if the message may be stored twice, or with a producer sequence. "
        "After a change of a topic, group, lock or offset, repeat the call.",
        outcome_unknown=True,
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_SEQUENCE_GAP,
        StatusCode.FAILED_PRECONDITION,
        "Send the missing batch first, or start again with a larger epoch and sequence 0. A batch "
        "that was sent for the first time is certainly not stored.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_SEQUENCE_PASSED,
        StatusCode.ALREADY_EXISTS,
        "Do not send it again: look for the messages, or accept that they may be stored.",
        outcome_unknown=True,
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_PRODUCER_FENCED,
        StatusCode.FAILED_PRECONDITION,
        "Stop this producer, or start again with a new producer id: a newer producer took over.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_BROKER_NOT_PRIMARY,
        StatusCode.FAILED_PRECONDITION,
        "Refresh the route and go to the primary.",
        retriable=True,
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_DELIVERY_TIME_TOO_LATE,
        StatusCode.INVALID_ARGUMENT,
        "Choose an earlier delivery time, or allow longer delays in the broker's settings.",
        field="delivery_time",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_QUEUE_OFFSET_OUT_OF_RANGE,
        StatusCode.OUT_OF_RANGE,
        "Continue at the min or max offset that the error names.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_RECORD_CORRUPTED,
        StatusCode.DATA_LOSS,
        "Run `ariane store verify` on the broker's store.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_MESSAGE_NOT_FOUND,
        StatusCode.NOT_FOUND,
        "Check the id; retention may have deleted the message.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_HELD_PULLS_EXHAUSTED,
        StatusCode.RESOURCE_EXHAUSTED,
        "Wait as RetryInfo says, or pull without a hold time.",
        retriable=True,
        retry_after_ms=1_000,
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_QUEUE_UNDER_REPAIR,
        StatusCode.UNAVAILABLE,
        "Wait and read again; the broker's log shows the progress of the repair.",
        retriable=True,
        retry_after_ms=1_000,
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_GROUP_NAME_ILLEGAL,
        StatusCode.INVALID_ARGUMENT,
        "Use 1 to 120 characters of A-Z a-z 0-9 _ and -.",
        field="consumer_group",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_GROUP_NOT_FOUND,
        StatusCode.NOT_FOUND,
        "Create the group, or let a consumer attach.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_GROUP_EXISTS,
        StatusCode.ALREADY_EXISTS,
        "Choose another name, or update the existing group.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_SUBSCRIPTION_CONFLICT,
        StatusCode.FAILED_PRECONDITION,
        "Give all members of the group the same subscriptions.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_QUEUE_LOCKED,
        StatusCode.ABORTED,
        "Ask again after the next rebalance.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_QUEUE_LOCK_FENCED,
        StatusCode.FAILED_PRECONDITION,
        "Drop the queue: another member owns it now.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_CLIENT_NOT_ATTACHED,
        StatusCode.FAILED_PRECONDITION,
        "Attach again, with an id that no other client has.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_FILTER_EXPRESSION_INVALID,
        StatusCode.INVALID_ARGUMENT,
        "Correct the expression at the named position.",
        field="expression",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_CONSUMER_OFFSET_RESET,
        StatusCode.FAILED_PRECONDITION,
        "Drop the messages in progress, and read the offset again.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_GROUP_LIMIT_REACHED,
        StatusCode.FAILED_PRECONDITION,
        "Delete unused groups, or start the broker with a higher limit in the named setting.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_QUEUE_CUT,
        StatusCode.OUT_OF_RANGE,
        "Drop the messages in progress, and continue at the stored offset or at `end`.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_QUEUES_UNREAD,
        StatusCode.FAILED_PRECONDITION,
        "Change read and write queues together (`--queues`), and read fewer only when groups have "
        "consumed the others; or confirm with `--force`.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_CLIENT_SILENT,
        StatusCode.DEADLINE_EXCEEDED,
        "Check the client's process: it may have ended, or something blocks its event loop.",
        outcome_unknown=True,
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_TRANSACTION_DECIDED,
        StatusCode.FAILED_PRECONDITION,
        "Accept the outcome that the error names.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_TRANSACTION_NOT_FOUND,
        StatusCode.NOT_FOUND,
        "Check the transaction id; the transaction may have ended too long ago.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_TRANSACTION_FOREIGN,
        StatusCode.FAILED_PRECONDITION,
        "Give the group and the unique id with which the half message was sent.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_BATCH_DIFFERS,
        StatusCode.FAILED_PRECONDITION,
        "Find out why the repetition differs: a copied or restored checkpoint, one name for two "
        "writes, or rows that differ each time.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_SINK_MOVED,
        StatusCode.FAILED_PRECONDITION,
        "Commit at the broker that the error names; a restarted Spark query does so.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_SINK_NOT_FOUND,
        StatusCode.NOT_FOUND,
        "List the existing sinks with `ariane sink list`.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_RECEIPT_HANDLE_INVALID,
        StatusCode.INVALID_ARGUMENT,
        "Pass handles unchanged, for the group that received them.",
        field="receipt_handle",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_GROUP_OWNS_QUEUES,
        StatusCode.FAILED_PRECONDITION,
        "Stop the members that own queues first, or receive in another group.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_GROUP_PAUSED,
        StatusCode.UNAVAILABLE,
        "Wait until an operator resumes the group (`ariane group resume`).",
        retriable=True,
        retry_after_ms=1_000,
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_RECEIPT_HANDLE_EXPIRED,
        StatusCode.FAILED_PRECONDITION,
        "Drop the message: it was settled, or will be delivered again.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_BROKER_NAME_TAKEN,
        StatusCode.ALREADY_EXISTS,
        "Give the broker another name or id, or stop the broker that has it.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_BROKER_NOT_REGISTERED,
        StatusCode.NOT_FOUND,
        "Check the broker's name, or start the broker: it registers by itself.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_ROUTE_NOT_FOUND,
        StatusCode.NOT_FOUND,
        "Create the topic, or wait until a broker that has it is registered.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_SETTING_INVALID,
        StatusCode.INVALID_ARGUMENT,
        "See the setting in docs/configuration.md.",
        field="setting",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_PAGE_TOKEN_INVALID,
        StatusCode.INVALID_ARGUMENT,
        "Start again with an empty page token.",
        field="page_token",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_QUEUE_ORDER_UNKNOWN,
        StatusCode.UNAVAILABLE,
        "Ask another name server, or give this one the order (`ariane topic order --set`).",
        retriable=True,
        retry_after_ms=1_000,
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_EPOCH_FENCED,
        StatusCode.FAILED_PRECONDITION,
        "Wait until the set has its newer primary. If that takes longer than an election, the "
        'database is an old copy: see "The database is lost or moved" in '
        "docs/operations/replica-sets.md.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_LOG_DIVERGED,
        StatusCode.FAILED_PRECONDITION,
        "Empty the replica's store and let it copy the primary's log.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_REPLICA_NOT_FOUND,
        StatusCode.NOT_FOUND,
        "Name one of the replicas of the set.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_REPLICA_NOT_IN_SYNC,
        StatusCode.FAILED_PRECONDITION,
        "Wait until the replica has caught up, or choose another.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_REPLICA_SET_CHANGED,
        StatusCode.ABORTED,
        "Read the replica set again and decide again.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_TOO_FEW_IN_SYNC,
        StatusCode.UNAVAILABLE,
        "Wait until more replicas have caught up; an operator may lower in_sync_min.",
        retriable=True,
        retry_after_ms=1_000,
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_FILTER_NOT_FOUND,
        StatusCode.NOT_FOUND,
        "Upload the filter, or name an existing version.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_FILTER_MODULE_INVALID,
        StatusCode.INVALID_ARGUMENT,
        "Correct the module as the cause says and upload it again.",
        field="module",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_FILTER_IN_USE,
        StatusCode.FAILED_PRECONDITION,
        "Change the subscriptions that name the filter first.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_FILTER_QUARANTINED,
        StatusCode.FAILED_PRECONDITION,
        "Upload a corrected version, or release the filter.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_FILTER_FAILED,
        StatusCode.ABORTED,
        "Repeat the call; if it fails again, correct the filter as the cause says.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_BODY_DAMAGED,
        StatusCode.DATA_LOSS,
        "Have the producer send the message again; `ariane store dump` shows what is stored.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_NAME_SERVERS_UNREACHABLE,
        StatusCode.UNAVAILABLE,
        "Start a name server, or correct the configured addresses.",
        retriable=True,
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_GROUP_IN_USE,
        StatusCode.FAILED_PRECONDITION,
        "Stop the members of the group first.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_USER_NOT_FOUND,
        StatusCode.NOT_FOUND,
        "Create the user, or correct the name.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_USER_EXISTS,
        StatusCode.ALREADY_EXISTS,
        "Choose another name, or update the existing user.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_RESOURCE_CHANGED,
        StatusCode.ABORTED,
        "Read it again and decide again.",
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_PEER_UNREACHABLE,
        StatusCode.UNAVAILABLE,
        "Check that the named process is alive, and try again.",
        retriable=True,
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_CHANGE_UNCONFIRMED,
        StatusCode.ABORTED,
        "Check whether the change was made before you repeat it.",
        outcome_unknown=True,
    ),
    ErrorRow(
        ErrorReason.ERROR_REASON_QUOTA_EXCEEDED,
        StatusCode.RESOURCE_EXHAUSTED,
        "Wait as RetryInfo says; send less, or ask for a larger quota: ariane quota list.",
        retriable=True,
        retry_after_ms=1000,
    ),
)

ERROR_TABLE: Final = MappingProxyType({row.reason: row for row in _ROWS})
"""The row of every reason except UNSPECIFIED."""
