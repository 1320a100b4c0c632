"""Parking: records of a topic become records of a system topic, which say where they are going.

::

    orders, queue 3     header | body | "orders"              | properties
    parked              header | body | "SCHEDULE_TOPIC_XXXX" | REAL_TOPIC, REAL_QID, DELAY,
                                                                properties

The layout and the names are RocketMQ's, which delivers what we parked and the reverse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from ariane_broker.consumer_offsets import QueueKey
from ariane_broker.delay.delay import Delay, DelayLevel
from ariane_broker.delay.level_queues import queue_of
from ariane_broker.errors import message_illegal
from ariane_record import ProducerSequence, RecordBlock, RecordTooLarge
from ariane_record.columns import decode_columns
from ariane_record.layout import PropertyName
from ariane_record.moved_records import MovedRecords
from ariane_record.producer_sequence import EMPTY_SEQUENCE, with_sequence
from ariane_servicekit import feature_not_available
from ariane_servicekit.errors import field_invalid

DELAY_PROPERTIES: Final = frozenset(
    {
        PropertyName.REAL_TOPIC,
        PropertyName.REAL_QUEUE_ID,
        PropertyName.DELAY_LEVEL,
        PropertyName.DELIVERY_TIME_MS,
        PropertyName.TIMER_OUT_MS,
        PropertyName.TIMER_DELAY_MS,
        PropertyName.TIMER_DELAY_SECONDS,
        PropertyName.RECALLED_KEY,
        PropertyName.PRODUCER_SEQUENCE,
    }
)
"""What a parked record says of its way; a delivered one does not have them."""

_RESERVED: Final = DELAY_PROPERTIES - {PropertyName.PRODUCER_SEQUENCE}


class Parked(NamedTuple):
    """Records as they are parked.

    Attributes:
        block: The records.
        queue: The queue in which they wait.
    """

    block: RecordBlock
    queue: QueueKey


class Parking:
    """Makes parked records of ordinary ones."""

    def __init__(self, *, level_count: int, check_block: Callable[[RecordBlock], object]) -> None:
        """Take the rules.

        Args:
            level_count: How many levels there are.
            check_block: Raises when a block could not be appended; writes nothing.
        """
        self._level_count = level_count
        self._check_block = check_block

    def park(
        self,
        block: RecordBlock,
        queue: QueueKey,
        delay: Delay,
        sequence: ProducerSequence | None = None,
    ) -> Parked:
        """The records of a block as they wait for their time.

        Args:
            block: Records of the topic that they are going to.
            queue: The queue that they are going to.
            delay: When.
            sequence: Where they stand in the stream of their producer to that queue.

        Raises:
            BlockRejected: The block is broken.
            ServiceError: FIELD_INVALID for a delay that cannot be; MESSAGE_ILLEGAL for a record of
                a producer that says itself where it is going, or that has no room to say so.
        """
        self._check_block(block)
        moved = MovedRecords(decode_columns(block.records, block.sizes), dropped=DELAY_PROPERTIES)
        if not block.forwarded:
            for name in sorted(_RESERVED):
                _refuse(moved, name)
        if not isinstance(delay, DelayLevel):
            raise feature_not_available("sending a message for a time of delivery")
        return self._park_for_level(moved, queue, delay.level, sequence)

    def _park_for_level(
        self, moved: MovedRecords, queue: QueueKey, level: int, sequence: ProducerSequence | None
    ) -> Parked:
        if level < 1:
            raise field_invalid("delay_level", "must be 1 or more", level)
        home = queue_of(min(level, self._level_count))
        head = _head(queue) + f"{PropertyName.DELAY_LEVEL}\x01{home.queue_id + 1}\x02".encode()
        return _parked(moved, home, [head] * len(moved.columns), sequence)


def _parked(
    moved: MovedRecords,
    home: QueueKey,
    heads: list[bytes],
    sequence: ProducerSequence | None,
) -> Parked:
    if sequence is not None:
        heads[0] = EMPTY_SEQUENCE + heads[0]
    try:
        block = moved.block(home.topic, np.arange(len(heads)), heads=heads)
    except RecordTooLarge as error:
        raise message_illegal(0, f"{error}, those of its delay included") from error
    return Parked(block if sequence is None else with_sequence(block, sequence), home)


def _head(queue: QueueKey) -> bytes:
    """Where a parked record is going."""
    return (
        f"{PropertyName.REAL_TOPIC}\x01{queue.topic}\x02"
        f"{PropertyName.REAL_QUEUE_ID}\x01{queue.queue_id}\x02"
    ).encode()


def _refuse(moved: MovedRecords, name: str) -> None:
    """Refuse records that have a property which says where a parked record is going."""
    position = next((place for place, value in enumerate(moved.values(name)) if value), None)
    if position is not None:
        raise message_illegal(position, f"property {name!r} belongs to the system")
