"""Range reads of one queue: stateless, chunk by chunk, for Spark and tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_broker.errors.public_errors import broker_draining
from ariane_broker.filters.expression import ALL_MESSAGES, FilterExpression
from ariane_broker.filters.filter import filter_for
from ariane_broker.log.cold_reads import ColdReads
from ariane_broker.log.held_requests import HOLD_SECONDS_MAX, HeldRequests
from ariane_broker.log.log_epochs import LogEpochs
from ariane_broker.log.statistics import BrokerStatistics
from ariane_broker.queue_key import QueueKey
from ariane_broker.topics.readable_topics import readable_queue
from ariane_broker.topics.topic_table import TopicTable
from ariane_record.decoding.columns import Headers, decode_columns
from ariane_record.decoding.spans import gather_spans
from ariane_record.layout import HOST_FLAGS, SystemFlag
from ariane_servicekit import AnswerLease
from ariane_servicekit.errors import field_invalid
from ariane_storage.disk.cold import IN_MEMORY, BytesCold
from ariane_storage.errors import QueueUnderRepair
from ariane_storage.log.records.fields import Int64s
from ariane_storage.store import Store

CHUNK_BYTES_MIN: Final = 64 << 10
CHUNK_BYTES_MAX: Final = 4 << 20
CHUNK_BYTES_DEFAULT: Final = 2 << 20
HIDDEN_STEP_S: Final = 0.05
"""Seconds between checks whether the log's end may be handed out by a new primary."""

CHUNK_RECORDS_MAX: Final = 65536


