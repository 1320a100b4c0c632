"""Outcomes that wait for the broker's promise, without a task for each request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from ariane_broker.append.outcome import Outcome
from ariane_broker.log.promise import AcknowledgedLevel, Promise
from ariane_servicekit.errors import ServiceError

_T = TypeVar("_T")

Acknowledged: TypeAlias = Callable[[AcknowledgedLevel, ServiceError | None], Sequence[Outcome]]
"""Makes the outcomes from the level that was reached, or from the error that left it unknown."""

Taken: TypeAlias = Sequence[Outcome] | Awaitable[Sequence[Outcome]]
"""The outcomes, or an awaitable of them."""


@dataclass(frozen=True, slots=True)
class PromisedOutcomes(Awaitable[Sequence[Outcome]]):
    """The outcomes of stored rows, available once the promise holds.

    Attributes:
        acknowledged: Makes the outcomes.
        promise: The promise to wait for, once for all rows of a request.
        end: Commit-log offset behind the last row.
    """

    acknowledged: Acknowledged
    promise: Promise
    end: int

    def then(self, say: Callable[[Sequence[Outcome]], _T]) -> asyncio.Future[_T]:
        """Return a future of a function of the outcomes."""
        return self.promise.then(
            self.end, lambda level, error: say(self.acknowledged(level, error))
        )

    def __await__(self) -> Generator[Any, None, Sequence[Outcome]]:
        return self.promise.then(self.end, self.acknowledged).__await__()
