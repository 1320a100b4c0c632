"""The results of a batch, each made when somebody asks for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from ariane_sdk.message import AcknowledgedLevel, MessageQueue, SendResult, send_results


class StoredBatch(NamedTuple):
    """A batch that was stored.

    Attributes:
        message_queue: The queue it went to.
        first_queue_offset: Index of its first message there; the others follow.
        commit_log_offsets: Byte position of each record in the commit log of the broker: int64.
        unique_ids: The id of each message, its digits as ASCII: uint8[count, digits].
        acknowledged_level: How safe it is.
        store_timestamp_ms: When it was stored.
        broker_address: The broker, "host:port".
        duplicate: Whether an earlier try had stored it.
    """

    message_queue: MessageQueue
    first_queue_offset: int
    commit_log_offsets: NDArray[np.int64]
    unique_ids: NDArray[np.uint8]
    acknowledged_level: AcknowledgedLevel
    store_timestamp_ms: int
    broker_address: str
    duplicate: bool


class SendResults(Sequence[SendResult]):
    """The results of neighbours in one batch; equal to a list of the same results."""

    __slots__ = ("_batch", "_places")

    def __init__(self, batch: StoredBatch, places: range) -> None:
        self._batch = batch
        self._places = places

    @property
    def first_queue_offset(self) -> int:
        """Index of the first message of the whole batch in its queue."""
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
        chosen = np.arange(places.start, places.stop, places.step)
        digits = batch.unique_ids[chosen]
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

    def __eq__(self, other: object) -> bool:
        if isinstance(other, list | SendResults):
            return list(self) == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))
