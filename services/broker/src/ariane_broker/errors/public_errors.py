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
from ariane_servicekit.errors import refusal


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


@refusal(ErrorReason.ERROR_REASON_TOPIC_LIMIT_REACHED, without=("what",))
def topic_limit_reached(setting: str, limit: int, what: str) -> str:
    """The broker creates no more topics or queues."""
    return f"this broker has reached its limit of {limit} {what} ({setting})"


@refusal(ErrorReason.ERROR_REASON_GROUP_LIMIT_REACHED)
def group_limit_reached(limit: int, setting: str = "groups_max") -> str:
    """The broker creates no more groups."""
    return f"this broker has reached its limit of {limit} consumer groups ({setting})"


_CHANGE_TO_FIT: Final[Mapping[tuple[str, str], str]] = {
    ("FIFO", "NORMAL"): "set a message group on each message",
    ("NORMAL", "FIFO"): "send without a message group",
    ("DELAY", "NORMAL"): "set a delivery time",
    ("TRANSACTION", "NORMAL"): "send it in a transaction",
}
"""How to change a message so that its topic accepts it, if that is easy."""


@refusal(ErrorReason.ERROR_REASON_MESSAGE_TYPE_MISMATCH)
def message_type_mismatch(topic: str, expected: str, actual: str) -> str:
    """The message's type does not fit the topic."""
    change = _CHANGE_TO_FIT.get((expected, actual))
    advice = f": {change}" if change else ""
    return f"topic {topic!r} accepts {expected} messages, not {actual}{advice}"


@refusal(ErrorReason.ERROR_REASON_MESSAGE_TOO_LARGE, field="records")
def message_too_large(size_bytes: int, limit_bytes: int, position: int) -> str:
    """The body of a message is larger than the limit."""
    return f"the body of message {position} has {size_bytes} bytes; the limit is {limit_bytes}"


@refusal(ErrorReason.ERROR_REASON_MESSAGE_ILLEGAL, field="messages[{position}]")
def message_illegal(position: int, rule: str) -> str:
    """A message breaks a rule."""
    return f"message {position}: {rule}"


@refusal(ErrorReason.ERROR_REASON_BLOCK_CORRUPTED, field="records")
def block_corrupted(position: int, rule: str) -> str:
    """A packed block is broken; position -1 means the block as a whole."""
    place = "block" if position < 0 else f"record {position}"
    return f"{place}: {rule}"


@refusal(ErrorReason.ERROR_REASON_FLUSH_UNCONFIRMED)
def flush_unconfirmed() -> str:
    """The message is stored, but its flush was not confirmed."""
    return "the message is stored, but its flush was not confirmed: it may be lost"


@refusal(ErrorReason.ERROR_REASON_SEQUENCE_GAP, field="sequence", without=("topic", "queue_id"))
def sequence_gap(topic: str, queue_id: int, expected: int, actual: int, known_for_ms: int) -> str:
    """A batch does not continue its stream: an earlier batch is missing.

    Args:
        topic: The topic.
        queue_id: The queue.
        expected: The expected number of its first message.
        actual: The actual one.
        known_for_ms: For how long the stream has certainly not stored this batch.
    """
    return (
        f"topic {topic!r}, queue {queue_id}: the batch begins at number {actual}, but the next "
        f"number of this producer is {expected}"
    )


@refusal(
    ErrorReason.ERROR_REASON_SEQUENCE_PASSED,
    field="sequence",
    without=("topic", "queue_id", "record_count"),
)
def sequence_passed(
    topic: str, queue_id: int, expected: int, actual: int, record_count: int
) -> str:
    """The numbers of a batch were used before, by batches that are no longer known."""
    return (
        f"topic {topic!r}, queue {queue_id}: the batch has the numbers {actual} to "
        f"{actual + record_count - 1}, but all numbers below {expected} are stored, in other "
        "batches or too long ago to know their offsets"
    )


@refusal(ErrorReason.ERROR_REASON_PRODUCER_FENCED, field="sequence", without=("topic", "queue_id"))
def producer_fenced(topic: str, queue_id: int, epoch: int) -> str:
    """A newer epoch of the producer has written to the queue."""
    return f"topic {topic!r}, queue {queue_id}: epoch {epoch} of this producer has written here"


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


@refusal(ErrorReason.ERROR_REASON_GROUP_NAME_ILLEGAL)
def group_name_illegal(consumer_group: str) -> str:
    """The name breaks the rules for groups."""
    fault = "belongs to the system" if is_system_group(consumer_group) else "has an illegal name"
    return f"group {consumer_group!r} {fault}"


@refusal(ErrorReason.ERROR_REASON_GROUP_NOT_FOUND)
def group_not_found(consumer_group: str) -> str:
    """The group is not known here."""
    return f"group {consumer_group!r} is not known here"


