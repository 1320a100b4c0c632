"""Plain messages for many queues of one broker: they wait, are sent and are settled together.

With 1,024 messages on their way to 256 topics a batch has 4 messages, and the price of a batch is
that of several messages: an object, its place in line, its call, its outcome. A bundle
has the messages of many such batches in columns, and none of that for each of them::

    rows     topics     orders  flights  bills          a batch each, made when the bundle is sent
             queues          3        0      2

    columns  rows       0  1  0  2  1  0  0  2 ...      one entry for each message, as it came
             bodies     .  .  .  .  .  .  .  .
             futures    .  .  .  .  .  .  .  .

As long as all goes well: whatever goes wrong is a matter of single batches. Then the bundle is
taken apart, and they go on by themselves as if they had never been together.

Without bundles 1,024 sends in flight to 256 topics run at 0.60 of those to one topic, with them at
0.76 (144,000, 180,000 and 240,000 messages a second, measured in turns): hence a container more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import chain, compress, islice, repeat
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from ariane.broker.v1.send_service_pb2 import AppendTableResult
from ariane_record import ProducerSequence
from ariane_record.encoding.plain_blocks import (
    PlainBlocks,
    PlainColumns,
    encode_plain_columns,
    record_blocks,
)
from ariane_record.encoding.plain_topic import PlainTopic, TagShape
from ariane_record.layout import ByteBuffer
from ariane_record.single.message_id import UniqueIdGenerator
from ariane_record.single.producer_sequence import SEQUENCE_BYTES
from ariane_sdk.message import MessageQueue, SendResult, send_results
from ariane_sdk.producer.batches.bundle_wire import table_parts, table_places
from ariane_sdk.producer.batches.send_batch import LEVELS, ChooseQueue
from ariane_sdk.producer.batches.singles_batch import NEVER_CUT, SinglesBatch
from ariane_sdk.producer.sending.queue_streams import QueueStreams


class BundleSettings(NamedTuple):
    """What all bundles of a producer have in common.

    Attributes:
        unique_ids: Makes the ids of messages.
        sequenced: Whether each batch gets a sequence before it is sent.
        body_bytes_max: Bytes that one body may have.
    """

    unique_ids: UniqueIdGenerator
    sequenced: bool
    body_bytes_max: int


class _Sent(NamedTuple):
    """What became of the messages when the bundle was sent.

    Attributes:
        blocks: The batches, encoded.
        unique_ids: Of each message.
    """

    blocks: PlainBlocks
    unique_ids: list[str]


class Bundle:
    """Takes messages while it is open; then is sent once, and is settled or taken apart.

    Attributes:
        open: Whether it still takes messages.
        full: Whether no other topic is to come to it: it had no room for a message.
        deadline_s: When it is given up, by the monotonic clock.
        queues: Where each row goes.
        size_bytes: Bytes of all records.
    """

    __slots__ = (
        "_apart",
        "_bodies",
        "_born_timestamps_ms",
        "_choosers",
        "_counts",
        "_done",
        "_futures",
        "_rows",
        "_sent",
        "_sequences",
        "_settings",
        "_shapes",
        "_topics",
        "deadline_s",
        "full",
        "open",
        "queues",
        "size_bytes",
    )

    def __init__(self, settings: BundleSettings) -> None:
        self.open = True
        self.full = False
        self.deadline_s = 0.0
        self.queues: list[MessageQueue] = []
        self.size_bytes = 0
        self._settings = settings
        self._topics: list[PlainTopic] = []
        self._choosers: list[ChooseQueue] = []
        self._rows: list[int] = []
        self._bodies: list[bytes] = []
        self._shapes: list[TagShape] = []
        self._born_timestamps_ms: list[int] = []
        self._futures: list[asyncio.Future[SendResult]] = []
        self._counts: list[int] = []
        self._sequences: list[ProducerSequence] = []
        self._sent: _Sent | None = None
        self._apart: list[SinglesBatch] | None = None
        self._done: asyncio.Future[None] | None = None

    @property
    def count(self) -> int:
        """Messages in it, while it is open."""
        return len(self._rows)

    def join(self, queue: MessageQueue, topic: PlainTopic, choose_other: ChooseQueue) -> int:
        """Begin a row.

        Returns:
            The row.
        """
        self.queues.append(queue)
        self._topics.append(topic)
        self._choosers.append(choose_other)
        if self._settings.sequenced:
            self.size_bytes += SEQUENCE_BYTES
        return len(self.queues) - 1

    def add(
        self,
        row: int,
        body: bytes,
        shape: TagShape,
        born_timestamp_ms: int,
        future: asyncio.Future[SendResult],
    ) -> None:
        """Take one more message; only while it is open."""
        self._rows.append(row)
        self._bodies.append(body)
        self._shapes.append(shape)
        self._born_timestamps_ms.append(born_timestamp_ms)
        self._futures.append(future)
        self.size_bytes += len(body) + shape.overhead_bytes

    def withdraw(self, future: asyncio.Future[SendResult]) -> int:
        """Take a message back, as long as the bundle is in no call.

        Returns:
            Bytes that it took; 0 if it stays: it is not here, or was sent.
        """
        if not self.open or future not in self._futures:
            return 0
        position = self._futures.index(future)
        size_bytes = len(self._bodies[position]) + self._shapes[position].overhead_bytes
        for column in self._columns():
            del column[position]
        self.size_bytes -= size_bytes
        return size_bytes

    def to_wire(self, producer_group: str, streams: QueueStreams | None) -> list[ByteBuffer]:
        """Close it, and say what is sent.

        Returns:
            The parts of an AppendRecordsRequest, to be joined.
        """
        self._close()
        if streams is not None:
            self._sequences = streams.take_all(self.queues, self._counts)
        plain = PlainColumns(
            self._topics,
            self._counts,
            self._bodies,
            self._shapes,
            self._born_timestamps_ms,
            self._sequences,
        )
        unique_ids = self._settings.unique_ids.next_id_run(len(self._futures))
        blocks = encode_plain_columns(plain, unique_ids, in_one_piece=True)
        self._sent = _Sent(blocks, unique_ids.texts())
        # The garbage collector looks at all that live.
        self._rows, self._bodies, self._shapes, self._born_timestamps_ms = [], [], [], []
        return table_parts(producer_group, self.queues, blocks, self._sequences)

    def settle(self, answer: AppendTableResult, broker_address: str) -> None:
        """Tell everybody that all was stored.

        Raises:
            ValueError: Nobody knows what the answer means, and nobody was told anything.
        """
        sent = self._sent
        if sent is None:
            raise AssertionError("a bundle is stored after it was sent")
        places = table_places(answer, len(self._counts))
        counts = np.array(self._counts)
        sizes = sent.blocks.sizes
        starts = np.cumsum(sizes, dtype=np.int64) - sizes
        first_rows = np.cumsum(counts) - counts
        offsets = np.arange(len(sizes)) + np.repeat(places.queue_offsets - first_rows, counts)
        log_firsts = places.commit_log_offsets - starts[first_rows]
        settled = send_results(
            chain.from_iterable(map(repeat, self.queues, self._counts)),
            offsets.tolist(),
            (starts + np.repeat(log_firsts, counts)).tolist(),
            sent.unique_ids,
            acknowledged_level=LEVELS[places.level],
            store_timestamp_ms=places.store_timestamp_ms,
            broker_address=broker_address,
            duplicate=False,
        )
        for future, result in zip(self._futures, settled, strict=True):
            if not future.done():
                future.set_result(result)
        self._end([])

    def take_apart(self) -> list[SinglesBatch]:
        """Have each row go on as a batch by itself.

        Returns:
            A batch for each row that has messages. If the bundle was sent, each is encoded,
            and in flight; otherwise its messages can still be withdrawn. Asked again, the same.
        """
        if self._apart is not None:
            return self._apart
        if self.open:
            self._close()
        batches = list(map(self._new_batch, self.queues, self._topics, self._choosers))
        for batch, sequence in zip(batches, self._sequences, strict=False):
            batch.sequence = sequence
        if self._sent is None:
            self._hand_out(batches)
        else:
            self._hand_out_encoded(batches, self._sent)
        self._end(batches)
        return batches

    async def wait_settled(self) -> None:
        """Wait until the outcomes of all messages are there."""
        if self._apart is None:
            if self._done is None:
                self._done = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._done)
        for batch in self._apart or ():
            await batch.wait_settled()

    def _columns(self) -> tuple[list[Any], ...]:
        """What it has of each message."""
        return (self._rows, self._bodies, self._shapes, self._born_timestamps_ms, self._futures)

    def _close(self) -> None:
        """Take no more, and lay the messages of each row side by side; rows without any go."""
        self.open = False
        rows = np.array(self._rows, np.int64)
        counts = np.bincount(rows, minlength=len(self.queues))
        if not counts.all():  # All its messages were withdrawn.
            kept = (counts > 0).tolist()
            self.queues = list(compress(self.queues, kept))
            self._topics = list(compress(self._topics, kept))
            self._choosers = list(compress(self._choosers, kept))
            counts = counts[kept]
        self._counts = counts.tolist()
        order = np.argsort(rows, kind="stable").tolist()
        if len(order) > 1:
            in_order = itemgetter(*order)
            for column in self._columns():
                column[:] = in_order(column)

    def _new_batch(
        self, queue: MessageQueue, topic: PlainTopic, choose_other: ChooseQueue
    ) -> SinglesBatch:
        settings = self._settings
        batch = SinglesBatch(
            queue,
            choose_other=choose_other,
            body_bytes_max=settings.body_bytes_max,
            sequenced=settings.sequenced,
            plain_topic=topic,
            unique_ids=settings.unique_ids,
            cut_count=NEVER_CUT,
        )
        # Nobody adds to it; but messages are withdrawn until it is sent.
        batch.open = self._sent is None
        batch.deadline_s = self.deadline_s
        return batch

    def _hand_out(self, batches: Sequence[SinglesBatch]) -> None:
        """Give batches their messages."""
        messages = zip(
            self._bodies, self._shapes, self._born_timestamps_ms, self._futures, strict=True
        )
        for batch, count in zip(batches, self._counts, strict=True):
            for message in islice(messages, count):
                batch.add_plain(*message)

    def _hand_out_encoded(self, batches: Sequence[SinglesBatch], sent: _Sent) -> None:
        """Give batches their records, which are on their way."""
        blocks = record_blocks(self._topics, sent.blocks)
        messages = zip(sent.unique_ids, self._futures, strict=True)
        for batch, block in zip(batches, blocks, strict=True):
            unique_ids, futures = zip(*islice(messages, block.count), strict=True)
            batch.in_flight = True
            batch.encoded_as(block, list(unique_ids))
            batch.wait_for(futures)

    def _end(self, batches: list[SinglesBatch]) -> None:
        self._apart = batches
        # A topic that nothing more is sent to knows its last bundle for ever.
        for column in (*self._columns(), self._topics, self._choosers):
            column.clear()
        self._sent = None
        if self._done is not None:
            self._done.set_result(None)
