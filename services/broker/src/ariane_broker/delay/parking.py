"""Parking: records of a topic become records of a system topic that name their destination.

::

    orders, queue 3     header | body | "orders"              | properties
    parked              header | body | "SCHEDULE_TOPIC_XXXX" | REAL_TOPIC, REAL_QID, DELAY,
                                                                properties

The layout and the names are RocketMQ's; either broker delivers what the other has parked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np

from ariane_broker.delay.delay import Delay
from ariane_broker.delay.level_queues import queue_of
from ariane_broker.delay.parked.parked_records import DELAY_PROPERTIES, timer_heads
from ariane_broker.delay.timer.timer_queue import TIMER_QUEUE
from ariane_broker.errors.public_errors import delivery_time_too_late, message_illegal
from ariane_broker.queue_key import QueueKey
from ariane_broker.topics.message_types import records_with
from ariane_record import ProducerSequence, RecordTable, RecordTooLarge
from ariane_record.decoding.columns import decode_columns
from ariane_record.encoding.moved_records import MovedRecords
from ariane_record.layout import PropertyName
from ariane_record.single.producer_sequence import EMPTY_SEQUENCE
from ariane_servicekit.errors import field_invalid
from ariane_storage.log.records.fields import Int64s

_DELAY_MS_MAX: Final = 1 << 45
"""More than a thousand years: a sum with a time stays far below 64 bits."""

_RESERVED: Final = DELAY_PROPERTIES - {PropertyName.PRODUCER_SEQUENCE}


class Parked(NamedTuple):
    """Records in their parked form."""

    block: RecordTable
    """The records."""
    queue: QueueKey
    """The queue in which they wait."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Parking:
    """Turns ordinary records into parked ones."""

    levels_ms: tuple[int, ...]
    """How long each delay level waits, level 1 first."""
    delay_ms_max: int
    """How far in the future a delivery time may be."""
    now_ms: Callable[[], int]
    check_table: Callable[[RecordTable], object]
    """Raises if the table could not be appended; writes nothing."""

    def park(
        self,
        block: RecordTable,
        queue: QueueKey,
        delay: Delay,
        sequence: ProducerSequence | None = None,
    ) -> Parked:
        """Park the records of a block.

        Args:
            block: Records of the destination topic.
            queue: The destination queue.
            delay: The delay or times.
            sequence: The batch's place in its producer's stream to that queue.

        Raises:
            BlockRejected: The block is broken.
            ServiceError: FIELD_INVALID or DELIVERY_TIME_TOO_LATE; MESSAGE_ILLEGAL for a producer's
                record that itself names a destination, or that has no room for one.
        """
        self.check_table(block)
        moved = MovedRecords(decode_columns(block.records, block.sizes), dropped=DELAY_PROPERTIES)
        if not block.forwarded:
            for name in sorted(_RESERVED):
                _refuse(moved, name)
        times_ms = delay.times_ms
        if times_ms is None:
            return self._park_for_level(moved, queue, delay.level, sequence)
        if delay.after_arrival:
            if len(times_ms) and not 1 <= times_ms.min() <= times_ms.max() <= _DELAY_MS_MAX:
                raise field_invalid("delays_ms", f"must be 1 to {_DELAY_MS_MAX}")
            times_ms = self.now_ms() + times_ms
        return self._park_for_times(moved, queue, times_ms, sequence)

    def check_staged(self, block: RecordTable, times_ms: Int64s) -> None:
        """Check now that records can be parked later, when it is too late to refuse them.

        Args:
            block: Records that could be appended.
            times_ms: Delivery time of each; 0 for records that will not be parked.

        Raises:
            ServiceError: As ``park``.
        """
        rows = np.flatnonzero(times_ms)
        if not len(rows):
            return
        self._check_times(times_ms, rows)
        columns = decode_columns(block.records, block.sizes)
        for name in sorted(_RESERVED):
            _refuse_rows(rows[records_with(columns, name)[rows]], name)

    def park_staged(
        self, block: RecordTable, queue_ids: Int64s, times_ms: Int64s, *, half_offset: int
    ) -> Parked:
        """Park records that ``check_staged`` has passed.

        They are committed, so limits that have changed meanwhile do not apply to them.

        Args:
            block: Records of the destination topic.
            queue_ids: Destination queue of each.
            times_ms: Delivery time of each.
            half_offset: The value of the header field for a half message's offset.
        """
        moved = MovedRecords(decode_columns(block.records, block.sizes), dropped=DELAY_PROPERTIES)
        queues = map(b"%d".__mod__, queue_ids.tolist())
        heads = timer_heads(repeat(block.topic.encode()), queues, times_ms)
        return _parked(moved, TIMER_QUEUE, heads, None, times_ms, half_offset=half_offset)

    def _park_for_level(
        self, moved: MovedRecords, queue: QueueKey, level: int, sequence: ProducerSequence | None
    ) -> Parked:
        if level < 1:
            raise field_invalid("delay_level", "must be 1 or more", level)
        home = queue_of(min(level, len(self.levels_ms)))
        head = _head(queue) + f"{PropertyName.DELAY_LEVEL}\x01{home.queue_id + 1}\x02".encode()
        return _parked(moved, home, [head] * len(moved.columns), sequence)

    def _park_for_times(
        self,
        moved: MovedRecords,
        queue: QueueKey,
        times_ms: Int64s,
        sequence: ProducerSequence | None,
    ) -> Parked:
        if len(times_ms) != len(moved.columns):
            rule = f"must have one time for each of {len(moved.columns)} records"
            raise field_invalid("delivery_times_ms", rule, len(times_ms))
        self._check_times(times_ms, np.arange(len(times_ms)))
        heads = timer_heads(repeat(queue.topic.encode()), repeat(b"%d" % queue.queue_id), times_ms)
        return _parked(moved, TIMER_QUEUE, heads, sequence, times_ms)

    def _check_times(self, times_ms: Int64s, rows: Int64s) -> None:
        """Refuse delivery times of some records that are illegal or too late."""
        chosen = times_ms[rows]
        if int(chosen.min()) < 1:
            raise field_invalid("delivery_times_ms", "must be 1 or more", int(chosen.min()))
        late = rows[chosen > self.now_ms() + self.delay_ms_max]
        if len(late):
            first = int(late[0])
            raise delivery_time_too_late(first, int(times_ms[first]), self.delay_ms_max)


