"""The batches of a request, by column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ariane_broker.append.batch_check import Batch
from ariane_storage.writing.block_table import BlockTable


@dataclass(slots=True, eq=False)
class TableBatches:
    """All batches of a request by column; single batches are made only on demand.

    Attributes:
        table: Their blocks and sequences; none of them is delayed.
        each: Makes a list of single batches.
    """

    table: BlockTable
    each: Callable[[], list[Batch]]

    def __len__(self) -> int:
        return len(self.table)
