"""The batches of a request, by column."""

from __future__ import annotations

from collections.abc import Callable

from ariane_broker.append.batch_check import Batch
from ariane_storage.writing.block_table import BlockTable


class TableBatches:
    """All batches of a request by column; single batches are made only on demand.

    Attributes:
        table: Their blocks and sequences; none of them is delayed.
        each: Makes a list of single batches.
    """

    __slots__ = ("each", "table")

    def __init__(self, table: BlockTable, each: Callable[[], list[Batch]]) -> None:
        """Take both ways to them.

        Args:
            table: The batches by column.
            each: Makes a batch of each.
        """
        self.table = table
        self.each = each

    def __len__(self) -> int:
        return len(self.table)
