r"""The records of a transaction: half message, committed message, op record, parked copy.

::

    RMQ_SYS_TRANS_HALF_TOPIC     |half|  REAL_TOPIC, REAL_QID, TRAN_MSG, PGROUP: nobody sees it
    the real topic                   \---> |message|  COMMIT flag, commit-log offset of the half
    RMQ_SYS_TRANS_OP_HALF_TOPIC       \--------> |op|  queue offset of the half: it is decided
    TRANS_CHECK_MAX_TIME_TOPIC    |copy|  asked about in vain as often as allowed

The shapes are RocketMQ's, so that either broker goes on where the other stopped. Ours says in its
op records, on top of that, which transaction it was and how it ended; that is how an outcome is
still known when memory has forgotten it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from ariane_record import BlockEncoder, PropertyName, RecordBlock, RecordFields, SystemFlag
from ariane_record.layout import TRANSACTION_MASK
from ariane_record.names import HALF_TOPIC, OP_TOPIC
from ariane_record.single.record_copy import RecordCopy, without_properties

OP_TAG: Final = "d"
"""RocketMQ's tag of an op record: the half message is done with."""

IMMUNITY_PROPERTY: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
"""Set by the application: how long its half message may rest before the first check."""

CHECK_COUNT_PROPERTY: Final = "TRANSACTION_CHECK_TIMES"
FIRST_STORED_PROPERTY: Final = "TRAN_FIRST_STORED_MS"
PARKED_PROPERTY: Final = "TRAN_PARKED"
OUTCOME_PROPERTY: Final = "TRAN_OUTCOME"
COMMITTED_AT_PROPERTY: Final = "TRAN_COMMITTED_AT"

TRANSACTION_PROPERTIES: Final = frozenset(
    {
        CHECK_COUNT_PROPERTY,
        FIRST_STORED_PROPERTY,
        PARKED_PROPERTY,
        OUTCOME_PROPERTY,
        COMMITTED_AT_PROPERTY,
    }
)
"""What the broker notes on its own records: a producer that set them would write its notes."""

_NOTES_OF_HALF: Final = (FIRST_STORED_PROPERTY, PARKED_PROPERTY)
_OP_BLOCK_BYTES_MAX: Final = 1 << 30
"""The store says how large a block may be."""

_FURTHER_PROPERTIES: Final = frozenset({IMMUNITY_PROPERTY, FIRST_STORED_PROPERTY, PARKED_PROPERTY})


class Outcome(StrEnum):
    """How a transaction ended."""

    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"


