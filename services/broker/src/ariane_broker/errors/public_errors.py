"""The public errors of the broker; ``store_errors`` translates errors of the store.

Use cases raise only ``ServiceError``, on purpose. Each public reason has one function here, so
that its text and metadata are the same wherever it is raised::

    ServiceError (ariane_servicekit)
    +-- by name of a topic      topic_name_illegal, topic_not_found, topic_exists, topic_reserved,
    |                           topic_not_writable, topic_not_readable, queue_not_found,
    |                           message_type_mismatch, topic_limit_reached, queues_unread
    +-- by message              message_too_large, message_illegal, block_corrupted,
    |                           flush_unconfirmed, message_not_found, delivery_time_too_late,
    |                           message_delivered
    +-- by producer sequence    sequence_gap, sequence_passed, producer_fenced
    +-- by group or client      group_name_illegal, group_not_found, group_exists, group_paused,
    |                           broadcasting_disabled, client_id_taken, client_not_attached,
    |                           subscription_conflict, queue_locked, queue_lock_fenced,
    |                           consumer_offset_reset, client_silent, group_limit_reached,
    |                           clients_too_heavy
    +-- by pull                 queue_offset_out_of_range, queue_cut, filter_expression_invalid,
    |                           held_pulls_exhausted
    +-- by transaction          producer_not_attached; see ``transactions``
    +-- by broker               broker_draining, store_poisoned
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_record.counted import counted
from ariane_record.names import is_system_group
from ariane_servicekit.errors import ServiceError, refusal


@refusal(ErrorReason.ERROR_REASON_TOPIC_NAME_ILLEGAL)
def topic_name_illegal(topic: str) -> str:
    """The name breaks the rules for topics."""
    # The rule itself is the advice, which clients show.
    return f"topic name {topic!r} is illegal"


@refusal(ErrorReason.ERROR_REASON_TOPIC_NOT_FOUND)
def topic_not_found(topic: str) -> str:
    """The topic is not known here."""
    return f"topic {topic!r} is not known here"


@refusal(ErrorReason.ERROR_REASON_TOPIC_EXISTS)
def topic_exists(topic: str) -> str:
    """A topic with that name already exists."""
    return f"topic {topic!r} already exists"


@refusal(ErrorReason.ERROR_REASON_TOPIC_RESERVED)
def topic_reserved(topic: str) -> str:
    """The topic belongs to the system."""
    return f"topic {topic!r} belongs to the system"


@refusal(ErrorReason.ERROR_REASON_TOPIC_NOT_WRITABLE)
def topic_not_writable(topic: str, permission: int) -> str:
    """The topic may not be written here."""
    return f"topic {topic!r} may not be written here: its permission is {permission}"


@refusal(ErrorReason.ERROR_REASON_TOPIC_NOT_READABLE)
def topic_not_readable(topic: str, permission: int) -> str:
    """The topic may not be read here."""
    return f"topic {topic!r} may not be read here: its permission is {permission}"


@refusal(ErrorReason.ERROR_REASON_QUEUE_NOT_FOUND)
def queue_not_found(topic: str, queue_id: int, queue_count: int) -> str:
    """The queue does not exist."""
    return f"queue {queue_id} of topic {topic!r} does not exist: there are {queue_count}"


@refusal(ErrorReason.ERROR_REASON_GROUP_IN_USE)
def group_in_use(consumer_group: str, member_count: int) -> str:
    """The group has live members."""
    return f"group {consumer_group!r} has {counted(member_count, 'live member')}"


def topic_limit_reached(setting: str, limit: int, what: str) -> ServiceError:
    """The broker creates no more topics or queues."""
    return ServiceError(
        ErrorReason.ERROR_REASON_TOPIC_LIMIT_REACHED,
        f"this broker has reached its limit of {limit} {what} ({setting})",
        {"setting": setting, "limit": limit},
    )


def group_limit_reached(limit: int) -> ServiceError:
    """The broker creates no more groups."""
    return ServiceError(
        ErrorReason.ERROR_REASON_GROUP_LIMIT_REACHED,
        f"this broker has reached its limit of {limit} consumer groups (groups_max)",
        {"setting": "groups_max", "limit": limit},
    )


_CHANGE_TO_FIT: Final[Mapping[tuple[str, str], str]] = {
    ("FIFO", "NORMAL"): "set a message group on each message",
    ("NORMAL", "FIFO"): "send without a message group",
    ("DELAY", "NORMAL"): "set a delivery time",
    ("TRANSACTION", "NORMAL"): "send it in a transaction",
}
"""How to change a message so that its topic accepts it, if that is easy."""


def message_type_mismatch(topic: str, expected: str, actual: str) -> ServiceError:
    """The message's type does not fit the topic."""
    change = _CHANGE_TO_FIT.get((expected, actual))
    return ServiceError(
        ErrorReason.ERROR_REASON_MESSAGE_TYPE_MISMATCH,
        f"topic {topic!r} accepts {expected} messages, not {actual}"
        f"{f': {change}' if change else ''}",
        {"topic": topic, "expected": expected, "actual": actual},
    )


