"""Appending records, some of which the store may refuse, or all as one block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from ariane_record.errors import RecordError
from ariane_storage.errors import BlockRejected

_T = TypeVar("_T")

REFUSALS: Final = (BlockRejected, RecordError)
"""The errors that are caused by the records, and not by the store."""


def append_in_parts(
    records: Sequence[_T],
    append: Callable[[Sequence[_T]], object],
    refusals: tuple[type[Exception], ...] = REFUSALS,
) -> list[tuple[_T, Exception]]:
    """Append records in one block; if that is refused, its halves, and so on.

    So records of more than a segment are appended as several blocks, and a record that the store
    never accepts does not stop others. The order of the records is kept.

    Args:
        records: Names of the records; at least one.
        append: Appends some of them as one block, or raises and appends none.
        refusals: The errors after which fewer of them may be accepted.

    Returns:
        The records that are refused alone, with the errors.
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