def _parked(
    moved: MovedRecords,
    home: QueueKey,
    heads: list[bytes],
    sequence: ProducerSequence | None,
    times_ms: Int64s | None = None,
    *,
    half_offset: int = 0,
) -> Parked:
    if sequence is not None:
        heads[0] = EMPTY_SEQUENCE + heads[0]
    try:
        block = moved.block(
            home.topic,
            np.arange(len(heads)),
            heads=heads,
            half_offsets=half_offset,
            delivery_times_ms=times_ms,
        )
    except RecordTooLarge as error:
        raise message_illegal(0, f"{error}, those of its delay included") from error
    return Parked(block if sequence is None else block.with_sequence(sequence), home)


def _head(queue: QueueKey) -> bytes:
    """The properties that name the destination of a parked record."""
    return (
        f"{PropertyName.REAL_TOPIC}\x01{queue.topic}\x02"
        f"{PropertyName.REAL_QUEUE_ID}\x01{queue.queue_id}\x02"
    ).encode()


def _refuse(moved: MovedRecords, name: str) -> None:
    """Refuse records with a property that names the destination of a parked record."""
    is_set = np.fromiter(map(bool, moved.values(name)), np.bool_, len(moved.columns))
    _refuse_rows(np.flatnonzero(is_set), name)


def _refuse_rows(rows: Int64s, name: str) -> None:
    """Refuse the first of some records for a property that only the system may set."""
    if len(rows):
        raise message_illegal(int(rows[0]), f"property {name!r} belongs to the system")