@refusal(ErrorReason.ERROR_REASON_MESSAGE_TOO_LARGE, field="records")
def message_too_large(size_bytes: int, limit_bytes: int, position: int) -> str:
    """The body of a message is larger than the limit."""
    return f"the body of message {position} has {size_bytes} bytes; the limit is {limit_bytes}"


def message_illegal(position: int, rule: str) -> ServiceError:
    """A message breaks a rule."""
    return ServiceError(
        ErrorReason.ERROR_REASON_MESSAGE_ILLEGAL,
        f"message {position}: {rule}",
        {"position": position, "rule": rule},
        field=f"messages[{position}]",
    )


def block_corrupted(position: int, rule: str) -> ServiceError:
    """A packed block is broken; position -1 means the block as a whole."""
    place = "block" if position < 0 else f"record {position}"
    return ServiceError(
        ErrorReason.ERROR_REASON_BLOCK_CORRUPTED,
        f"{place}: {rule}",
        {"position": position, "rule": rule},
        field="records",
    )


@refusal(ErrorReason.ERROR_REASON_FLUSH_UNCONFIRMED)
def flush_unconfirmed() -> str:
    """The message is stored, but its flush was not confirmed."""
    return "the message is stored, but its flush was not confirmed: it may be lost"


def sequence_gap(
    topic: str, queue_id: int, expected: int, actual: int, known_for_ms: int
) -> ServiceError:
    """A batch does not continue its stream: an earlier batch is missing.

    Args:
        topic: The topic.
        queue_id: The queue.
        expected: The expected number of its first message.
        actual: The actual one.
        known_for_ms: For how long the stream has certainly not stored this batch.
    """
    metadata = {"expected": expected, "actual": actual, "known_for_ms": known_for_ms}
    return ServiceError(
        ErrorReason.ERROR_REASON_SEQUENCE_GAP,
        f"topic {topic!r}, queue {queue_id}: the batch begins at number {actual}, but the next "
        f"number of this producer is {expected}",
        metadata,
        field="sequence",
    )


def sequence_passed(
    topic: str, queue_id: int, expected: int, actual: int, record_count: int
) -> ServiceError:
    """The numbers of a batch were used before, by batches that are no longer known."""
    return ServiceError(
        ErrorReason.ERROR_REASON_SEQUENCE_PASSED,
        f"topic {topic!r}, queue {queue_id}: the batch has the numbers {actual} to "
        f"{actual + record_count - 1}, but all numbers below {expected} are stored, in other "
        "batches or too long ago to know their offsets",
        {"expected": expected, "actual": actual},
        field="sequence",
    )


def producer_fenced(topic: str, queue_id: int, epoch: int) -> ServiceError:
    """A newer epoch of the producer has written to the queue."""
    return ServiceError(
        ErrorReason.ERROR_REASON_PRODUCER_FENCED,
        f"topic {topic!r}, queue {queue_id}: epoch {epoch} of this producer has written here",
        {"epoch": epoch},
        field="sequence",
    )


@refusal(ErrorReason.ERROR_REASON_DELIVERY_TIME_TOO_LATE, field="delivery_time")
def delivery_time_too_late(position: int, delivery_time_ms: int, limit_ms: int) -> str:
    """The delivery time is further ahead than this broker allows."""
    return (
        f"message {position}: the delivery time {delivery_time_ms} is more than "
        f"{limit_ms / 86_400_000:g} days ahead, the longest delay of this broker"
    )


@refusal(ErrorReason.ERROR_REASON_MESSAGE_NOT_FOUND)
def message_not_found(message_id: str) -> str:
    """No message has this id."""
    return f"there is no message with the id {message_id!r} here"


