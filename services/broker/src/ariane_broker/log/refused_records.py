"""Appending records of which the store may refuse some, or all in one block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from ariane_record.errors import RecordError
from ariane_storage.errors import BlockRejected

_T = TypeVar("_T")

REFUSALS: Final = (BlockRejected, RecordError)
"""What says that something is wrong with the records, and not with the store."""


def append_in_parts(
    records: Sequence[_T],
    append: Callable[[Sequence[_T]], object],
    refusals: tuple[type[Exception], ...] = REFUSALS,
) -> list[tuple[_T, Exception]]:
    """Append records in one block; if that is refused, its halves, and so on.

    So what takes more than a segment goes in several blocks, and a record that the store never
    takes keeps no other from it. The records stay in their order.

    Args:
        records: The records, by whatever names them; at least one.
        append: Appends some of them as one block, or raises and appends none.
        refusals: The errors after which fewer of them may be taken.

    Returns:
        The records that are refused each by itself, and why.
    """
    try:
        append(records)
    except refusals as error:
        if len(records) == 1:
            return [(records[0], error)]
        half = len(records) // 2
        return [
            *append_in_parts(records[:half], append, refusals),
            *append_in_parts(records[half:], append, refusals),
        ]
    return []
