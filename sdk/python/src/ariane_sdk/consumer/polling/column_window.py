"""The window of a queue whose records are handed out as Arrow record batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ariane_record.decoding.columns import RecordColumns, decode_columns
from ariane_record.layout import ByteBuffer
from ariane_sdk.consumer.delivery.damaged_bodies import BodiesDamaged
from ariane_sdk.consumer.delivery.pulled_bodies import OF_BODIES, PulledBodies
from ariane_sdk.consumer.delivery.window import QueueWindow
from ariane_sdk.errors import RecordDamaged
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.reading.columns_out import record_batch
from ariane_sdk.reading.damaged_rows import some_rows

if TYPE_CHECKING:
    import pyarrow as pa

_TAG = "tag"


class WaitingBatch(NamedTuple):
    """The records of one pull."""

    batch: pa.RecordBatch
    """The records that pass the filter."""
    first_offset: int
    """Queue offset of the first."""
    size_bytes: int
    """Bytes of their records."""


class ColumnWindow(QueueWindow):
    """Batches of one queue between pull and poll; no object is made for a message."""

    __slots__ = ("_batches", "_names", "_queue", "bodies_suffice")

    def __init__(self, queue: MessageQueue, begin_offset: int, names: Sequence[str]) -> None:
        super().__init__(begin_offset)
        self._queue = queue
        self._names = tuple(names)
        self.bodies_suffice = "body" in self._names and OF_BODIES.issuperset(self._names)
        """Whether the columns need only bodies and positions."""
        self._batches: deque[WaitingBatch] = deque()

    def put_records(
        self,
        records: ByteBuffer,
        sizes: NDArray[np.integer[Any]],
        next_offset: int,
        tags: Collection[str],
    ) -> None:
        """Add the records of a pull.

        Args:
            records: The records, in the order of the queue.
            sizes: Bytes of each.
            next_offset: Where the next pull reads.
            tags: The tags of the filter; empty for all messages.

        Raises:
            BodiesDamaged: Some bodies cannot be read; nothing was added.
            RecordCorrupted: The records cannot be decoded.
            RecordDamaged: One of them cannot; those before it may have been added.
        """
        columns = decode_columns(records, sizes.astype(np.int32, copy=False))
        try:
            self._put_columns(columns, next_offset, tags)
        except RecordDamaged:
            if damaged := columns.damaged_bodies():
                views = list(columns.iter_messages())
                messages = [ReceivedMessage(views[row], self._queue) for row in damaged]
                wanted = [message for message in messages if not tags or message.tag in tags]
                raise BodiesDamaged(damaged, wanted) from None
            if len(columns) == 1:
                raise
            # The bodies together are too large.
            half = len(columns) // 2
            first, second = some_rows(columns, 0, half), some_rows(columns, half, len(columns))
            self.put_records(first, sizes[:half], int(columns.queue_offset[half]), tags)
            self.put_records(second, sizes[half:], next_offset, tags)

    def _put_columns(self, columns: RecordColumns, next_offset: int, tags: Collection[str]) -> None:
        names = self._names if not tags or _TAG in self._names else (*self._names, _TAG)
        batch = record_batch(columns, self._queue, names)
        rows = np.arange(len(columns))
        if tags:
            import pyarrow as pa  # noqa: PLC0415 - an extra.
            import pyarrow.compute as pc  # noqa: PLC0415 - the same.

            # The broker compares hashes, and two tags may have the same.
            wanted = pc.is_in(batch.column(_TAG), pa.array(sorted(tags)))
            rows = np.flatnonzero(wanted.to_numpy(zero_copy_only=False))
            batch = batch.filter(wanted).select(list(self._names))
        self.next_pull_offset = next_offset
        if len(rows):
            offsets = columns.queue_offset[rows]
            size_bytes = int(columns.sizes[rows].sum())
            self._batches.append(WaitingBatch(batch, int(offsets[0]), size_bytes))
            self._last_offset = int(offsets[-1])
            self.message_count += len(rows)
            self.size_bytes += size_bytes

    def put_bodies(self, bodies: PulledBodies, next_offset: int) -> None:
        """Add the bodies of a pull that has no records.

        Args:
            bodies: The bodies, in the order of the queue.
            next_offset: Where the next pull reads.
        """
        batch = bodies.record_batch(self._queue, self._names)
        self._batches.append(WaitingBatch(batch, bodies.first_offset, bodies.record_bytes))
        self.next_pull_offset = next_offset
        self._last_offset = bodies.last_offset
        self.message_count += len(bodies)
        self.size_bytes += bodies.record_bytes

    def take_batch(self) -> pa.RecordBatch | None:
        """Take the next batch; None if none waits."""
        if not self._batches:
            return None
        waiting = self._batches.popleft()
        self.message_count -= waiting.batch.num_rows
        self.size_bytes -= waiting.size_bytes
        return waiting.batch

    def drop_waiting(self) -> None:
        """Drop batches that were not handed out; the next pull would read them again."""
        self.next_pull_offset = self._first_waiting_offset
        self._batches.clear()
        self.message_count = 0
        self.size_bytes = 0

    @property
    def oldest_store_ms(self) -> int | None:
        """None: the columns need not have the time."""
        return None

    @property
    def _first_waiting_offset(self) -> int:
        return self._batches[0].first_offset if self._batches else self.next_pull_offset
