"""A batch of messages that were sent one by one: plain messages are encoded when it is sent.

The plain messages of all batches in a request are then encoded in one go. A message that is not
plain is encoded at once, and with it everything else in its batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import Final

from ariane.broker.v1.send_service_pb2 import AppendResult
from ariane_record import RecordTable
from ariane_record.encoding.plain_blocks import PlainRun, encode_plain_run, encode_plain_runs
from ariane_record.encoding.plain_topic import PlainTopic, TagShape
from ariane_record.layout import ByteBuffer
from ariane_record.single.message_id import UniqueIdGenerator, UniqueIds
from ariane_sdk.checks.delay import AT_ONCE
from ariane_sdk.message import Message, SendResult
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.batches.send_batch import COLUMN_BYTES, ChooseQueue, SendBatch
from ariane_sdk.producer.batches.send_results import SendResults, StoredBatch

TOGETHER_MIN: Final = 8
"""Fewer messages are encoded one by one: what is done by column has a fixed price."""

NEVER_CUT: Final = 1 << 62
"""A batch has never so many messages."""


class SinglesBatch(SendBatch):
    """A batch of single sends.

    Attributes:
        run: The messages, as long as all are plain and none is encoded; then None.
        cut_count: Number of plain messages after which another batch begins.
        unique_ids: Makes the ids of messages.
    """

    __slots__ = ("_run_of_ids", "cut_count", "run", "unique_ids")

    def __init__(
        self,
        queue: MessageQueue,
        *,
        choose_other: ChooseQueue | None,
        body_bytes_max: int,
        sequenced: bool,
        delay_kind: int = AT_ONCE,
        plain_topic: PlainTopic,
        unique_ids: UniqueIdGenerator,
        cut_count: int,
    ) -> None:
        super().__init__(
            queue,
            choose_other=choose_other,
            body_bytes_max=body_bytes_max,
            sequenced=sequenced,
            delay_kind=delay_kind,
        )
        self.run: PlainRun | None = PlainRun(plain_topic, sequenced=sequenced)
        self.unique_ids = unique_ids
        # No texts are made of ids where no sender waits for a single message.
        self._run_of_ids: UniqueIds | None = None
        self.cut_count = cut_count

    @property
    def count(self) -> int:
        """Number of messages in the batch."""
        if self.run is not None:
            return len(self.run.bodies)
        return len(self._unique_ids if self._run_of_ids is None else self._run_of_ids)

    @property
    def size_bytes(self) -> int:
        """Size of the records in bytes."""
        return super().size_bytes if self.run is None else self.run.size_bytes

    @property
    def wire_bytes(self) -> int:
        """Size of records and columns on the wire, in bytes."""
        run = self.run
        if run is None:
            return super().wire_bytes
        return run.size_bytes + COLUMN_BYTES * len(run.bodies)

    def add_plain(
        self,
        body: bytes,
        shape: TagShape,
        born_timestamp_ms: int,
        future: asyncio.Future[SendResult] | None,
    ) -> int:
        """Add a plain message; the batch must have a ``run``.

        Returns:
            Bytes of its record.
        """
        run = self.run
        if run is None:
            raise AssertionError("its messages are encoded one by one")
        self._futures.append(future)
        return run.add(body, shape, born_timestamp_ms)

    def add(
        self,
        message: Message,
        unique_id: str,
        born_timestamp_ms: int,
        future: asyncio.Future[SendResult] | None,
        *,
        body: ByteBuffer,
        system_flag: int = 0,
    ) -> int:
        """Encode the plain messages so far, then this message, as ``SendBatch`` does."""
        self.encode_each()
        return super().add(
            message, unique_id, born_timestamp_ms, future, body=body, system_flag=system_flag
        )

    def encode_each(self) -> None:
        """Encode the plain messages one by one; the batch takes no further ones as plain."""
        run, self.run = self.run, None
        if run is None or not run.bodies:
            return
        encoder = self._encoding()
        for body, shape, born_ms in zip(
            run.bodies, run.shapes, run.born_timestamps_ms, strict=True
        ):
            unique_id = self.unique_ids.next_id()
            encoder.add(body, tag=shape.tag, unique_id=unique_id, born_timestamp_ms=born_ms)
            self._unique_ids.append(unique_id)

    def encoded_as(self, block: RecordTable, unique_ids: list[str] | UniqueIds) -> None:
        """Take the encoded form of the plain messages.

        Args:
            block: The records, with the sequence of the batch.
            unique_ids: The id of each message; no texts where no sender waits for a single one.
        """
        self.run = None
        self._block = block
        self._block_sequence = self.sequence
        if isinstance(unique_ids, list):
            self._unique_ids = unique_ids
        else:
            self._run_of_ids = unique_ids

    def wait_for(self, futures: Iterable[asyncio.Future[SendResult]]) -> None:
        """Take the futures of the senders; the batch must have none yet."""
        self._futures = list(futures)

    @property
    def awaited_whole(self) -> bool:
        """Whether senders wait for the batch only as a whole."""
        return not self._futures

    def _results(self, result: AppendResult, broker_address: str) -> Sequence[SendResult]:
        """Make the result of each message."""
        if self._run_of_ids is None or self._block is None:
            return super()._results(result, broker_address)
        sizes, ids = self._block.sizes, self._run_of_ids
        batch = StoredBatch.of(self.queue, sizes, ids, result, broker_address)
        return SendResults(batch, range(self.count))

    def _take_back(self, position: int) -> bool:
        if self.run is None:
            return super()._take_back(position)
        self.run.take_back(position)
        return True


def encode_together(batches: Sequence[SendBatch]) -> None:
    """Encode the plain messages of batches that are about to be sent and have their sequences."""
    waiting = [each for each in batches if isinstance(each, SinglesBatch) and each.run is not None]
    runs = [each.run for each in waiting if each.run is not None]
    counts = [len(run.bodies) for run in runs]
    count = sum(counts)
    if count < TOGETHER_MIN:
        for batch, run in zip(waiting, runs, strict=True):
            few_ids = [batch.unique_ids.next_id() for _ in run.bodies]
            batch.encoded_as(encode_plain_run(run, batch.sequence, few_ids), few_ids)
        return
    new_ids = waiting[0].unique_ids.next_ids(count)
    awaited_whole = all(batch.awaited_whole for batch in waiting)
    texts = [] if awaited_whole else new_ids.texts()
    blocks = encode_plain_runs(runs, [batch.sequence for batch in waiting], new_ids)
    del runs  # Freed once encoded: the garbage collector scans all that lives.
    ends = list(accumulate(counts))
    for batch, block, begin, end in zip(waiting, blocks, chain((0,), ends), ends, strict=False):
        batch.encoded_as(block, texts[begin:end] or new_ids.part(begin, end))
