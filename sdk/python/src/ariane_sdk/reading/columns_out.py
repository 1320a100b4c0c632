"""Received records as Arrow record batches: ``ariane_record.decoding.arrow`` and the broker's name.

Arrow is an extra of this distribution (``ariane-sdk[arrow]``) and is imported only when columns
are requested. No Python statement runs once per message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ariane.broker.v1.pull_service_pb2 import (
    RANGE_PROJECTION_HEADERS,
    RANGE_PROJECTION_POSITIONS,
    RANGE_PROJECTION_RECORDS,
    PullRangeResponse,
    RangeProjection,
)
from ariane_record.decoding.columns import RecordColumns, decode_columns
from ariane_record.decoding.header_columns import decode_headers
from ariane_record.errors import RecordCorrupted
from ariane_record.layout import HOST_FLAGS
from ariane_sdk.errors import IllegalArgument, RecordDamaged
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.reading.damaged_rows import body_damaged, some_rows

if TYPE_CHECKING:
    import pyarrow as pa

_BODY: Final = "body"
_OF_HEADERS: Final = frozenset(
    {
        "topic",
        "brokerName",
        "queueId",
        "queueOffset",
        "bornTimestamp",
        "storeTimestamp",
        "reconsumeTimes",
    }
)
"""Columns for which the headers of records are enough."""


def columns_wanted(names: Sequence[str] | None) -> tuple[str, ...]:
    """The columns to build, checked.

    Args:
        names: The columns, in this order; ``None``: all of ``ariane_record.decoding.arrow``.

    Raises:
        IllegalArgument: A column is unknown or named twice, or no column is named.
    """
    from ariane_record.decoding.arrow import COLUMN_NAMES  # noqa: PLC0415 - an extra.

    if names is None:
        return COLUMN_NAMES
    known = (*COLUMN_NAMES, "brokerName")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise IllegalArgument(f"no column {unknown[0]!r}; the columns are {', '.join(known)}")
    if not names or len(set(names)) < len(names):
        raise IllegalArgument(f"columns are wanted, each once; found {list(names)}")
    return tuple(names)


def record_batch(
    records: RecordColumns, queue: MessageQueue, names: Sequence[str]
) -> pa.RecordBatch:
    """Records of one queue as one batch.

    Args:
        records: The pulled records, at most 2 GiB.
        queue: Their queue, which gives topic and broker.
        names: The columns, from ``columns_wanted``.

    Raises:
        RecordDamaged: A record cannot be decoded.
    """
    import pyarrow as pa  # noqa: PLC0415 - an extra.

    from ariane_record.decoding.arrow import to_arrow  # noqa: PLC0415 - the same.

    of_queue = {"topic": queue.topic, "brokerName": queue.broker_name}
    try:
        built = to_arrow(records, [name for name in names if name not in of_queue])
    except RecordCorrupted as error:
        raise RecordDamaged(f"{queue}: {error}") from error
    arrays: list[Any] = [
        pa.repeat(pa.scalar(of_queue[name], pa.string()), len(records))
        if name in of_queue
        else built.column(name)
        for name in names
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


class RangeColumns:
    """Builds batches from the chunks of one range."""

    def __init__(self, queue: MessageQueue, names: Sequence[str] | None) -> None:
        """Take the queue and the columns.

        Raises:
            IllegalArgument: As ``columns_wanted``.
        """
        self._queue = queue
        self._names = columns_wanted(names)
        self.projection: RangeProjection.ValueType = RANGE_PROJECTION_RECORDS
        """The parts of each message to fetch."""
        if _OF_HEADERS.issuperset(self._names):
            self.projection = RANGE_PROJECTION_POSITIONS
        elif _BODY not in self._names:
            self.projection = RANGE_PROJECTION_HEADERS

    def batches(self, chunk: PullRangeResponse) -> Iterator[pa.RecordBatch] | None:
        """One chunk as batches; ``None`` if it has to be read again as whole records.

        There are several batches if the bodies are too large for one.

        Raises:
            BodyDamaged: During the iteration, after the batches before that body.
            RecordDamaged: A record cannot be decoded.
        """
        sizes = np.frombuffer(chunk.record_sizes, "<i4").astype(np.int32, copy=False)
        try:
            if self.projection == RANGE_PROJECTION_RECORDS:
                records = decode_columns(chunk.records, sizes)
            else:
                ends = None
                if self.projection == RANGE_PROJECTION_HEADERS:
                    ends = chunk.property_ends
                records = decode_headers(chunk.headers, sizes, chunk.properties, ends)
                if self._lacks_addresses(records):
                    self.projection = RANGE_PROJECTION_RECORDS
                    return None
        except RecordCorrupted as error:
            place = f"{self._queue} before {chunk.next_queue_offset}"
            raise RecordDamaged(f"{place}: {error}") from error
        return self._batches_of(records)

    def _batches_of(self, records: RecordColumns) -> Iterator[pa.RecordBatch]:
        try:
            batch = record_batch(records, self._queue, self._names)
        except RecordDamaged:
            damaged = records.damaged_bodies()
            if not damaged and len(records) == 1:
                raise
        else:
            yield batch
            return
        first = next(iter(damaged), len(records))
        bounds = (0, first) if damaged else (0, first // 2, first)
        for begin, end in pairwise(bounds):
            if begin < end:
                sizes = records.sizes[begin:end].astype(np.int32)
                yield from self._batches_of(decode_columns(some_rows(records, begin, end), sizes))
        if damaged:
            raise body_damaged(self._queue, int(records.queue_offset[first]), damaged[first])

    def _lacks_addresses(self, records: RecordColumns) -> bool:
        """Whether the columns need ids with an IPv6 address, which headers do not contain."""
        return "messageId" in self._names and bool((records.system_flag & HOST_FLAGS).any())
