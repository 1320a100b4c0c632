r"""The records of a transaction: half message, committed message, op record, parked copy.

::

    RMQ_SYS_TRANS_HALF_TOPIC     |half|  REAL_TOPIC, REAL_QID, TRAN_MSG, PGROUP: invisible
    the real topic                   \---> |message|  COMMIT flag, commit-log offset of the half
    RMQ_SYS_TRANS_OP_HALF_TOPIC       \--------> |op|  queue offset of the half: it is decided
    TRANS_CHECK_MAX_TIME_TOPIC    |copy|  asked about in vain as often as allowed

The shapes are RocketMQ's, so that either broker can continue after the other. Our op records also
name the transaction and its outcome, so that an outcome is known even if it is not in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Final

from ariane_record import PropertyName, RecordFields, SystemFlag
from ariane_record.checksums.checksum import masked_crc32
from ariane_record.layout import PROPERTY_VALUE_END, TRANSACTION_MASK
from ariane_record.names import HALF_TOPIC
from ariane_record.single.message import EMPTY_HOST
from ariane_record.single.properties import encode_properties
from ariane_record.single.record_copy import RecordCopy, without_properties

OP_TAG: Final = "d"
"""RocketMQ's tag of an op record: the half message is settled."""

IMMUNITY_PROPERTY: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
"""Set by the application: how long its half message may rest before the first check."""

CHECK_COUNT_PROPERTY: Final = "TRANSACTION_CHECK_TIMES"
FIRST_STORED_PROPERTY: Final = "TRAN_FIRST_STORED_MS"
PARKED_PROPERTY: Final = "TRAN_PARKED"
OUTCOME_PROPERTY: Final = "TRAN_OUTCOME"

TRANSACTION_PROPERTIES: Final = frozenset(
    {
        CHECK_COUNT_PROPERTY,
        FIRST_STORED_PROPERTY,
        PARKED_PROPERTY,
        OUTCOME_PROPERTY,
    }
)
"""Properties that the broker writes on its own records; producers may not set them."""

_ID: Final = "?"
"""Stands for the id of a transaction."""

_ID_END: Final = _ID.encode() + PROPERTY_VALUE_END

_COMMITTED: Final = int(SystemFlag.TRANSACTION_COMMIT)
_NOTES_OF_HALF: Final = frozenset({FIRST_STORED_PROPERTY, PARKED_PROPERTY})
_FURTHER_PROPERTIES: Final = frozenset({IMMUNITY_PROPERTY, FIRST_STORED_PROPERTY, PARKED_PROPERTY})


class Outcome(StrEnum):
    """How a transaction ended."""

    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"


# Never changed; not frozen, because making it would take more than twice as long.
@dataclass(slots=True)
class HalfMessage:
    """A half message without an outcome."""

    transaction_id: str
    """The transaction's id: the unique id of the message."""
    topic: str
    """The topic it is for."""
    queue_id: int
    """The queue it is for."""
    producer_group: str
    """The group whose members can be asked."""
    queue_offset: int
    """The queue offset of its record in the half topic."""
    commit_log_offset: int
    """The commit-log offset of its record."""
    store_timestamp_ms: int
    """When it was first stored."""
    immunity_ms: int | None = None
    """How long it may rest before the first check; None: the checker decides."""
    keys: tuple[str, ...] = ()
    """The message's keys."""
    parked: bool = False
    """Whether it is parked after too many checks."""


# Likewise.
@dataclass(slots=True)
class Decision:
    """The outcome of a transaction, and where the log has it."""

    transaction_id: str
    """Names the transaction."""
    topic: str
    """The topic of the message."""
    outcome: Outcome
    """How it ended."""
    commit_log_offset: int
    """Commit-log offset of the deciding record: the message, or after a rollback the op record."""


def half_properties(
    topic: str, queue_id: int, producer_group: str, transaction_id: str
) -> dict[str, str]:
    """Properties that the system adds to make a half message of a message."""
    return {
        PropertyName.REAL_TOPIC: topic,
        PropertyName.REAL_QUEUE_ID: str(queue_id),
        PropertyName.HALF_MESSAGE: "true",
        PropertyName.PRODUCER_GROUP: producer_group,
        PropertyName.TRANSACTION_ID: transaction_id,
    }


@lru_cache(maxsize=4096)
def _half_front(topic: str, queue_id: int, producer_group: str) -> bytes:
    """``half_properties``, encoded up to the id of the transaction, which is the last value."""
    return encode_properties(half_properties(topic, queue_id, producer_group, _ID))[: -len(_ID_END)]


