"""Outcomes that wait for what the broker promises, without a task for each request that does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, Protocol, TypeVar

from ariane_broker.append.batch_outcome import AcknowledgedLevel, BatchOutcome
from ariane_servicekit.errors import ServiceError

_T = TypeVar("_T")


class FlushWait(Protocol):
    """Waits for the disk."""

    def when_flushed(
        self, commit_log_offset: int, told: Callable[[ServiceError | None], None], /
    ) -> None:
        """Have somebody told once everything before this commit-log offset is on the disk."""
        ...

    def wait(self, commit_log_offset: int) -> Awaitable[None]:
        """Return once everything before this commit-log offset is on the disk."""
        ...


class Acknowledged(Protocol):
    """Makes the outcomes once it is known how safe what was stored is."""

    def __call__(
        self, level: AcknowledgedLevel, error: ServiceError | None = None, /
    ) -> Sequence[BatchOutcome]:
        """The outcomes.

        Args:
            level: How safe it is.
            error: Why nobody knows how safe it is.
        """
        ...


class PromisedOutcomes(Awaitable[Sequence[BatchOutcome]]):
    """What became of batches that are stored, once they are on the disk."""

    __slots__ = ("_acknowledged", "_end", "_flush_wait")

    def __init__(self, acknowledged: Acknowledged, flush_wait: FlushWait, end: int) -> None:
        """Wait for nothing yet.

        Args:
            acknowledged: Makes the outcomes.
            flush_wait: Waits for the disk, once for all batches of a request.
            end: Commit-log offset behind the last of them.
        """
        self._acknowledged = acknowledged
        self._flush_wait = flush_wait
        self._end = end

    def then(self, say: Callable[[Sequence[BatchOutcome]], _T]) -> asyncio.Future[_T]:
        """What is to be said of them, as soon as they are known.

        Args:
            say: Says it.
        """
        said: asyncio.Future[_T] = asyncio.get_running_loop().create_future()

        def told(error: ServiceError | None) -> None:
            if said.done():  # Who waited has gone.
                return
            level = AcknowledgedLevel.FLUSHED if error is None else AcknowledgedLevel.MEMORY
            try:
                said.set_result(say(self._acknowledged(level, error)))
            except Exception as failure:  # noqa: BLE001 - told to who waits, and to no other.
                said.set_exception(failure)

        self._flush_wait.when_flushed(self._end, told)
        return said

    def __await__(self) -> Generator[Any, None, Sequence[BatchOutcome]]:
        return self.then(_as_they_are).__await__()


def _as_they_are(outcomes: Sequence[BatchOutcome]) -> Sequence[BatchOutcome]:
    return outcomes
