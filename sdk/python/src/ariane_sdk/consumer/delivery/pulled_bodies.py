"""Bodies that a broker gathered, as Arrow record batches, without further decoding."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from ariane.broker.v1.pull_service_pb2 import BodyRun
from ariane_record.errors import RecordCorrupted
from ariane_sdk.message_queue import MessageQueue

if TYPE_CHECKING:
    import pyarrow as pa

OF_BODIES: Final = frozenset({"topic", "brokerName", "queueId", "queueOffset", "body"})
"""Columns that can be made from bodies and their places in the queue."""


class PulledBodies:
    """The bodies of messages of one queue, in its order; columns are made when asked for."""

    def __init__(self, runs: Sequence[BodyRun], bodies: memoryview) -> None:
        """Take the runs of an answer, at least one, and a view of its bodies, back to back.

        Raises:
            RecordCorrupted: The parts do not fit together.
        """
        self._counts = np.array([run.message_count for run in runs], np.int64)
        self._lengths = np.array([run.body_bytes for run in runs], np.int64)
        self._firsts = np.array([run.first_queue_offset for run in runs], np.int64)
        sizes = np.array([run.record_bytes for run in runs], np.int64)
        if self._counts.min() < 1 or self._lengths.min() < 0 or sizes.min() < 0:
            raise RecordCorrupted(f"runs of bodies make no sense: {list(runs)[:3]}")
        if int((self._counts * self._lengths).sum()) != len(bodies):
            raise RecordCorrupted(f"{len(runs)} runs of bodies do not fit {len(bodies)} bytes")
        # An application that keeps a few bodies should not keep the whole answer alive.
        answer_bytes = memoryview(bodies.obj).nbytes
        self._bodies = bodies if 2 * len(bodies) > answer_bytes else bytes(bodies)
        self.record_bytes = int((self._counts * sizes).sum())
        """Bytes of their records."""
        self.first_offset = int(self._firsts[0])
        """Queue offset of the first message."""
        self.last_offset = int(self._firsts[-1] + self._counts[-1] - 1)
        """Queue offset of the last one."""

    def __len__(self) -> int:
        return self._count

    @cached_property
    def _count(self) -> int:
        return int(self._counts.sum())

    def record_batch(self, queue: MessageQueue, names: Sequence[str]) -> pa.RecordBatch:
        """The messages as one batch.

        Args:
            queue: Their queue.
            names: Columns of ``OF_BODIES``.
        """
        import pyarrow as pa  # noqa: PLC0415 - an extra.

        arrays = [self._column(name, queue) for name in names]
        return pa.RecordBatch.from_arrays(arrays, names=list(names))

    def _column(self, name: str, queue: MessageQueue) -> Any:
        import pyarrow as pa  # noqa: PLC0415 - an extra.

        match name:
            case "body":
                offsets = np.zeros(len(self) + 1, np.int32)
                np.cumsum(np.repeat(self._lengths, self._counts), out=offsets[1:])
                buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self._bodies)]
                return pa.Array.from_buffers(pa.binary(), len(self), buffers)
            case "queueOffset":
                return pa.array(self._queue_offsets())
            case "queueId":
                return pa.repeat(pa.scalar(queue.queue_id, pa.int32()), len(self))
            case "topic":
                return pa.repeat(pa.scalar(queue.topic, pa.string()), len(self))
            case _:
                return pa.repeat(pa.scalar(queue.broker_name, pa.string()), len(self))

    def _queue_offsets(self) -> NDArray[np.int64]:
        counts = self._counts
        before = np.cumsum(counts) - counts
        queue_offsets = np.repeat(self._firsts - before, counts)
        queue_offsets += np.arange(len(self))
        return queue_offsets
