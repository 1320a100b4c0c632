"""Rows that are filled at once with thousands of encoded messages: of large runs and of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ariane_record.checksums.crc_algebra import CrcFolder
from ariane_record.encoding.message_properties import EncodedProperties, TopicProperties
from ariane_record.encoding.record_table import RecordTable
from ariane_record.encoding.run_encoder import encode_run
from ariane_record.single.message_id import UniqueIds
from ariane_sdk.checks.delay import AT_ONCE, AT_TIMES
from ariane_sdk.errors import ArianeError, DeadlinePassed
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.accumulator.accumulator import OpenRows
from ariane_sdk.producer.accumulator.row import Row
from ariane_sdk.producer.accumulator.topic_info import TopicInfo
from ariane_sdk.producer.sending.producer_parts import ProducerParts
from ariane_sdk.producer.sending.sending import Sending
from ariane_sdk.producer.sending.unsettled import Backpressure

UNIQUE_ID_DIGITS_MAX: Final = 56
"""Digits of an id of a producer with an IPv6 address."""


class WholeRow(NamedTuple):
    """Messages that become one row."""

    encode: Callable[[], tuple[RecordTable, UniqueIds]]
    """Makes the table and the unique ids."""
    queue: MessageQueue | None = None
    """The queue that they must go to; None: any queue will do."""
    delivery_times_ms: NDArray[np.int64] | None = None
    """When each message is to be delivered; None: at once."""


class WholeRows:
    """Encodes thousands of messages at a time and sends them as rows."""

    def __init__(self, parts: ProducerParts, open_rows: OpenRows, sending: Sending) -> None:
        self._open_rows = open_rows
        self._sending = sending
        self._parts = parts
        self.new_unique_ids = parts.unique_ids.next_ids
        """Makes the ids of a given number of messages."""
        self._folder = CrcFolder()

    def encoded_run(
        self,
        topic: TopicProperties,
        properties: EncodedProperties,
        bodies: Sequence[bytes],
        lengths: NDArray[np.int32],
    ) -> tuple[RecordTable, UniqueIds]:
        """Encode messages of one topic and tag, and nothing else."""
        unique_ids = self.new_unique_ids(len(bodies))
        table = encode_run(
            topic,
            properties,
            bodies,
            lengths,
            unique_ids,
            born_timestamp_ms=self._parts.clock.now_ms(),
            sequenced=self._parts.settings.idempotent,
            folder=self._folder,
        )
        return table, unique_ids

    async def send_all(
        self,
        info: TopicInfo,
        divided: Callable[[int], Iterable[WholeRow]],
        *,
        deadline_s: float = float("inf"),
        sent_in: tuple[str, ...] = (),
    ) -> list[Row | ArianeError]:
        """Send many messages, and wait until all rows are settled.

        Args:
            info: Their topic.
            divided: Divides them into rows, given the number of messages that each queue gets at
                least; 0 if one queue gets all of a call.
            deadline_s: When to give up, by the monotonic clock, if sooner than usual.
            sent_in: The sampled spans in which they are sent, as W3C trace contexts.

        Returns:
            Each row, or why it was not sent.
        """
        clock = self._parts.clock
        backpressure = Backpressure(self._parts.unsettled, self._parts.settings.batch_bytes_max)
        taken_bytes = 0
        sent: list[Row | ArianeError] = []
        is_few = info.flow.begin(clock.monotonic_s())
        # While each queue has a send under way, whole ones are even enough, and cost half as much.
        is_spread = is_few and info.flow.running <= info.queue_count
        try:
            for messages in divided(self._parts.settings.spread_count if is_spread else 0):
                await backpressure.wait(taken_bytes)
                try:
                    row = self._send(info, messages, deadline_s, sent_in)
                except ArianeError as error:
                    sent.append(error)
                else:
                    taken_bytes += row.size_bytes
                    sent.append(row)
                del messages  # So that bodies are freed once they are sent.
            for each in sent:
                if isinstance(each, Row):
                    await each.wait_settled()
        finally:
            info.flow.end(clock.monotonic_s())
        return sent

    def _send(
        self, info: TopicInfo, messages: WholeRow, deadline_s: float, sent_in: tuple[str, ...]
    ) -> Row:
        """Send messages as one row.

        Raises:
            DeadlinePassed: The deadline had passed before.
            TopicRefused: No broker takes messages for the topic.
            ArianeError: As ``encode``.
        """
        if self._parts.clock.monotonic_s() >= deadline_s:
            raise DeadlinePassed("time was up before it was sent", retriable=True)
        times_ms = messages.delivery_times_ms
        row = self._open_rows.whole(info, messages.queue, AT_ONCE if times_ms is None else AT_TIMES)
        row.take_encoded(*messages.encode(), times_ms)
        row.sent_in = sent_in
        self._parts.unsettled.size_bytes += row.size_bytes
        self._sending.add(row)
        row.deadline_s = min(row.deadline_s, deadline_s)
        return row


def cuts(sizes: NDArray[np.int64], bytes_max: int, count_max: int) -> Iterator[tuple[int, int]]:
    """Divide messages by bytes and number; one that is larger than the limit stands alone."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        behind = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, behind + bytes_max, side="right"))
        stop = min(max(stop, start + 1), start + count_max)
        yield start, stop
        start = stop
