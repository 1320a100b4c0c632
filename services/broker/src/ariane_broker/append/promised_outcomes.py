"""Outcomes that wait for what the broker promises, without a task for each request that does."""

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
"""Makes the outcomes once it is known how safe what was stored is, or why nobody knows."""

Taken: TypeAlias = Sequence[BatchOutcome] | Awaitable[Sequence[BatchOutcome]]
"""One outcome for each batch, or what they are to be waited for."""


@dataclass(frozen=True, slots=True)
class PromisedOutcomes(Awaitable[Sequence[BatchOutcome]]):
    """The outcomes of stored batches, told once the promise is kept.

    Attributes:
        acknowledged: Makes the outcomes.
        promise: What is waited for, once for all batches of a request.
        end: Commit-log offset behind the last of them.
    """

    acknowledged: Acknowledged
    promise: Promise
    end: int

    def then(self, say: Callable[[Sequence[BatchOutcome]], _T]) -> asyncio.Future[_T]:
        """What is to be said of them, as soon as they are known."""
        return self.promise.then(
            self.end, lambda level, error: say(self.acknowledged(level, error))
        )

    def __await__(self) -> Generator[Any, None, Sequence[BatchOutcome]]:
        return self.promise.then(self.end, self.acknowledged).__await__()