@refusal(ErrorReason.ERROR_REASON_RECEIPT_HANDLE_EXPIRED)
def message_delivered(unique_id: str) -> str:
    """A delayed message cannot be recalled: it was delivered."""
    return f"message {unique_id!r} was already delivered"


def group_name_illegal(consumer_group: str) -> ServiceError:
    """The name breaks the rules for groups."""
    belongs = is_system_group(consumer_group)
    return ServiceError(
        ErrorReason.ERROR_REASON_GROUP_NAME_ILLEGAL,
        f"group {consumer_group!r} "
        + ("belongs to the system" if belongs else "has an illegal name"),
        {"consumer_group": consumer_group},
    )


@refusal(ErrorReason.ERROR_REASON_GROUP_NOT_FOUND)
def group_not_found(consumer_group: str) -> str:
    """The group is not known here."""
    return f"group {consumer_group!r} is not known here"


def group_deleted(consumer_group: str) -> ServiceError:
    """The group was deleted while this member of it was away."""
    return ServiceError(
        ErrorReason.ERROR_REASON_GROUP_NOT_FOUND,
        f"group {consumer_group!r} was deleted while this member was away; a member that is "
        "started anew may create it again",
        {"consumer_group": consumer_group, "deleted": "true"},
    )


@refusal(ErrorReason.ERROR_REASON_GROUP_EXISTS)
def group_exists(consumer_group: str) -> str:
    """A group with that name already exists."""
    return f"group {consumer_group!r} already exists"


@refusal(ErrorReason.ERROR_REASON_GROUP_PAUSED)
def group_paused(consumer_group: str) -> str:
    """An operator has paused the group."""
    return f"an operator has paused group {consumer_group!r}"


@refusal(ErrorReason.ERROR_REASON_ACCESS_DENIED)
def broadcasting_disabled(consumer_group: str) -> str:
    """The group's settings forbid broadcasting."""
    return f"the settings of group {consumer_group!r} forbid broadcasting"


@refusal(ErrorReason.ERROR_REASON_CLIENT_NOT_ATTACHED)
def client_id_taken(client_id: str) -> str:
    """Another live client has the id."""
    return f"another live client has the id {client_id!r}"


def clients_too_heavy(weight_max: int) -> ServiceError:
    """The memberships of clients, of all or of those of the caller, say as much as they may."""
    return ServiceError(
        ErrorReason.ERROR_REASON_SERVICE_BUSY,
        "too many clients have memberships with very many names, filters or queues already",
        {"limit": weight_max},
    )


def subscription_conflict(consumer_group: str, member: str, difference: str) -> ServiceError:
    """The caller's subscription differs from its group's."""
    return ServiceError(
        ErrorReason.ERROR_REASON_SUBSCRIPTION_CONFLICT,
        f"group {consumer_group!r}: {difference} than member {member!r}",
        {"consumer_group": consumer_group, "member": member},
    )


def client_not_attached(client_id: str, what: str) -> ServiceError:
    """The client is not attached, or not in the required role."""
    return ServiceError(
        ErrorReason.ERROR_REASON_CLIENT_NOT_ATTACHED,
        f"client {client_id!r} is not attached here{what}",
        {"client_id": client_id},
    )


def producer_not_attached(producer_group: str) -> ServiceError:
    """No producer of the group is attached here."""
    return ServiceError(
        ErrorReason.ERROR_REASON_CLIENT_NOT_ATTACHED,
        f"no producer of group {producer_group!r} is attached here",
        {"client_id": "", "producer_group": producer_group},
    )


def client_silent(client_id: str, wait_seconds: float, hint: str) -> ServiceError:
    """The client is alive but did not answer in time; ``hint`` explains the consequence."""
    return ServiceError(
        ErrorReason.ERROR_REASON_CLIENT_SILENT,
        f"client {client_id!r} did not answer within {wait_seconds:g} s: {hint}",
        {"client_id": client_id},
    )


def client_left(client_id: str, hint: str) -> ServiceError:
    """The client's stream ended before it answered; ``hint`` explains the consequence."""
    return ServiceError(
        ErrorReason.ERROR_REASON_CLIENT_SILENT,
        f"client {client_id!r} left before it answered: {hint}",
        {"client_id": client_id},
    )


