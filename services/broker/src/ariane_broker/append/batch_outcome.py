"""The outcomes of batches: where each was stored, or why it was not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, overload

from ariane_broker.log.promise import AcknowledgedLevel
from ariane_servicekit.errors import ServiceError
from ariane_storage.writing.append import Appended, AppendedTable


class BatchOutcome(NamedTuple):
    """The outcome of one batch.

    Attributes:
        appended: Where the batch is stored; None if it is not.
        error: Why it failed. With ``appended`` set: it is stored, and the level is unknown.
        level: The level that it reached.
        duplicate: Whether it had been stored before.
        resized: Whether its records are stored in other sizes than they came in.
    """

    appended: Appended | None = None
    error: ServiceError | None = None
    level: AcknowledgedLevel | None = None
    duplicate: bool = False
    resized: bool = False


class TableOutcomes(Sequence[BatchOutcome]):
    """The outcomes of a table, whose batches were stored at once: equal except for their places.

    Attributes:
        appended: Where they are stored.
        level: The level that they reached.
        error: Why the level is unknown.
    """

    __slots__ = ("appended", "error", "level")

    def __init__(
        self, appended: AppendedTable, level: AcknowledgedLevel, error: ServiceError | None = None
    ) -> None:
        self.appended = appended
        self.level = level
        self.error = error

    def __len__(self) -> int:
        return len(self.appended)

    @overload
    def __getitem__(self, row: int) -> BatchOutcome: ...

    @overload
    def __getitem__(self, row: slice) -> list[BatchOutcome]: ...

    def __getitem__(self, row: int | slice) -> BatchOutcome | list[BatchOutcome]:
        rows = range(len(self))[row]
        if isinstance(rows, range):
            return [self[each] for each in rows]
        return BatchOutcome(self.appended.block(rows), self.error, self.level)
