r"""The records of a message that failed: its copy for the next try, and its dead letter.

::

    orders              |message|  fails
    %RETRY%billing         \---> |copy, attempts 1|  fails
    %RETRY%billing                  \---> |copy, attempts 2|  fails
    %DLQ%billing                             \---> |dead letter|

Each record names the one before it, and the first one, by commit-log offset. The properties have
RocketMQ's names where it has one. In a record outside of the group's retry topic they were written
by its producer, and are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from ariane_broker.delay.parked.parked_records import DELAY_PROPERTIES
from ariane_record import PropertyName, RecordFields
from ariane_record.names import DEAD_LETTER_PREFIX, RETRY_PREFIX

RETURN_ID_LENGTH_MAX: Final = 64

_OF_RETURNS: Final = frozenset(
    {
        PropertyName.RETRY_TOPIC,
        PropertyName.ORIGIN_MESSAGE_ID,
        PropertyName.ORIGIN_QUEUE_ID,
        PropertyName.ORIGIN_QUEUE_OFFSET,
        PropertyName.RETURNED_OFFSET,
        PropertyName.RETURN_ID,
        PropertyName.LAST_ERROR,
        PropertyName.CONSUMER_DEATHS,
        PropertyName.DEAD_LETTER_TOPIC,
        PropertyName.DEAD_LETTER_MESSAGE_ID,
        PropertyName.DEAD_LETTER_REASON,
        PropertyName.REDRIVEN_FROM,
    }
)
_OF_ORIGIN: Final = (
    PropertyName.RETRY_TOPIC,
    PropertyName.ORIGIN_MESSAGE_ID,
    PropertyName.ORIGIN_QUEUE_ID,
    PropertyName.ORIGIN_QUEUE_OFFSET,
)
DROPPED: Final = (
    _OF_RETURNS
    | DELAY_PROPERTIES
    | {PropertyName.HALF_MESSAGE, PropertyName.TRANSACTION_ID, PropertyName.WAIT}
)


class DeadLetterReason(StrEnum):
    """Why a message became a dead letter."""

    ATTEMPTS_EXHAUSTED = "ATTEMPTS_EXHAUSTED"
    REJECTED = "REJECTED"
    CONSUMER_DIED = "CONSUMER_DIED"


@dataclass(frozen=True, slots=True)
class ReturnedRecord:
    """The return that made a record, by the record's properties."""

    consumer_group: str
    """The group that returned the message."""
    failed_offset: int
    """Commit-log offset of the record that had failed."""
    return_id: str
    """The client's id of the return; perhaps empty."""
    attempts: int
    """Number of tries by then."""
    dead_letter: bool
    """Whether the record is a dead letter."""


def redriven_record(letter: RecordFields, *, to_group: bool) -> RecordFields:
    """Make the record that is sent back for a dead letter.

    Args:
        letter: The dead letter, as stored.
        to_group: Whether it goes to the group's retry topic, and so must name its origin.
    """
    source = f"{letter.topic}/{letter.queue_id}/{letter.queue_offset}"
    kept = {name: value for name, value in letter.properties.items() if name not in DROPPED}
    origin = {
        name: letter.properties[name]
        for name in _OF_ORIGIN
        if to_group and name in letter.properties
    }
    # The first property, because that is where the log is searched for it.
    properties = {PropertyName.REDRIVEN_FROM: source} | origin | kept
    return replace(letter, properties=properties, attempts=0, half_offset=0)


def returned_record(fields: RecordFields) -> ReturnedRecord | None:
    """Read the return that made a record, parked or not; None if no return made it."""
    properties = fields.properties
    failed_offset = properties.get(PropertyName.RETURNED_OFFSET, "")
    topic = properties.get(PropertyName.REAL_TOPIC, fields.topic)
    if not (failed_offset.isascii() and failed_offset.isdecimal()):
        return None
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if topic.startswith(prefix):
            return ReturnedRecord(
                consumer_group=topic.removeprefix(prefix),
                failed_offset=int(failed_offset),
                return_id=properties.get(PropertyName.RETURN_ID, ""),
                attempts=fields.attempts,
                dead_letter=prefix == DEAD_LETTER_PREFIX,
            )
    return None
