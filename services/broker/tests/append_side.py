"""A broker's way into its log without a broker, and small batches to send along it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path

import numpy as np

from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane_broker.append.append import AppendRecords
from ariane_broker.append.rows import Rows
from ariane_broker.errors.public_errors import topic_not_found
from ariane_broker.errors.store_errors import STORAGE_RULES
from ariane_broker.log.derived.producer_sequences import ProducerSequences
from ariane_broker.log.filtered_watches import FilteredWatches
from ariane_broker.log.held_requests import Arrivals, HeldRequests
from ariane_broker.log.statistics import BrokerStatistics
from ariane_broker.rpc.translation.append_wire import append_request, append_response
from ariane_broker.topics.topic_table import Permission, TopicConfig
from ariane_record import ProducerSequence, RecordTable
from ariane_record.checksums.checksum import crc32
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_servicekit import ErrorTranslator
from ariane_storage import Store
from ariane_storage.testing import FaultyDisk, FixedClock, small_config
from ariane_testkit.append_rows import results_of, row_of, rows_request
from services.broker.tests.log_side import Grown, broker_log, flushed_promise

HOST = ("10.1.2.3", 4711)


def topic(name, **more):
    return TopicConfig(topic=name, read_queue_count=4, write_queue_count=4, **more)


TOPICS = {
    config.topic: config
    for config in (
        topic("a"),
        topic("b"),
        topic("mixed", attributes={"message.type": "MIXED"}),
        topic("normal", attributes={"message.type": "NORMAL"}),
        topic("fifo", attributes={"message.type": "FIFO"}),
        topic("closed", permission=Permission.READ),
        topic("SCHEDULE_TOPIC_XXXX"),
    )
}


class Topics:
    def find(self, name):
        return TOPICS.get(name)

    async def create_for_send(self, name, queue_id, check):
        raise topic_not_found(name)


class KeptWakes(HeldRequests):
    """Remembers who was woken."""

    def __init__(self):
        super().__init__(FilteredWatches(store=None), count_max=1)
        self.woken = []

    def arrived(self, queue, _tag_codes=None):
        self.woken.append(queue)

    def arrived_in(self, arrivals):
        self.woken += [queue for queue, _ in arrivals]


class GatedFlush:
    """Flushes to the disk, or fails to, when it is told to."""

    def __init__(self, store):
        self.store = store
        self.gate = asyncio.Event()
        self.error = None
        self.under_way = set()

    def when_flushed(self, commit_log_offset, on_done):
        task = asyncio.ensure_future(self._flush(commit_log_offset, on_done))
        self.under_way.add(task)

    async def _flush(self, commit_log_offset, on_done):
        await self.gate.wait()
        if self.error is None:
            assert self.store.flush() >= commit_log_offset
        on_done(self.error)


def opened(disk):
    config = small_config(segment_bytes=1 << 16)
    return Store.open(Path("/store"), config, disk=disk, clock=FixedClock())


class Side:
    """A broker's way into its log, and all that is left by it."""

    def __init__(self, *, make_flush=lambda store: None):
        self.disk = FaultyDisk()
        self.store = opened(self.disk)
        self.held, self.statistics = KeptWakes(), BrokerStatistics()
        self.grown, self.flush = Grown(), make_flush(self.store)
        now_ms = FixedClock().now_ms
        self.sequences = ProducerSequences(now_ms=now_ms, expiry_ms=1000, stream_count_max=100)
        log = broker_log(
            self.store,
            None if self.flush is None else flushed_promise(self.flush.when_flushed),
            sequences=self.sequences,
            arrivals=Arrivals(self.store, self.held),
            keeping=self.grown,
            statistics=self.statistics,
        )
        self.append_records = AppendRecords(
            log,
            Topics(),
            self.sequences,
            None,
            body_bytes_max=3000,
            check_table=lambda table: None,
            service_error=ErrorTranslator(STORAGE_RULES).service_error,
        )

    async def answer(self, tables):
        results = []
        for rows in tables:
            outcomes = await self.append_records.append(rows, HOST)
            raw = append_response(outcomes, rows.counts)
            results += results_of(send_pb.AppendRecordsResponse.FromString(raw), rows.counts)
        return results

    def left(self):
        end = self.store.max_offset
        return (
            self.store.copying.read(0, end, bytes_max=end),
            self.store.queues(),
            self.sequences.snapshot(end)(),
            self.statistics,
            self.held.woken,
            self.grown.ends[-1:],
        )


def wire(
    topic_name, queue_id, bodies, sequence=None, groups=(), properties=(), unique_id="id", **more
):
    encoder = BlockEncoder(topic_name, size_bytes_max=1 << 20, sequenced=sequence is not None)
    for body, group in zip(bodies, chain(groups, repeat("")), strict=False):
        encoder.add(
            body,
            keys=("k",),
            unique_id=unique_id,
            message_group=group,
            properties=dict(properties),
            born_timestamp_ms=1,
        )
    block = encoder.finish(sequence)
    said = None
    if sequence is not None:
        said = send_pb.ProducerSequence(
            producer_id=sequence.producer_id,
            producer_epoch=sequence.epoch,
            first_sequence=sequence.first_sequence,
        )
    return row_of(block, queue_id, **({"sequence": said} | more))


def without_sequence(batch):
    return replace(batch, sequence=None)


def parsed(batches, *, joined):
    """Rows, each as a table by itself, or all in one."""
    singles = [append_request(rows_request([batch]).SerializeToString()) for batch in batches]
    if not joined or not all(map(can_be_row, singles)):
        return singles
    table = RecordTable.joined([single.table for single in singles])
    return [
        Rows(
            table.topics,
            [single.queue_ids[0] for single in singles],
            table,
            [single.sequences[0] for single in singles],
        )
    ]


def can_be_row(single):
    """Whether a table with this row is read at all: its columns fit, and its checksum."""
    table = single.table
    return (
        table is not None
        and len(table.sizes) == len(table.tag_codes) == len(table.key_counts) > 0
        and len(table.key_hashes) == sum(table.key_counts.tolist())
        and crc32(table.records) == table.crc32
    )


def int32s(numbers):
    return np.array(list(numbers), "<i4").tobytes()


GOOD = [wire("ab"[number % 2], number % 4, [b"%d" % number] * 3) for number in range(8)]
NEXT = [wire("a", number, [b"s"], ProducerSequence(7, 0, 0)) for number in range(4)]
