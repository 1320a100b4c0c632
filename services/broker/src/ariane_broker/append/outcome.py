"""What became of rows: where they were stored, or why they were not; perhaps only later.

Outcomes may wait for the broker's promise, without a task for each request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

from ariane_broker.log.promise import AcknowledgedLevel, Promise
from ariane_servicekit.errors import ServiceError
from ariane_storage.writing.append import Appended

_T = TypeVar("_T")


class Outcome(NamedTuple):
    """What became of neighbouring rows that were stored together, or of one row."""

    appended: Appended | None = None
    """Where they are stored; None if they are not."""
    error: ServiceError | None = None
    """Why they failed. With ``appended`` set: they are stored, and the level is unknown."""
    level: AcknowledgedLevel | None = None
    """The level that they reached."""
    duplicate: bool = False
    """Whether they had been stored before."""
    resized: bool = False
    """Whether their records are stored in other sizes than they came in."""

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return 1 if self.appended is None else len(self.appended)


Acknowledged: TypeAlias = Callable[[AcknowledgedLevel, ServiceError | None], Sequence[Outcome]]
"""Makes the outcomes from the level that was reached, or from the error that left it unknown."""

Taken: TypeAlias = Sequence[Outcome] | Awaitable[Sequence[Outcome]]
"""The outcomes, or an awaitable of them."""


@dataclass(frozen=True, slots=True)
class PromisedOutcomes(Awaitable[Sequence[Outcome]]):
    """The outcomes of stored rows, available once the promise holds."""

    acknowledged: Acknowledged
    """Makes the outcomes."""
    promise: Promise
    """The promise to wait for, once for all rows of a request."""
    end: int
    """Commit-log offset behind the last row."""

    def then(self, say: Callable[[Sequence[Outcome]], _T]) -> asyncio.Future[_T]:
        """Return a future of a function of the outcomes."""
        return self.promise.then(
            self.end, lambda level, error: say(self.acknowledged(level, error))
        )

    def __await__(self) -> Generator[Any, None, Sequence[Outcome]]:
        return self.promise.then(self.end, self.acknowledged).__await__()
