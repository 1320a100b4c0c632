"""The table of public errors: one row for each ``ariane.common.v1.ErrorReason``.

The contract says of each reason what a caller can rely on (``reason_options.proto``): the gRPC
code, whether the same call may be repeated, and whether it may have had an effect. Here is what a
person can do, and which field is wrong. ``docs/errors.md`` shows this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from google.rpc.code_pb2 import Code
from grpc import StatusCode

from ariane.common.v1 import reason_options_pb2 as option_pb
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit.error_row import REASON_PREFIX, ErrorRow

_HINTS: Final[Mapping[str, str]] = {
    "INTERNAL_FAULT": "Look for the request id in the log of the service.",
    "FIELD_INVALID": "Correct the named field of the request.",
    "FEATURE_NOT_AVAILABLE": "Do without the feature, or use a later version of the service.",
    "SERVICE_STARTING": "Wait until health says SERVING, or go to another broker.",
    "SERVICE_DRAINING": "Go to another broker.",
    "SERVICE_BUSY": "Wait as RetryInfo says; make fewer calls at a time.",
    "DEADLINE_PASSED": "Give the call a later deadline.",
    "CREDENTIALS_INVALID": "Check the configured credentials and the clock of the client.",
    "ACCESS_DENIED": "Grant the right to the caller.",
    "TOPIC_NAME_ILLEGAL": "Use 1 to 127 characters of A-Z a-z 0-9 _ - % and |.",
    "TOPIC_NOT_FOUND": (
        "Create the topic, or refresh the route: the topic may live on another broker."
    ),
    "TOPIC_EXISTS": "Choose another name, or update the existing topic.",
    "TOPIC_RESERVED": "Choose a name that the system does not reserve.",
    "TOPIC_NOT_WRITABLE": (
        "Refresh the route and send to another broker, or give the topic write permission."
    ),
    "TOPIC_NOT_READABLE": "Give the topic read permission.",
    "QUEUE_NOT_FOUND": "Refresh the route: the topic's queue count differs.",
    "MESSAGE_TYPE_MISMATCH": "Send to a topic of the message's type.",
    "TOPIC_LIMIT_REACHED": (
        "Delete unused topics, or start the broker with a higher limit in the named setting."
    ),
    "MESSAGE_TOO_LARGE": "Send a smaller message, or raise the limit of the broker.",
    "MESSAGE_ILLEGAL": "Correct the message at the named position.",
    "BLOCK_CORRUPTED": "Check the encoder that packed the block against docs/formats.md.",
    "STORE_FULL": "Free disk space or shorten the retention; meanwhile send to another broker.",
    "STORE_POISONED": "Check the disk, then restart the broker; meanwhile go to another broker.",
    "FLUSH_UNCONFIRMED": (
        "Send again only if the message may be stored twice, or with a producer sequence."
    ),
    "REPLICATION_UNCONFIRMED": (
        "Send again only if the message may be stored twice, or with a producer sequence. After "
        "a change of a topic, group, lock or offset, repeat the call."
    ),
    "SEQUENCE_GAP": (
        "Send the missing batch first, or start again with a larger epoch and sequence 0. A "
        "batch that was sent for the first time is certainly not stored."
    ),
    "SEQUENCE_PASSED": (
        "Do not send it again: look for the messages, or accept that they may be stored."
    ),
    "PRODUCER_FENCED": (
        "Stop this producer, or start again with a new producer id: a newer producer took over."
    ),
    "BROKER_NOT_PRIMARY": "Refresh the route and go to the primary.",
    "DELIVERY_TIME_TOO_LATE": (
        "Choose an earlier delivery time, or allow longer delays in the broker's settings."
    ),
    "QUEUE_OFFSET_OUT_OF_RANGE": "Continue at the min or max offset that the error names.",
    "RECORD_CORRUPTED": "Run `ariane store verify` on the broker's store.",
    "MESSAGE_NOT_FOUND": "Check the id; retention may have deleted the message.",
    "HELD_PULLS_EXHAUSTED": "Wait as RetryInfo says, or pull without a hold time.",
    "QUEUE_UNDER_REPAIR": "Wait and read again; the broker's log shows the progress of the repair.",
    "GROUP_NAME_ILLEGAL": "Use 1 to 120 characters of A-Z a-z 0-9 _ - % and |.",
    "GROUP_NOT_FOUND": "Create the group, or let a consumer attach.",
    "GROUP_EXISTS": "Choose another name, or update the existing group.",
    "SUBSCRIPTION_CONFLICT": "Give all members of the group the same subscriptions.",
    "QUEUE_LOCKED": "Ask again after the next rebalance.",
    "QUEUE_LOCK_FENCED": "Drop the queue: another member owns it now.",
    "CLIENT_NOT_ATTACHED": "Attach again, with an id that no other client has.",
    "FILTER_EXPRESSION_INVALID": "Correct the expression at the named position.",
    "CONSUMER_OFFSET_RESET": "Drop the messages in progress, and read the offset again.",
    "GROUP_LIMIT_REACHED": (
        "Delete unused groups, or start the broker with a higher limit in the named setting."
    ),
    "QUEUE_CUT": "Drop the messages in progress, and continue at the stored offset or at `end`.",
    "QUEUES_UNREAD": (
        "Change read and write queues together (`--queues`), and read fewer only when groups "
        "have consumed the others; or confirm with `--force`."
    ),
    "CLIENT_SILENT": (
        "Check the client's process: it may have ended, or something blocks its event loop."
    ),
    "TRANSACTION_DECIDED": "Accept the outcome that the error names.",
    "TRANSACTION_NOT_FOUND": (
        "Check the transaction id; the transaction may have ended too long ago."
    ),
    "TRANSACTION_FOREIGN": "Give the group and the unique id with which the half message was sent.",
    "BATCH_DIFFERS": (
        "Find out why the repetition differs: a copied or restored checkpoint, one name for two "
        "writes, or rows that differ each time."
    ),
    "SINK_MOVED": "Commit at the broker that the error names; a restarted Spark query does so.",
    "SINK_NOT_FOUND": "List the existing sinks with `ariane sink list`.",
    "RECEIPT_HANDLE_INVALID": "Pass handles unchanged, for the group that received them.",
    "GROUP_OWNS_QUEUES": "Stop the members that own queues first, or receive in another group.",
    "GROUP_PAUSED": "Wait until an operator resumes the group (`ariane group resume`).",
    "RECEIPT_HANDLE_EXPIRED": "Drop the message: it was settled, or will be delivered again.",
    "BROKER_NAME_TAKEN": "Give the broker another name or id, or stop the broker that has it.",
    "BROKER_NOT_REGISTERED": (
        "Check the broker's name, or start the broker: it registers by itself."
    ),
    "ROUTE_NOT_FOUND": (
        "If a broker had the topic, wait until it is back; otherwise create the topic."
    ),
    "SETTING_INVALID": "See the setting in docs/configuration.md.",
    "PAGE_TOKEN_INVALID": "Start again with an empty page token.",
    "QUEUE_ORDER_UNKNOWN": (
        "Ask another name server, or give this one the order (`ariane topic order --set`)."
    ),
    "BROKER_ALIVE": "Stop the broker first, if it is not to come back; drain it before.",
    "EPOCH_FENCED": (
        "Wait until the set has its newer primary. If that takes longer than an election, the "
        'database is an old copy: see "The database is lost or moved" in '
        "docs/operations/replica-sets.md."
    ),
    "LOG_DIVERGED": "Empty the replica's store and let it copy the primary's log.",
    "REPLICA_NOT_FOUND": "Name one of the replicas of the set.",
    "REPLICA_NOT_IN_SYNC": "Wait until the replica has caught up, or choose another.",
    "REPLICA_SET_CHANGED": "Read the replica set again and decide again.",
    "TOO_FEW_IN_SYNC": (
        "Wait until more replicas have caught up; an operator may lower in_sync_min."
    ),
    "FILTER_NOT_FOUND": "Upload the filter, or name an existing version.",
    "FILTER_MODULE_INVALID": "Correct the module as the cause says and upload it again.",
    "FILTER_IN_USE": "Change the subscriptions that name the filter first.",
    "FILTER_QUARANTINED": "Upload a corrected version, or release the filter.",
    "FILTER_FAILED": "Repeat the call; if it fails again, correct the filter as the cause says.",
    "BODY_DAMAGED": (
        "Have the producer send the message again; `ariane store dump` shows what is stored."
    ),
    "NAME_SERVERS_UNREACHABLE": "Start a name server, or correct the configured addresses.",
    "GROUP_IN_USE": "Stop the members of the group first.",
    "USER_NOT_FOUND": "Create the user, or correct the name.",
    "USER_EXISTS": "Choose another name, or update the existing user.",
    "RESOURCE_CHANGED": "Read it again and decide again.",
    "PEER_UNREACHABLE": "Check that the named process is alive, and try again.",
    "CHANGE_UNCONFIRMED": "Check whether the change was made before you repeat it.",
    "QUOTA_EXCEEDED": (
        "Wait as RetryInfo says; send less, or ask for a larger quota: ariane quota list."
    ),
}
"""What the caller can do, as one or two sentences."""

_FIELDS: Final[Mapping[str, str]] = {
    "FIELD_INVALID": "request",
    "TOPIC_NAME_ILLEGAL": "topic",
    "MESSAGE_TOO_LARGE": "messages",
    "MESSAGE_ILLEGAL": "messages",
    "BLOCK_CORRUPTED": "table",
    "DELIVERY_TIME_TOO_LATE": "delivery_time",
    "GROUP_NAME_ILLEGAL": "consumer_group",
    "FILTER_EXPRESSION_INVALID": "expression",
    "RECEIPT_HANDLE_INVALID": "receipt_handle",
    "SETTING_INVALID": "setting",
    "PAGE_TOKEN_INVALID": "page_token",
    "FILTER_MODULE_INVALID": "module",
}
"""The request field that BadRequest names unless the error says another."""


def _row(reason: ErrorReason.ValueType) -> ErrorRow:
    value = ErrorReason.DESCRIPTOR.values_by_number[reason]
    name, options = value.name.removeprefix(REASON_PREFIX), value.GetOptions().Extensions
    return ErrorRow(
        reason,
        StatusCode[Code.Name(options[option_pb.code])],
        _HINTS[name],
        retriable=options[option_pb.retriable],
        outcome_unknown=options[option_pb.outcome_unknown],
        retry_after_ms=options[option_pb.retry_after_ms] or None,
        field=_FIELDS.get(name, ""),
    )


ERROR_TABLE: Final = MappingProxyType(
    {reason: _row(reason) for reason in ErrorReason.values() if reason}
)
"""The row of every reason except UNSPECIFIED."""
