"""Whether packed records are of the kind that their topic takes: by column, not by record."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_broker.errors import message_type_mismatch
from ariane_broker.topic_table import TopicConfig, TopicMessageType
from ariane_record import RecordBlock
from ariane_record.columns import RecordColumns, decode_columns
from ariane_record.errors import RecordCorrupted
from ariane_record.layout import PropertyName

_NAME_END: Final = 1
_VALUE_END: Final = 2

_DELAY_NAMES: Final = (
    PropertyName.DELAY_LEVEL,
    PropertyName.DELIVERY_TIME_MS,
    "TIMER_DELAY_SEC",
    "TIMER_DELAY_MS",
)
"""What RocketMQ's clients put on messages that are to come later."""


def check_message_types(block: RecordBlock, config: TopicConfig) -> None:
    """Refuse a block with a record of another kind than its topic takes.

    A topic without a type, or a mixed one, takes all of them and costs nothing here. One for FIFO
    wants a message group on every record, one for normal messages none; neither takes delayed or
    half messages.

    Raises:
        ServiceError: MESSAGE_TYPE_MISMATCH.
    """
    if config.plain_queue_count:
        return
    expected = config.message_type
    if expected not in {TopicMessageType.NORMAL, TopicMessageType.FIFO} or not block.count:
        return
    try:
        columns = decode_columns(block.records, block.sizes)
    except RecordCorrupted:
        return  # The store says what is wrong with it.
    for kind, names in (
        (TopicMessageType.DELAY, _DELAY_NAMES),
        (TopicMessageType.TRANSACTION, (PropertyName.HALF_MESSAGE,)),
    ):
        if any(records_with(columns, name).any() for name in names):
            raise message_type_mismatch(config.topic, expected.value, kind.value)
    grouped = records_with(columns, PropertyName.MESSAGE_GROUP)
    if expected is TopicMessageType.FIFO and not grouped.all():
        raise message_type_mismatch(config.topic, expected.value, TopicMessageType.NORMAL.value)
    if expected is TopicMessageType.NORMAL and grouped.any():
        raise message_type_mismatch(config.topic, expected.value, TopicMessageType.FIFO.value)


def records_with(columns: RecordColumns, name: str) -> NDArray[np.bool_]:
    """Which records have a property that is not empty: bool[count].

    Args:
        columns: The records.
        name: Of the property.
    """
    octets = np.frombuffer(columns.records, np.uint8)
    wanted = name.encode()
    begins = np.flatnonzero(octets == _NAME_END) - len(wanted)
    begins = begins[begins > 0]  # No property lies at the very begin: a header does.
    for place, octet in enumerate(wanted):
        begins = begins[octets[begins + place] == octet]
    found: NDArray[np.bool_] = np.zeros(len(columns), np.bool_)
    if not len(begins):
        return found
    starts = columns.properties_start
    records = np.searchsorted(starts, begins, side="right") - 1
    inside = records >= 0
    begins, records = begins[inside], records[inside]
    ends = starts[records] + columns.properties_length[records]
    value_begins = begins + len(wanted) + 1
    named = (begins == starts[records]) | (octets[begins - 1] == _VALUE_END)
    has_value = value_begins < ends
    has_value[has_value] = octets[value_begins[has_value]] != _VALUE_END
    found[records[named & has_value]] = True
    return found