def encoded_half_properties(
    topic: str, queue_id: int, producer_group: str, transaction_id: str
) -> bytes:
    """``half_properties``, encoded: most messages share all but their ids."""
    front = _half_front(topic, queue_id, producer_group)
    return front + transaction_id.encode() + PROPERTY_VALUE_END


def half_message_of(
    fields: RecordFields,
    *,
    queue_offset: int | None = None,
    commit_log_offset: int | None = None,
    store_timestamp_ms: int | None = None,
) -> HalfMessage | None:
    """Read a half message from a record of the half topic; None if the record is none.

    Args:
        fields: The record.
        queue_offset: Its queue offset, if the record does not have it yet.
        commit_log_offset: Its commit-log offset, likewise.
        store_timestamp_ms: Its store time, likewise.
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
    """Complete a half message from its properties."""
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
    """Make the record that stores a half message anew, before its first record becomes too old."""
    properties = fields.properties | {FIRST_STORED_PROPERTY: str(half.store_timestamp_ms)}
    if half.parked:
        # The parked copy is older still, and is deleted.
        properties[PARKED_PROPERTY] = "true"
    return replace(fields, topic=HALF_TOPIC, properties=properties)


def committed_copy(copy: RecordCopy, half: HalfMessage) -> RecordCopy:
    """Make the record for the real topic: the half message without the broker's notes.

    Args:
        copy: The copy of the half message's record.
        half: The half message.
    """
    return without_properties(copy, _NOTES_OF_HALF)._replace(
        system_flag=copy.system_flag & ~TRANSACTION_MASK | _COMMITTED,
        half_offset=half.commit_log_offset,
    )


def is_committed(fields: RecordFields) -> bool:
    """Whether a message became visible by the commit of a transaction."""
    return fields.system_flag & TRANSACTION_MASK == _COMMITTED


def committed_transaction_id(fields: RecordFields) -> str:
    """The transaction that a committed message belonged to."""
    return fields.unique_id or _id_of_place(fields.half_offset)


def op_record(half: HalfMessage, outcome: Outcome, now_ms: int) -> RecordCopy:
    """Make the op record of a half message whose transaction has ended."""
    body = str(half.queue_offset).encode()
    front = _op_front(half.topic, outcome)
    encoded = front + half.transaction_id.encode() + PROPERTY_VALUE_END
    return RecordCopy(body, masked_crc32(body), encoded, 0, 0, now_ms, EMPTY_HOST, 0, 0)


@lru_cache(maxsize=4096)
def _op_front(topic: str, outcome: Outcome) -> bytes:
    """The properties of an op record, encoded up to the id of its transaction."""
    properties = {
        PropertyName.REAL_TOPIC: topic,
        OUTCOME_PROPERTY: outcome,
        PropertyName.TAGS: OP_TAG,
        PropertyName.UNIQUE_ID: _ID,
    }
    return encode_properties(properties)[: -len(_ID_END)]


def superseded_record(half_queue_offset: int, now_ms: int) -> RecordFields:
    """Make the op record for a half message that is stored anew in the half topic."""
    body = str(half_queue_offset).encode()
    properties = {PropertyName.TAGS: OP_TAG}
    return RecordFields(topic="", body=body, properties=properties, born_timestamp_ms=now_ms)


def settled_queue_offsets(fields: RecordFields) -> list[int]:
    """Queue offsets, in the half topic, of the half messages that an op record settles."""
    if fields.tag != OP_TAG:
        return []
    parts = fields.body.decode("ascii", errors="replace").split(",")
    return [number for number in map(_number, parts) if number is not None]


def decision_of_op(fields: RecordFields) -> Decision | None:
    """Read the decision from an op record of ours; None for RocketMQ's, which lack it.

    After a commit the message has its own place, which the op record does not name.
    """
    try:
        outcome = Outcome(fields.properties.get(OUTCOME_PROPERTY, ""))
    except ValueError:
        return None
    topic = fields.properties.get(PropertyName.REAL_TOPIC, "")
    return Decision(fields.unique_id, topic, outcome, fields.commit_log_offset)


def parked_copy(fields: RecordFields, check_count: int) -> RecordFields:
    """Make the copy of a half message that is parked after too many checks."""
    properties = fields.properties | {CHECK_COUNT_PROPERTY: str(check_count)}
    return replace(fields, properties=properties)


def _id_of_place(commit_log_offset: int) -> str:
    """The transaction id of a half message without a unique id."""
    return f"@{commit_log_offset}"


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None