@dataclass(frozen=True, slots=True)
class HalfMessage:
    """A half message without an outcome.

    Attributes:
        transaction_id: Names the transaction; the unique id of the message.
        topic: The topic it is for.
        queue_id: The queue it is for.
        producer_group: Whose members can be asked.
        queue_offset: Of its record in the half topic.
        commit_log_offset: Of its record.
        store_timestamp_ms: When it was stored for the first time.
        immunity_ms: How long it may rest before the first check; None leaves it to the checker.
        keys: The message's keys.
        parked: Whether it was put aside.
    """

    transaction_id: str
    topic: str
    queue_id: int
    producer_group: str
    queue_offset: int
    commit_log_offset: int
    store_timestamp_ms: int
    immunity_ms: int | None = None
    keys: tuple[str, ...] = ()
    parked: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a transaction.

    Attributes:
        transaction_id: Names the transaction.
        topic: The topic of the message.
        outcome: How it ended.
        commit_log_offset: Of the record that says so: the message, or after a rollback the op
            record.
    """

    transaction_id: str
    topic: str
    outcome: Outcome
    commit_log_offset: int


def half_properties(
    topic: str, queue_id: int, producer_group: str, transaction_id: str
) -> dict[str, str]:
    """What the system adds to a message that becomes a half message."""
    return {
        PropertyName.REAL_TOPIC: topic,
        PropertyName.REAL_QUEUE_ID: str(queue_id),
        PropertyName.HALF_MESSAGE: "true",
        PropertyName.PRODUCER_GROUP: producer_group,
        PropertyName.TRANSACTION_ID: transaction_id,
    }


def half_message_of(
    fields: RecordFields,
    *,
    queue_offset: int | None = None,
    commit_log_offset: int | None = None,
    store_timestamp_ms: int | None = None,
) -> HalfMessage | None:
    """The half message that a record of the half topic is; None when it is none.

    Args:
        fields: The record.
        queue_offset: Where it is stored in its queue, when the record does not say so yet.
        commit_log_offset: Where it is stored in the log, likewise.
        store_timestamp_ms: When it was stored, likewise.
    """
    if queue_offset is None or commit_log_offset is None or store_timestamp_ms is None:
        queue_offset, commit_log_offset = fields.queue_offset, fields.commit_log_offset
        store_timestamp_ms = fields.store_timestamp_ms
    properties = fields.properties
    topic = properties.get(PropertyName.REAL_TOPIC, "")
    queue_id = _number(properties.get(PropertyName.REAL_QUEUE_ID, ""))
    if not topic or queue_id is None:
        return None
    return half_message_with(
        properties,
        HalfMessage(
            transaction_id=fields.unique_id or _id_of_place(commit_log_offset),
            topic=topic,
            queue_id=queue_id,
            producer_group=properties.get(PropertyName.PRODUCER_GROUP, ""),
            queue_offset=queue_offset,
            commit_log_offset=commit_log_offset,
            store_timestamp_ms=store_timestamp_ms,
            keys=fields.keys,
        ),
    )


def half_message_with(properties: Mapping[str, str], half: HalfMessage) -> HalfMessage:
    """A half message, and what further properties say of it.

    Args:
        properties: Of the message.
        half: What is known without them.
    """
    if _FURTHER_PROPERTIES.isdisjoint(properties):
        return half
    immunity_s = _number(properties.get(IMMUNITY_PROPERTY, ""))
    first_stored_ms = _number(properties.get(FIRST_STORED_PROPERTY, ""))
    return replace(
        half,
        store_timestamp_ms=first_stored_ms or half.store_timestamp_ms,
        immunity_ms=None if immunity_s is None else immunity_s * 1000,
        parked=PARKED_PROPERTY in properties,
    )


def carried_forward(fields: RecordFields, half: HalfMessage) -> RecordFields:
    """A half message as it is stored anew, before its first record becomes too old."""
    properties = fields.properties | {FIRST_STORED_PROPERTY: str(half.store_timestamp_ms)}
    if half.parked:
        # The copy that says so is older still, and goes.
        properties[PARKED_PROPERTY] = "true"
    return replace(fields, topic=HALF_TOPIC, properties=properties)


def committed_copy(copy: RecordCopy, half: HalfMessage) -> RecordCopy:
    """The record for the real topic: the half message, without the broker's notes.

    Args:
        copy: Of the half message.
        half: The half message.
    """
    return without_properties(copy, _NOTES_OF_HALF)._replace(
        system_flag=copy.system_flag & ~TRANSACTION_MASK | SystemFlag.TRANSACTION_COMMIT,
        half_offset=half.commit_log_offset,
    )


def committed_transaction_id(fields: RecordFields) -> str:
    """Which transaction a committed message was of."""
    return fields.unique_id or _id_of_place(fields.half_offset)


def op_block(ended: Iterable[tuple[HalfMessage, Decision | None]], now_ms: int) -> RecordBlock:
    """Records that say that half messages are done with: an op record for each.

    Args:
        ended: The half messages, at least one; how each ended when that was a commit, and None for
            a rollback.
        now_ms: Milliseconds since the epoch.
    """
    encoder = BlockEncoder(OP_TOPIC, size_bytes_max=_OP_BLOCK_BYTES_MAX)
    for half, decision in ended:
        outcome = Outcome.ROLLBACK if decision is None else decision.outcome
        properties = {PropertyName.REAL_TOPIC: half.topic, OUTCOME_PROPERTY: outcome.value}
        if decision is not None:
            properties[COMMITTED_AT_PROPERTY] = str(decision.commit_log_offset)
        encoder.add(
            str(half.queue_offset).encode(),
            tag=OP_TAG,
            unique_id=half.transaction_id,
            properties=properties,
            born_timestamp_ms=now_ms,
        )
    return encoder.finish()


def superseded_record(half_queue_offset: int, now_ms: int) -> RecordFields:
    """The op record for a half message that is stored anew elsewhere in the half topic."""
    body = str(half_queue_offset).encode()
    properties = {PropertyName.TAGS: OP_TAG}
    return RecordFields(topic="", body=body, properties=properties, born_timestamp_ms=now_ms)


def settled_queue_offsets(fields: RecordFields) -> list[int]:
    """The half messages that an op record is done with: queue offsets in the half topic."""
    if fields.tag != OP_TAG:
        return []
    parts = fields.body.decode("ascii", errors="replace").split(",")
    return [number for number in map(_number, parts) if number is not None]


def decision_of_op(fields: RecordFields) -> Decision | None:
    """What an op record of ours says of an outcome; None for RocketMQ's, which say less."""
    try:
        outcome = Outcome(fields.properties.get(OUTCOME_PROPERTY, ""))
    except ValueError:
        return None
    committed_at = _number(fields.properties.get(COMMITTED_AT_PROPERTY, ""))
    return Decision(
        transaction_id=fields.unique_id,
        topic=fields.properties.get(PropertyName.REAL_TOPIC, ""),
        outcome=outcome,
        commit_log_offset=fields.commit_log_offset if committed_at is None else committed_at,
    )


def parked_copy(fields: RecordFields, check_count: int) -> RecordFields:
    """The copy of a half message that was asked about in vain as often as allowed."""
    properties = fields.properties | {CHECK_COUNT_PROPERTY: str(check_count)}
    return replace(fields, properties=properties)


def _id_of_place(commit_log_offset: int) -> str:
    """Names the transaction of a half message without a unique id."""
    return f"@{commit_log_offset}"


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None
