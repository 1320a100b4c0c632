"""The results of rows; a ``SendResult`` is made only when the caller looks at it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, repeat
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from ariane_record.single.message_id import UniqueIds
from ariane_sdk.message import AcknowledgedLevel, SendResult, send_results
from ariane_sdk.message_queue import MessageQueue


class StoredRow(NamedTuple):
    """Where a row was stored."""

    message_queue: MessageQueue
    """The queue that holds the row."""
    first_queue_offset: int
    """Queue offset of the first message; the others follow."""
    acknowledged_level: AcknowledgedLevel
    """The level that the broker acknowledged."""
    store_timestamp_ms: int
    """When the row was stored."""
    broker_address: str
    """The broker, "host:port"."""
    duplicate: bool
    """Whether an earlier try had stored the row."""


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
    """The results of neighbouring messages of a row."""

    __slots__ = ("_log_offsets", "_places", "_row", "_unique_ids")

    def __init__(
        self, row: StoredRow, log_offsets: NDArray[np.int64], unique_ids: UniqueIds, places: range
    ) -> None:
        """Take the results of a row.

        Args:
            row: Where it was stored.
            log_offsets: Byte position of each of its records in the commit log: int64.
            unique_ids: The id of each.
            places: Those that are results here.
        """
        self._row = row
        self._log_offsets = log_offsets
        self._unique_ids = unique_ids
        self._places = places

    @property
    def first_queue_offset(self) -> int:
        """Queue offset of the first message of the whole row."""
        return self._row.first_queue_offset

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> SendResult: ...

    @overload
    def __getitem__(self, index: slice) -> SendResults: ...

    def __getitem__(self, index: int | slice) -> SendResult | SendResults:
        if isinstance(index, slice):
            return self._at(self._places[index])
        place = self._places[index]
        return next(iter(self._at(range(place, place + 1))))

    def _at(self, places: range) -> SendResults:
        return SendResults(self._row, self._log_offsets, self._unique_ids, places)

    def __iter__(self) -> Iterator[SendResult]:
        row, places = self._row, self._places
        if not places:
            return iter(())
        chosen = np.arange(places.start, places.stop, places.step)
        lowest, highest = sorted((places[0], places[-1]))
        ids = self._unique_ids.part(lowest, highest + 1)
        digits = np.ascontiguousarray(ids.digits[:: places.step])
        width = digits.shape[1]
        first = row.first_queue_offset
        results = send_results(
            repeat(row.message_queue),
            range(first + places.start, first + places.stop, places.step),
            self._log_offsets[chosen].tolist(),
            digits.view(f"S{width}").ravel().astype(f"U{width}").tolist(),
            acknowledged_level=row.acknowledged_level,
            store_timestamp_ms=row.store_timestamp_ms,
            broker_address=row.broker_address,
            duplicate=row.duplicate,
        )
        return iter(results)


class JoinedResults(_LazyResults):
    """The results of several rows, one after the other."""

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
