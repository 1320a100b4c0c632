"""Batches of a request that are so small that they are taken as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import overload

from ariane_broker.batch_check import Batch
from ariane_storage.block_table import BlockTable


class SmallBatches(Sequence[Batch]):
    """All batches of a request by column; as they are one by one only if somebody asks.

    Attributes:
        table: Their blocks and sequences, side by side. None of them is delayed.
    """

    def __init__(self, table: BlockTable, make_each: Callable[[], list[Batch]]) -> None:
        """Take both ways to them.

        Args:
            table: The batches by column.
            make_each: Makes each of them.
        """
        self.table = table
        self._make_each = make_each

    def __len__(self) -> int:
        return len(self.table)

    @overload
    def __getitem__(self, place: int) -> Batch: ...

    @overload
    def __getitem__(self, place: slice) -> list[Batch]: ...

    def __getitem__(self, place: int | slice) -> Batch | list[Batch]:
        return self._each[place]

    @cached_property
    def _each(self) -> list[Batch]:
        return self._make_each()