@refusal(ErrorReason.ERROR_REASON_GROUP_NOT_FOUND)
def group_deleted(consumer_group: str, deleted: str = "true") -> str:
    """The group was deleted while this member of it was away."""
    return (
        f"group {consumer_group!r} was deleted while this member was away; a member that is "
        "started anew may create it again"
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


@refusal(ErrorReason.ERROR_REASON_SERVICE_BUSY)
def clients_too_heavy(limit: int) -> str:
    """The memberships of clients, of all or of those of the caller, say as much as they may."""
    return "too many clients have memberships with very many names, filters or queues already"


@refusal(ErrorReason.ERROR_REASON_SUBSCRIPTION_CONFLICT, without=("difference",))
def subscription_conflict(consumer_group: str, member: str, difference: str) -> str:
    """The caller's subscription differs from its group's."""
    return f"group {consumer_group!r}: {difference} than member {member!r}"


@refusal(ErrorReason.ERROR_REASON_CLIENT_NOT_ATTACHED, without=("what",))
def client_not_attached(client_id: str, what: str) -> str:
    """The client is not attached, or not in the required role."""
    return f"client {client_id!r} is not attached here{what}"


@refusal(ErrorReason.ERROR_REASON_CLIENT_NOT_ATTACHED)
def producer_not_attached(producer_group: str, client_id: str = "") -> str:
    """No producer of the group is attached here."""
    return f"no producer of group {producer_group!r} is attached here"


@refusal(ErrorReason.ERROR_REASON_CLIENT_SILENT, without=("wait_seconds", "hint"))
def client_silent(client_id: str, wait_seconds: float, hint: str) -> str:
    """The client is alive but did not answer in time; ``hint`` explains the consequence."""
    return f"client {client_id!r} did not answer within {wait_seconds:g} s: {hint}"


@refusal(ErrorReason.ERROR_REASON_CLIENT_SILENT, without=("hint",))
def client_left(client_id: str, hint: str) -> str:
    """The client's stream ended before it answered; ``hint`` explains the consequence."""
    return f"client {client_id!r} left before it answered: {hint}"


@refusal(ErrorReason.ERROR_REASON_QUEUE_LOCKED)
def queue_locked(topic: str, queue_id: int, owner: str, epoch: int) -> str:
    """Another member owns the queue's lock."""
    return f"topic {topic!r}, queue {queue_id}: consumed in order by {owner!r} under a lock"


@refusal(
    ErrorReason.ERROR_REASON_QUEUE_LOCK_FENCED, without=("epoch",), renamed={"latest": "epoch"}
)
def queue_lock_fenced(topic: str, queue_id: int, epoch: int, latest: int) -> str:
    """The caller's lock has expired, or another member has locked the queue since."""
    state = f"lock {latest} replaced it" if latest else "it was not renewed in time"
    return f"topic {topic!r}, queue {queue_id}: lock {epoch} is no longer held: {state}"


@refusal(ErrorReason.ERROR_REASON_CONSUMER_OFFSET_RESET)
def consumer_offset_reset(topic: str, queue_id: int, epoch: int) -> str:
    """The offset was reset since the caller read it."""
    return f"topic {topic!r}, queue {queue_id}: the offset was reset since it was read"


@refusal(ErrorReason.ERROR_REASON_QUEUES_UNREAD)
def queues_unread(
    topic: str, read_queue_count: int, write_queue_count: int, message_count: int
) -> str:
    """The change would leave messages in queues that are not read."""
    hidden = (
        f"messages that groups have not consumed ({message_count}) are in queues from"
        f" {read_queue_count} on, which would no longer be read"
        if message_count
        else f"{counted(write_queue_count, 'queue')} would be written and only {read_queue_count}"
        " read: messages in the others would not be consumed"
    )
    return f"topic {topic!r}: {hidden}"


@refusal(ErrorReason.ERROR_REASON_QUEUE_CUT)
def queue_cut(topic: str, queue_id: int, queue_offset: int, end: int, log_epoch: int) -> str:
    """The log before that position was lost with the end of this log, or belongs to another log."""
    return (
        f"topic {topic!r}, queue {queue_id}: the queue lost its end after offset {queue_offset} "
        f"was reached; what is kept from before ends at {end}"
    )


@refusal(
    ErrorReason.ERROR_REASON_QUEUE_OFFSET_OUT_OF_RANGE,
    renamed={"min_queue_offset": "min", "max_queue_offset": "max"},
)
def queue_offset_out_of_range(
    topic: str, queue_id: int, queue_offset: int, min_queue_offset: int, max_queue_offset: int
) -> str:
    """The queue offset is outside of the kept range."""
    return (
        f"queue offset {queue_offset} of topic {topic!r}, queue {queue_id} is outside "
        f"{min_queue_offset} to {max_queue_offset}"
    )


@refusal(ErrorReason.ERROR_REASON_FILTER_EXPRESSION_INVALID, without=("rule",))
def filter_expression_invalid(expression: str, position: int, rule: str) -> str:
    """A filter expression is invalid."""
    return f"filter expression {expression!r}, position {position}: {rule}"


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