class Projection(StrEnum):
    """How much of each message a range read returns."""

    RECORDS = "records"
    HEADERS = "headers"
    POSITIONS = "positions"


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeOrder:
    """A range to read."""

    topic: str
    """The topic."""
    queue_id: int
    """The queue."""
    begin: int
    """The first queue offset."""
    end: int
    """End of the range, exclusive; bounded by the readable end."""
    filter: FilterExpression = ALL_MESSAGES
    """Which messages."""
    projection: Projection = Projection.RECORDS
    """How much of each message."""
    chunk_bytes: int = 0
    """Target bytes of records in a chunk; 0 means the default."""
    log_epoch: int = 0
    """Epoch of the log in which the range was learnt; 0 if unknown."""
    expired_by_ms: Callable[[], int] = lambda: 0
    """The time by which messages must have expired to be passed over; 0: none is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeChunk:
    """A part of a range."""

    next_queue_offset: int
    """Queue offset behind the last record that was read."""
    sizes: NDArray[np.int32]
    """Bytes of each stored record."""
    records: Sequence[bytes | memoryview] = ()
    """Whole records, in pieces that were read for this chunk."""
    headers: bytes = b""
    """88 bytes of each record, back to back: its header, an IPv6 address as zero."""
    properties: bytes = b""
    """The property strings, back to back."""
    property_ends: NDArray[np.int32] | None = None
    """End of each string in ``properties``."""
    lost_offsets: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    """Queue offsets before ``next_queue_offset`` whose messages are damaged, and that no chunk
    before has reported."""


@dataclass(frozen=True, slots=True, eq=False)
class PullRange:
    """Serves range reads."""

    store: Store
    topics: TopicTable
    held: HeldRequests
    statistics: BrokerStatistics
    epochs: LogEpochs
    cold_reads: ColdReads
    _: KW_ONLY
    hides_end: Callable[[], bool] = lambda: False
    """Whether the log has an end that this broker does not hand out yet, although another primary
    may have."""
    open_log: Callable[[], Callable[[], None]] = lambda: lambda: None
    """Called when a range begins; returns a check that is called before each chunk. Both raise if
    the log cannot be read."""

    async def read(self, order: RangeOrder, lease: AnswerLease) -> AsyncGenerator[RangeChunk]:
        """Read a range up to its end, or to the readable end at the start of the read.

        Args:
            order: The range.
            lease: Memory for the chunks; given back when the caller asks for the next chunk.

        Raises:
            ServiceError: TOPIC_NOT_FOUND, TOPIC_NOT_READABLE, QUEUE_NOT_FOUND, QUEUE_CUT,
                FIELD_INVALID or FILTER_EXPRESSION_INVALID; SERVICE_DRAINING or
                HELD_PULLS_EXHAUSTED while the queue is being repaired.
            StorageError: The begin is not kept (any more), or a record is damaged.
        """
        _check(order)
        check_readable = self.open_log()
        wanted = filter_for(order.filter)
        readable_queue(self.topics, order.topic, order.queue_id)
        self.epochs.check(QueueKey(order.topic, order.queue_id), order.end, order.log_epoch)
        key, epoch = QueueKey(order.topic, order.queue_id), self.epochs.current
        end = min(order.end, self.store.queue_bounds(*key)[1])
        while end < order.end and self.hides_end():
            await self._wait_handed_out()
            end = min(order.end, self.store.queue_bounds(*key)[1])
        position = order.begin
        chunk_bytes = order.chunk_bytes or CHUNK_BYTES_DEFAULT
        while True:
            # The records of the chunk before are sent.
            lease.release()
            granted = await lease.take(chunk_bytes)
            check_readable()
            # A topic may have been deleted meanwhile: if it is this one, another may have its name.
            self.epochs.check(key, end, epoch)
            epoch = self.epochs.current
            try:
                with IN_MEMORY:
                    read = self.store.read_queue(
                        order.topic,
                        order.queue_id,
                        position,
                        max_count=max(1, min(end - position, CHUNK_RECORDS_MAX)),
                        max_bytes=granted,
                        wanted=wanted,
                        now_ms=order.expired_by_ms(),
                    )
            except BytesCold as cold:
                lease.release()
                await self.cold_reads.fetch(f"ranges of {order.topic}", cold, (key, end))
                continue
            except QueueUnderRepair:
                lease.release()
                if position >= end:
                    return
                await self._wait_repaired(key)
                continue
            lease.settle(granted, sum(map(len, read.chunks)))
            if position >= end:
                # The read above has checked whether the begin is kept.
                return
            records: Sequence[bytes | memoryview] = read.chunks
            sizes = read.sizes
            position = read.next_queue_offset
            if position > end:
                records, sizes, position = _cut(records, sizes, end)
            lost = read.lost_offsets[read.lost_offsets < end]
            if len(sizes) or position >= end or len(lost):
                self.statistics.lost_message_count += len(lost)
                self.statistics.count_pull(len(sizes), sum(map(len, records)))
                chunk = project(records, sizes, position, order.projection)
                yield replace(chunk, lost_offsets=lost) if len(lost) else chunk
                if position >= end:
                    check_readable()  # What was given last may have been cut off meanwhile.
                    return
            else:
                await asyncio.sleep(0)

    async def _wait_handed_out(self) -> None:
        """Wait a moment until the other brokers in sync have the end of the log, too.

        Raises:
            ServiceError: SERVICE_DRAINING.
        """
        if not self.held.open:
            raise broker_draining()
        await asyncio.sleep(HIDDEN_STEP_S)

    async def _wait_repaired(self, queue: QueueKey) -> None:
        """Wait until a queue can be read again, or has grown.

        Raises:
            ServiceError: SERVICE_DRAINING or HELD_PULLS_EXHAUSTED.
        """
        watch = self.held.watch({queue: None})
        try:
            await self.held.wait(watch, HOLD_SECONDS_MAX)
        finally:
            self.held.forget(watch)
        if not self.held.open:
            raise broker_draining()


def project(
    pieces: Sequence[bytes | memoryview],
    sizes: NDArray[np.int32],
    next_queue_offset: int,
    projection: Projection,
) -> RangeChunk:
    """Cut records down to a projection, by column."""
    if projection is Projection.RECORDS or not len(sizes):
        return RangeChunk(next_queue_offset=next_queue_offset, sizes=sizes, records=pieces)
    records = _joined(pieces)
    columns = decode_columns(records, sizes)
    headers = _ipv4_headers(columns.headers).tobytes()
    if projection is Projection.POSITIONS:
        return RangeChunk(next_queue_offset=next_queue_offset, sizes=sizes, headers=headers)
    starts, lengths = columns.properties_start, columns.properties_length
    return RangeChunk(
        next_queue_offset=next_queue_offset,
        sizes=sizes,
        headers=headers,
        properties=gather_spans(records, starts, lengths),
        property_ends=np.cumsum(lengths).astype(np.int32),
    )


def _ipv4_headers(headers: Headers) -> Headers:
    """Return headers in the layout of ``HEADER``: the wire has no room for IPv6 addresses.

    The columns hold all other fields in their places. IPv6 addresses become zero and keep their
    flags; a client that needs an address, to make a message id, reads the whole record.
    """
    system_flag = headers["system_flag"]
    if not (system_flag & HOST_FLAGS).any():
        return headers
    headers = headers.copy()
    headers["born_ip"][(system_flag & SystemFlag.BORN_HOST_IPV6) != 0] = 0
    headers["store_ip"][(system_flag & SystemFlag.STORE_HOST_IPV6) != 0] = 0
    return headers


def _joined(pieces: Sequence[bytes | memoryview]) -> bytes | memoryview:
    """Join pieces of records; a single piece is not copied."""
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _cut(
    pieces: Sequence[bytes | memoryview], sizes: NDArray[np.int32], end: int
) -> tuple[Sequence[bytes | memoryview], NDArray[np.int32], int]:
    """Remove the records at and behind the end of the range."""
    records = _joined(pieces)
    queue_offsets = decode_columns(records, sizes).queue_offset if len(sizes) else sizes
    kept = int(np.searchsorted(queue_offsets, end))
    sizes = sizes[:kept]
    return (records[: int(sizes.sum(dtype=np.int64))],), sizes, end


def _check(order: RangeOrder) -> None:
    if order.queue_id < 0:
        raise field_invalid("queue_id", "must be 0 or more", order.queue_id)
    if order.begin < 0:
        raise field_invalid("begin_queue_offset", "must be 0 or more", order.begin)
    if order.end < order.begin:
        raise field_invalid("end_queue_offset", "must not lie before the begin", order.end)
    if order.chunk_bytes and not CHUNK_BYTES_MIN <= order.chunk_bytes <= CHUNK_BYTES_MAX:
        rule = f"must be {CHUNK_BYTES_MIN} to {CHUNK_BYTES_MAX}"
        raise field_invalid("chunk_bytes", rule, order.chunk_bytes)
