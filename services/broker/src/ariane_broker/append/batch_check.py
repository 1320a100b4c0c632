"""Whether a batch may be appended to its queue; the store checks the records themselves."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from ariane_broker.delay.delay import Delay
from ariane_broker.errors.public_errors import (
    block_corrupted,
    message_illegal,
    message_too_large,
    message_type_mismatch,
    queue_not_found,
    topic_not_found,
    topic_not_writable,
)
from ariane_broker.log.promise import Demand
from ariane_broker.topics.topic_changes import user_topic_error
from ariane_broker.topics.topic_table import TopicConfig, TopicMessageType
from ariane_record import ProducerSequence, RecordBlock
from ariane_record.layout import HEADER, HEADER_BYTES, PRODUCER_PROPERTIES_BYTES_MAX
from ariane_record.names import TRACE_TOPIC
from ariane_record.single.counted_topic import counted_topic
from ariane_record.single.producer_sequence import says_sequence
from ariane_servicekit.errors import ServiceError
from ariane_storage.log.records.fields import FieldColumn

BATCHES_MAX: Final = 4096
"""Batches of one call: each costs some 20 us of the loop, and 100 when appended one by one."""

_BODY_LENGTH_START: Final = HEADER_BYTES - 4
_COUNT_BYTES: Final = 2
_DELAYED_TYPES: Final = frozenset(
    {TopicMessageType.UNSPECIFIED, TopicMessageType.DELAY, TopicMessageType.MIXED}
)
_PACKED_TYPES: Final = frozenset(
    {
        TopicMessageType.UNSPECIFIED,
        TopicMessageType.NORMAL,
        TopicMessageType.FIFO,
        TopicMessageType.MIXED,
    }
)
"""Types of topics that take ordinary records; other records have their own ways in."""


class Batch(NamedTuple):
    """Records for one queue.

    Attributes:
        block: The records with their columns; None if the columns were wrong.
        topic: The topic of all records.
        queue_id: The queue of all records.
        error: Why there is no block.
        sequence: The batch's place in its producer's stream; None: every arrival is stored.
        delay: When the batch is to be delivered; None for at once.
        is_plain: Whether the broker has encoded the batch, and filled in missing fields.
        demand: The level to reach, where that is more than the broker's own; or None.
        half_of: The producer group of a half message; None for other batches.
    """

    block: RecordBlock | None
    topic: str
    queue_id: int
    error: ServiceError | None = None
    sequence: ProducerSequence | None = None
    delay: Delay | None = None
    is_plain: bool = False
    demand: Demand | None = None
    half_of: str | None = None


def block_of(batch: Batch) -> RecordBlock:
    """Return the records of a batch; they must have the same sequence as the batch.

    Raises:
        ServiceError: BLOCK_CORRUPTED.
    """
    block = batch.block
    if block is None:
        raise batch.error or block_corrupted(-1, "its columns make no sense")
    if not says_sequence(block.records, batch.sequence, block.count):
        raise block_corrupted(0, "its producer sequence is not that of the batch")
    return block


def check_place(batch: Batch, config: TopicConfig | None) -> None:
    """Refuse a batch that may not be appended to its queue.

    Args:
        batch: The batch.
        config: Its topic; None if the broker does not know it.

    Raises:
        ServiceError: TOPIC_NOT_FOUND, TOPIC_NAME_ILLEGAL, TOPIC_RESERVED, TOPIC_NOT_WRITABLE,
            QUEUE_NOT_FOUND or MESSAGE_TYPE_MISMATCH.
    """
    if config is not None and batch.delay is None and batch.queue_id < config.plain_queue_count:
        return  # The usual case: nothing more to check.
    if config is None or (config.system and batch.topic != TRACE_TOPIC):
        raise user_topic_error(batch.topic) or topic_not_found(batch.topic)
    if not config.writable:
        raise topic_not_writable(batch.topic, int(config.permission))
    if batch.queue_id >= config.write_queue_count:
        raise queue_not_found(batch.topic, batch.queue_id, config.write_queue_count)
    if batch.delay is not None:
        check_takes_delayed(config)
    elif config.message_type not in _PACKED_TYPES:
        raise message_type_mismatch(batch.topic, config.message_type.value, "NORMAL")


def check_takes_delayed(config: TopicConfig) -> None:
    """Refuse delayed messages if the topic does not take them.

    Raises:
        ServiceError: MESSAGE_TYPE_MISMATCH.
    """
    if config.message_type not in _DELAYED_TYPES:
        raise message_type_mismatch(config.topic, config.message_type.value, "DELAY")


def check_sizes(block: RecordBlock, body_bytes_max: int) -> None:
    """Refuse bodies and properties over their limits; looks only into large records.

    Raises:
        ServiceError: MESSAGE_TOO_LARGE or MESSAGE_ILLEGAL.
    """
    size_max = min(body_bytes_max, PRODUCER_PROPERTIES_BYTES_MAX)
    if block.size_bytes <= size_max:
        return
    sizes = block.sizes
    if not len(sizes) or int(sizes.max()) <= size_max:
        return
    if int(sizes.min()) < HEADER.itemsize or int(sizes.sum(dtype=np.int64)) != block.size_bytes:
        return  # The store finds the fault of these.
    ends = np.cumsum(sizes, dtype=np.int64)
    large = np.flatnonzero(sizes > size_max)
    places = ends[large] - sizes[large] + _BODY_LENGTH_START
    lengths = FieldColumn(block.records, ">i4", places, 0).get().astype(np.int64)
    first = int(np.argmax(lengths))
    if lengths[first] > body_bytes_max:
        raise message_too_large(int(lengths[first]), body_bytes_max, int(large[first]))
    _, counted = counted_topic(block.topic)
    beside = sizes[large] - lengths - (HEADER_BYTES + len(counted) + _COUNT_BYTES)
    first = int(np.argmax(beside))
    if beside[first] > PRODUCER_PROPERTIES_BYTES_MAX:
        rule = f"properties of {beside[first]} bytes; {PRODUCER_PROPERTIES_BYTES_MAX} are allowed"
        raise message_illegal(int(large[first]), rule)
