"""Outcomes that wait for the broker's promise, without a task for each request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from ariane_broker.append.batch_outcome import BatchOutcome
from ariane_broker.log.promise import AcknowledgedLevel, Promise
from ariane_servicekit.errors import ServiceError

_T = TypeVar("_T")

Acknowledged: TypeAlias = Callable[[AcknowledgedLevel, ServiceError | None], Sequence[BatchOutcome]]
"""Makes the outcomes from the level that was reached, or from the error that left it unknown."""

Taken: TypeAlias = Sequence[BatchOutcome] | Awaitable[Sequence[BatchOutcome]]
"""One outcome for each batch, or an awaitable of the outcomes."""


@dataclass(frozen=True, slots=True)
class PromisedOutcomes(Awaitable[Sequence[BatchOutcome]]):
    """The outcomes of stored batches, available once the promise holds.

    Attributes:
        acknowledged: Makes the outcomes.
        promise: The promise to wait for, once for all batches of a request.
        end: Commit-log offset behind the last batch.
    """

    acknowledged: Acknowledged
    promise: Promise
    end: int

    def then(self, say: Callable[[Sequence[BatchOutcome]], _T]) -> asyncio.Future[_T]:
        """Return a future of a function of the outcomes."""
        return self.promise.then(
            self.end, lambda level, error: say(self.acknowledged(level, error))
        )

    def __await__(self) -> Generator[Any, None, Sequence[BatchOutcome]]:
        return self.promise.then(self.end, self.acknowledged).__await__()
