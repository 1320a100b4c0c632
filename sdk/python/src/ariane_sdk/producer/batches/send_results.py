"""The results of batches; a ``SendResult`` is made only when the caller looks at it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, repeat
from typing import NamedTuple, Self, overload

import numpy as np
from numpy.typing import NDArray

from ariane.broker.v1.send_service_pb2 import AppendResult
from ariane_record.single.message_id import UniqueIds
from ariane_sdk.message import AcknowledgedLevel, SendResult, send_results
from ariane_sdk.message_queue import MessageQueue


class StoredBatch(NamedTuple):
    """Where a batch was stored.

    Attributes:
        message_queue: The queue that holds the batch.
        first_queue_offset: Queue offset of the first message; the others follow.
        commit_log_offsets: Byte position of each record in the commit log of the broker: int64.
        unique_ids: The id of each message.
        acknowledged_level: The level that the broker acknowledged.
        store_timestamp_ms: When the batch was stored.
        broker_address: The broker, "host:port".
        duplicate: Whether an earlier try had stored the batch.
    """

    message_queue: MessageQueue
    first_queue_offset: int
    commit_log_offsets: NDArray[np.int64]
    unique_ids: UniqueIds
    acknowledged_level: AcknowledgedLevel
    store_timestamp_ms: int
    broker_address: str
    duplicate: bool

    @classmethod
    def of(
        cls,
        queue: MessageQueue,
        sizes: NDArray[np.int32],
        unique_ids: UniqueIds,
        result: AppendResult,
        broker_address: str,
    ) -> Self:
        """Build from the result that a broker sent."""
        ends = result.first_commit_log_offset + np.cumsum(sizes, dtype=np.int64)
        return cls(
            message_queue=queue,
            first_queue_offset=result.first_queue_offset,
            commit_log_offsets=ends - sizes,
            unique_ids=unique_ids,
            acknowledged_level=AcknowledgedLevel(result.acknowledged_level),
            store_timestamp_ms=result.store_time.ToMilliseconds(),
            broker_address=broker_address,
            duplicate=result.duplicate,
        )


class _LazyResults(Sequence[SendResult]):
    """Results that compare equal to a list of the same results."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, list | _LazyResults):
            return list(self) == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))


class SendResults(_LazyResults):
    """The results of neighbouring messages of a batch."""

    __slots__ = ("_batch", "_places")

    def __init__(self, batch: StoredBatch, places: range) -> None:
        self._batch = batch
        self._places = places

    @property
    def first_queue_offset(self) -> int:
        """Queue offset of the first message of the whole batch."""
        return self._batch.first_queue_offset

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> SendResult: ...

    @overload
    def __getitem__(self, index: slice) -> SendResults: ...

    def __getitem__(self, index: int | slice) -> SendResult | SendResults:
        if isinstance(index, slice):
            return SendResults(self._batch, self._places[index])
        place = self._places[index]
        return next(iter(SendResults(self._batch, range(place, place + 1))))

    def __iter__(self) -> Iterator[SendResult]:
        batch, places = self._batch, self._places
        if not places:
            return iter(())
        chosen = np.arange(places.start, places.stop, places.step)
        lowest, highest = sorted((places[0], places[-1]))
        ids = batch.unique_ids.part(lowest, highest + 1)
        digits = np.ascontiguousarray(ids.digits[:: places.step])
        width = digits.shape[1]
        first = batch.first_queue_offset
        results = send_results(
            repeat(batch.message_queue),
            range(first + places.start, first + places.stop, places.step),
            batch.commit_log_offsets[chosen].tolist(),
            digits.view(f"S{width}").ravel().astype(f"U{width}").tolist(),
            acknowledged_level=batch.acknowledged_level,
            store_timestamp_ms=batch.store_timestamp_ms,
            broker_address=batch.broker_address,
            duplicate=batch.duplicate,
        )
        return iter(results)


class JoinedResults(_LazyResults):
    """The results of several batches in a row."""

    __slots__ = ("_ends", "_parts")

    def __init__(self, parts: Sequence[SendResults]) -> None:
        self._parts = parts
        self._ends = list(accumulate(map(len, parts)))

    def __len__(self) -> int:
        return self._ends[-1]

    @overload
    def __getitem__(self, index: int) -> SendResult: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[SendResult]: ...

    def __getitem__(self, index: int | slice) -> SendResult | Sequence[SendResult]:
        places = range(len(self))[index]
        if isinstance(places, range):
            return [self[place] for place in places]
        part = bisect_right(self._ends, places)
        return self._parts[part][places - self._ends[part]]

    def __iter__(self) -> Iterator[SendResult]:
        return chain.from_iterable(self._parts)
