"""What became of rows: where they were stored, or why they were not."""

from __future__ import annotations

from typing import NamedTuple

from ariane_broker.log.promise import AcknowledgedLevel
from ariane_servicekit.errors import ServiceError
from ariane_storage.writing.append import Appended


class Outcome(NamedTuple):
    """What became of neighbouring rows that were stored together, or of one row.

    Attributes:
        appended: Where they are stored; None if they are not.
        error: Why they failed. With ``appended`` set: they are stored, and the level is unknown.
        level: The level that they reached.
        duplicate: Whether they had been stored before.
        resized: Whether their records are stored in other sizes than they came in.
    """

    appended: Appended | None = None
    error: ServiceError | None = None
    level: AcknowledgedLevel | None = None
    duplicate: bool = False
    resized: bool = False

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return 1 if self.appended is None else len(self.appended)