def queue_locked(topic: str, queue_id: int, owner: str, epoch: int) -> ServiceError:
    """Another member owns the queue's lock."""
    return ServiceError(
        ErrorReason.ERROR_REASON_QUEUE_LOCKED,
        f"topic {topic!r}, queue {queue_id}: consumed in order by {owner!r} under a lock",
        {"topic": topic, "queue_id": queue_id, "owner": owner, "epoch": epoch},
    )


def queue_lock_fenced(topic: str, queue_id: int, epoch: int, latest: int) -> ServiceError:
    """The caller's lock has expired, or another member has locked the queue since."""
    state = f"lock {latest} replaced it" if latest else "it was not renewed in time"
    return ServiceError(
        ErrorReason.ERROR_REASON_QUEUE_LOCK_FENCED,
        f"topic {topic!r}, queue {queue_id}: lock {epoch} is no longer held: {state}",
        {"topic": topic, "queue_id": queue_id, "epoch": latest},
    )


def consumer_offset_reset(topic: str, queue_id: int, epoch: int) -> ServiceError:
    """The offset was reset since the caller read it."""
    return ServiceError(
        ErrorReason.ERROR_REASON_CONSUMER_OFFSET_RESET,
        f"topic {topic!r}, queue {queue_id}: the offset was reset since it was read",
        {"topic": topic, "queue_id": queue_id, "epoch": epoch},
    )


def queues_unread(topic: str, reads: int, writes: int, message_count: int) -> ServiceError:
    """The change would leave messages in queues that are not read."""
    hidden = (
        f"messages that groups have not consumed ({message_count}) are in queues from {reads} on,"
        " which would no longer be read"
        if message_count
        else f"{counted(writes, 'queue')} would be written and only {reads} read: messages in the"
        " others would not be consumed"
    )
    return ServiceError(
        ErrorReason.ERROR_REASON_QUEUES_UNREAD,
        f"topic {topic!r}: {hidden}",
        {
            "topic": topic,
            "read_queue_count": reads,
            "write_queue_count": writes,
            "message_count": message_count,
        },
    )


def queue_cut(
    topic: str, queue_id: int, queue_offset: int, end: int, log_epoch: int
) -> ServiceError:
    """The log before that position was lost with the end of this log, or belongs to another log."""
    return ServiceError(
        ErrorReason.ERROR_REASON_QUEUE_CUT,
        f"topic {topic!r}, queue {queue_id}: the queue lost its end after offset {queue_offset} "
        f"was reached; what is kept from before ends at {end}",
        {
            "topic": topic,
            "queue_id": queue_id,
            "queue_offset": queue_offset,
            "end": end,
            "log_epoch": log_epoch,
        },
    )


def queue_offset_out_of_range(
    topic: str, queue_id: int, queue_offset: int, min_queue_offset: int, max_queue_offset: int
) -> ServiceError:
    """The queue offset is outside of the kept range."""
    return ServiceError(
        ErrorReason.ERROR_REASON_QUEUE_OFFSET_OUT_OF_RANGE,
        f"queue offset {queue_offset} of topic {topic!r}, queue {queue_id} is outside "
        f"{min_queue_offset} to {max_queue_offset}",
        {
            "topic": topic,
            "queue_id": queue_id,
            "queue_offset": queue_offset,
            "min": min_queue_offset,
            "max": max_queue_offset,
        },
    )


def filter_expression_invalid(expression: str, position: int, rule: str) -> ServiceError:
    """A filter expression is invalid."""
    return ServiceError(
        ErrorReason.ERROR_REASON_FILTER_EXPRESSION_INVALID,
        f"filter expression {expression!r}, position {position}: {rule}",
        {"expression": expression, "position": position},
    )


@refusal(ErrorReason.ERROR_REASON_HELD_PULLS_EXHAUSTED)
def held_pulls_exhausted(limit: int) -> str:
    """Too many pulls are already held."""
    return f"this broker already holds {limit} pulls, its limit"


@refusal(ErrorReason.ERROR_REASON_SERVICE_DRAINING)
def broker_draining() -> str:
    """The broker accepts no more messages or clients."""
    return "this broker is draining; go to another one"


@refusal(ErrorReason.ERROR_REASON_STORE_POISONED)
def store_poisoned() -> str:
    """A flush failed; the store accepts nothing until it is restarted."""
    return "a flush failed; the store accepts nothing until the broker is restarted"
