"""Rows that are filled at once with thousands of encoded messages.

They come from tables (``columns_intake``), and from runs: many messages of one topic and tag, the
usual argument of ``send_batch``, which are encoded together, without a Python step for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter, countOf
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ariane_record.checksums.crc_algebra import CrcFolder
from ariane_record.encoding.message_properties import EncodedProperties, TopicProperties
from ariane_record.encoding.record_table import RecordTable
from ariane_record.encoding.run_encoder import encode_run
from ariane_record.single.message_id import UniqueIds
from ariane_sdk.checks.delay import AT_ONCE, AT_TIMES
from ariane_sdk.errors import ArianeError, DeadlinePassed
from ariane_sdk.message import Message, SendResult
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.accumulator.accumulator import OpenRows
from ariane_sdk.producer.accumulator.row import COLUMN_BYTES, Row
from ariane_sdk.producer.accumulator.send_results import SendResults
from ariane_sdk.producer.accumulator.topic_info import TopicInfo
from ariane_sdk.producer.sending.unsettled import Backpressure, ProducerParts

UNIQUE_ID_DIGITS_MAX: Final = 56
"""Digits of an id of a producer with an IPv6 address."""


class WholeRow(NamedTuple):
    """Messages that become one row, not encoded yet."""

    encode: Callable[[], tuple[RecordTable, UniqueIds]]
    """Makes the table and the unique ids."""
    queue: MessageQueue | None = None
    """The queue that they must go to; None: any queue will do."""
    delivery_times_ms: NDArray[np.int64] | None = None
    """When each message is to be delivered; None: at once."""


class WholeRows:
    """Encodes thousands of messages at a time and sends them as rows."""

    def __init__(self, parts: ProducerParts, open_rows: OpenRows) -> None:
        self._open_rows = open_rows
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

    async def send_run(
        self, messages: MessageRun, properties: EncodedProperties, info: TopicInfo
    ) -> Sequence[SendResult | ArianeError]:
        """Send messages of one topic and tag, and wait for their outcomes.

        Args:
            messages: The messages.
            properties: The properties of each.
            info: Their topic.
        """
        counts: list[int] = []

        def divided(spread_count: int) -> Iterator[WholeRow]:
            nonlocal messages
            count_max = info.count_per_queue(len(messages.bodies), spread_count)
            sizes = messages.lengths + np.int64(COLUMN_BYTES + properties.overhead_bytes)
            for start, stop in cuts(sizes, self._parts.settings.batch_bytes_max, count_max):
                counts.append(stop - start)
                part = messages.slice(start, stop)
                topic = info.properties
                yield WholeRow(
                    partial(self.encoded_run, topic, properties, part.bodies, part.lengths)
                )
            del messages  # So that bodies are freed once they are sent.

        sent = await self.send_all(info, divided)
        stored = [row.stored for row in sent if isinstance(row, Row) and row.stored is not None]
        if len(stored) == len(sent):
            return SendResults(stored)
        return list(chain.from_iterable(map(_outcomes_of, sent, counts)))

    async def send_all(
        self,
        info: TopicInfo,
        divided: Callable[[int], Iterable[WholeRow]],
        *,
        deadline_s: float = float("inf"),
        trace_parents: tuple[str, ...] = (),
    ) -> list[Row | ArianeError]:
        """Send many messages, and wait until all rows are settled.

        Args:
            info: Their topic.
            divided: Divides them into rows, given the number of messages that each queue gets at
                least; 0 if one queue gets all of a call.
            deadline_s: When to give up, by the monotonic clock, if sooner than usual.
            trace_parents: The sampled spans in which they are sent, as W3C trace contexts.

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
                    row = self._send(info, messages, deadline_s, trace_parents)
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
        self, info: TopicInfo, messages: WholeRow, deadline_s: float, trace_parents: tuple[str, ...]
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
        table, unique_ids = messages.encode()
        row = self._open_rows.whole(info, messages.queue, AT_ONCE if times_ms is None else AT_TIMES)
        row.take_encoded(table, unique_ids, times_ms)
        row.trace_parents = trace_parents
        self._parts.unsettled.size_bytes += row.size_bytes
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


COUNT_MIN: Final = 64
"""Fewer are taken one by one, into rows that they share with others."""

_body_of = attrgetter("body")
_others_of = attrgetter(
    "topic",
    "tag",
    "keys",
    "properties",
    "message_group",
    "flag",
    "deliver_at",
    "delay",
    "delay_level",
    "priority",
    "expire_after",
)
_UNSET: Final[tuple[object, ...]] = ({}, "", 0, None, None, AT_ONCE, 0, None)
"""The defaults of the fields from ``properties`` on."""


class MessageRun(NamedTuple):
    """Messages of one topic and tag that have a body and nothing else."""

    topic: str
    """The topic of all."""
    tag: str
    """The tag of all, or nothing."""
    bodies: Sequence[bytes]
    """The bodies."""
    lengths: NDArray[np.int32]
    """Size of each body in bytes: int32."""

    @classmethod
    def of(cls, messages: Sequence[Message], *, body_bytes_max: int) -> Self | None:
        """Collect messages; None if they are few, or one of them differs.

        Args:
            messages: The messages; they are not checked here.
            body_bytes_max: Larger bodies may be compressed, and are taken one by one.
        """
        count = len(messages)
        if count < COUNT_MIN or countOf(map(type, messages), Message) < count:
            return None
        first = _others_of(messages[0])
        topic, tag, keys, *unset = first
        plain = type(topic) is type(tag) is str and keys in ((), []) and tuple(unset) == _UNSET
        if not plain or countOf(map(_others_of, messages), first) < count:
            return None
        bodies = list(map(_body_of, messages))
        if countOf(map(type, bodies), bytes) < count:
            return None
        lengths = np.fromiter(map(len, bodies), np.int64, count)
        if int(lengths.max()) > body_bytes_max:
            return None
        return cls(topic, tag, bodies, lengths.astype(np.int32))

    def slice(self, begin: int, end: int) -> Self:
        """Some neighbouring messages."""
        if end - begin == len(self.bodies):
            return self
        return self._replace(bodies=self.bodies[begin:end], lengths=self.lengths[begin:end])


def _outcomes_of(sent: Row | ArianeError, count: int) -> Sequence[SendResult | ArianeError]:
    """The outcomes of messages that were sent as one row, which is settled, or were refused."""
    if isinstance(sent, Row) and sent.stored is not None:
        return sent.stored.results(0, count)
    error = sent.error if isinstance(sent, Row) else sent
    if error is None:
        raise AssertionError("a settled row is stored or has an error")
    return [error] * count
