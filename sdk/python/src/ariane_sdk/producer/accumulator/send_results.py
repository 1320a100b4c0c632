"""The results of rows; a ``SendResult`` is made only when the caller looks at it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, repeat
from typing import NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from ariane_record.single.message_id import UniqueIds
from ariane_sdk.message import AcknowledgedLevel, SendResult, new_send_result
from ariane_sdk.message_queue import MessageQueue

StoredAs: TypeAlias = tuple[AcknowledgedLevel, int, str, bool]
"""How messages were stored: the acknowledged level, when (milliseconds since the epoch), the broker
("host:port"), and whether an earlier try had stored them."""


class StoredMessages(NamedTuple):
    """The messages of a row that came encoded, once they are stored."""

    message_queue: MessageQueue
    """The queue that holds the row."""
    first_queue_offset: int
    """Queue offset of the first message; the others follow."""
    log_offsets: NDArray[np.int64]
    """Byte position of each record in the commit log: int64."""
    unique_ids: UniqueIds
    """The id of each."""
    how: StoredAs
    """How they were stored."""

    @property
    def message_count(self) -> int:
        """Number of messages."""
        return len(self.log_offsets)

    def results(self, begin: int, end: int) -> list[SendResult]:
        """The results of neighbouring messages."""
        first = self.first_queue_offset
        columns = zip(
            repeat(self.message_queue),
            range(first + begin, first + end),
            self.log_offsets[begin:end].tolist(),
            self.unique_ids.part(begin, end).texts(),
            *map(repeat, (*self.how, "")),
            strict=False,  # What is the same for all never ends.
        )
        return list(map(new_send_result, columns))


class SendResults(Sequence[SendResult]):
    """The results of rows that came encoded, row after row; equal to a list of the same results."""

    __slots__ = ("_ends", "_rows")

    def __init__(self, rows: Sequence[StoredMessages]) -> None:
        self._rows = rows
        self._ends = list(accumulate(row.message_count for row in rows))

    def __len__(self) -> int:
        return self._ends[-1]

    @overload
    def __getitem__(self, index: int) -> SendResult: ...

    @overload
    def __getitem__(self, index: slice) -> list[SendResult]: ...

    def __getitem__(self, index: int | slice) -> SendResult | list[SendResult]:
        if isinstance(index, slice):
            return list(self)[index]
        place = range(len(self))[index]
        number = bisect_right(self._ends, place)
        row = self._rows[number]
        in_row = place - self._ends[number] + row.message_count
        (result,) = row.results(in_row, in_row + 1)
        return result

    def __iter__(self) -> Iterator[SendResult]:
        return chain.from_iterable(row.results(0, row.message_count) for row in self._rows)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, list | SendResults):
            return list(self) == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))
