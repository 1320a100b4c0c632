"""Whether rows may be appended to their queues; the store checks the records themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ariane_broker.append.rows import Rows
from ariane_broker.errors.public_errors import (
    message_illegal,
    message_too_large,
    message_type_mismatch,
    queue_not_found,
    topic_not_found,
    topic_not_writable,
)
from ariane_broker.queue_key import QueueKey
from ariane_broker.topics.topic_changes import user_topic_error
from ariane_broker.topics.topic_table import TopicConfig, TopicMessageType
from ariane_record import ProducerSequence, RecordTable
from ariane_record.layout import HEADER, HEADER_BYTES, PRODUCER_PROPERTIES_BYTES_MAX
from ariane_record.names import TRACE_TOPIC
from ariane_record.single.counted_topic import counted_topic
from ariane_servicekit.errors import field_invalid
from ariane_storage.log.records.fields import FieldColumn

ROWS_MAX: Final = 4096
"""Rows of one call: each costs some 20 us of the loop, and 100 when appended one by one."""

_INT64_MAX: Final = (1 << 63) - 1
_SEQUENCE_MAX: Final = 1 << 62
_NUMBERS: Final = (
    ("queue_ids", 0, _INT64_MAX, "0 or more"),
    ("producer_id", 1, _INT64_MAX, "1 or more"),
    ("producer_epochs", 0, _INT64_MAX, "0 or more"),
    ("first_sequences", 0, _SEQUENCE_MAX, f"0 to {_SEQUENCE_MAX}"),
)
"""The columns of numbers of rows: name, least, most, and what is said of others."""

_ANY_SEQUENCE: Final = ProducerSequence(1, 0, 0)

_BODY_LENGTH_START: Final = HEADER_BYTES - 4
_COUNT_BYTES: Final = 2
_ANY_TYPES: Final = frozenset({TopicMessageType.UNSPECIFIED, TopicMessageType.MIXED})
_TYPES: Final = {
    # Whether records of a group are right is told by the records.
    TopicMessageType.NORMAL: _ANY_TYPES | {TopicMessageType.NORMAL, TopicMessageType.FIFO},
    TopicMessageType.DELAY: _ANY_TYPES | {TopicMessageType.DELAY},
    TopicMessageType.TRANSACTION: _ANY_TYPES | {TopicMessageType.TRANSACTION},
}
"""The types of topics that take messages of a type."""


def check_numbers(rows: Rows) -> None:
    """Refuse queue ids or sequences that are out of range.

    Raises:
        ServiceError: FIELD_INVALID.
    """
    columns = zip(rows.queue_ids, rows.sequences, strict=True)
    for row, (queue_id, sequence) in enumerate(columns):
        producer_id, epoch, first = sequence or _ANY_SEQUENCE
        if queue_id >= 0 and producer_id >= 1 and epoch >= 0 and 0 <= first <= _SEQUENCE_MAX:
            continue
        numbers = (queue_id, producer_id, epoch, first)
        for number, (name, least, most, rule) in zip(numbers, _NUMBERS, strict=True):
            if not least <= number <= most:
                raise field_invalid(f"table.{name}[{row}]", f"must be {rule}", number)


def check_places(
    queues: Sequence[QueueKey],
    configs: Sequence[TopicConfig | None],
    *,
    is_delayed: bool = False,
    is_plain: bool = False,
) -> None:
    """Refuse rows of which one may not be appended to its queue.

    Args:
        queues: The queue of each.
        configs: The topic of each; None if the broker does not know it.
        is_delayed: Whether they are to be delivered later.
        is_plain: Whether the broker has encoded their messages. Only such ones are traces: it has
            put into them who writes.

    Raises:
        ServiceError: TOPIC_NOT_FOUND, TOPIC_NAME_ILLEGAL, TOPIC_RESERVED, TOPIC_NOT_WRITABLE,
            QUEUE_NOT_FOUND or MESSAGE_TYPE_MISMATCH.
    """
    sent = TopicMessageType.DELAY if is_delayed else TopicMessageType.NORMAL
    for (topic, queue_id), config in zip(queues, configs, strict=True):
        if config is not None and not is_delayed and queue_id < config.plain_queue_count:
            continue  # The usual case: nothing more to check.
        is_trace = is_plain and topic == TRACE_TOPIC
        check_place(topic, queue_id, config, sent, may_be_system=is_trace)


def check_place(
    topic: str,
    queue_id: int,
    config: TopicConfig | None,
    sent: TopicMessageType,
    *,
    may_be_system: bool = False,
) -> None:
    """Refuse messages of a type that a queue does not take.

    Args:
        topic: The topic.
        queue_id: The queue, 0 or more.
        config: The topic; None if the broker does not know it.
        sent: The type: delayed, half, or any other (``NORMAL``).
        may_be_system: Whether the topic may be one of the system.

    Raises:
        ServiceError: As ``check_places``.
    """
    if config is None or (config.system and not may_be_system):
        raise user_topic_error(topic) or topic_not_found(topic)
    if not config.writable:
        raise topic_not_writable(topic, int(config.permission))
    if queue_id >= config.write_queue_count:
        raise queue_not_found(topic, queue_id, config.write_queue_count)
    if config.message_type not in _TYPES[sent]:
        raise message_type_mismatch(topic, config.message_type.value, sent.value)


def check_sizes(table: RecordTable, body_bytes_max: int) -> None:
    """Refuse bodies and properties over their limits; looks only into large records.

    Raises:
        ServiceError: MESSAGE_TOO_LARGE or MESSAGE_ILLEGAL; the position counts over all rows.
    """
    size_max = min(body_bytes_max, PRODUCER_PROPERTIES_BYTES_MAX)
    if table.size_bytes <= size_max:
        return
    sizes = table.sizes
    if not len(sizes) or int(sizes.max()) <= size_max:
        return
    if int(sizes.min()) < HEADER.itemsize or int(sizes.sum(dtype=np.int64)) != table.size_bytes:
        return  # The store finds the fault of these.
    ends = np.cumsum(sizes, dtype=np.int64)
    large = np.flatnonzero(sizes > size_max)
    places = ends[large] - sizes[large] + _BODY_LENGTH_START
    lengths = FieldColumn(table.records, ">i4", places, 0).get().astype(np.int64)
    first = int(np.argmax(lengths))
    if lengths[first] > body_bytes_max:
        raise message_too_large(int(lengths[first]), body_bytes_max, int(large[first]))
    widths = np.array([len(counted_topic(topic)[1]) for topic in table.topics])
    if len(table) > 1:
        widths = widths.repeat(table.counts)[large]
    beside = sizes[large] - lengths - (HEADER_BYTES + widths + _COUNT_BYTES)
    first = int(np.argmax(beside))
    if beside[first] > PRODUCER_PROPERTIES_BYTES_MAX:
        rule = f"properties of {beside[first]} bytes; {PRODUCER_PROPERTIES_BYTES_MAX} are allowed"
        raise message_illegal(int(large[first]), rule)
