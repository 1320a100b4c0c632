"""What calls do while a broker changes its primary: one policy for all of them.

A primary is killed, freezes, is cut off, or hands over as planned. Until a replica has taken over
and this client knows of it, tries end like this::

    a try ends with                           the route is   the call is made again
    ------------------------------------------------------------------------------------------
    refused: not the primary                  in doubt       yes: surely nothing was done
    refused: starting, draining, full         in doubt       yes, likewise
    refused: no such topic or queue           in doubt       no
    connection refused or broken              in doubt       yes, unless twice would be wrong
    no answer in time: frozen, or cut off     in doubt       yes, likewise
    refused for any other reason              trusted        if the refusal passes by itself

A route in doubt is queried anew, at a rate that ``route_doubts`` limits. Each try looks its address
up again. Tries end when one succeeds, when the outcome is final, or when the time of the call is
up: ``PATIENCE_S``, or for a send its own time. Sends of messages follow the same rules, but many
batches share a call, so ``producer.sending.repeats`` applies them to each batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final, TypeVar

from ariane_sdk.errors import CallError, DeadlinePassed, ServiceUnavailable
from ariane_sdk.net.backoff import Backoff
from ariane_sdk.net.status import ROUTING_REASONS
from ariane_sdk.routing.routes import Routes
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger

PATIENCE_S: Final = 30.0
"""For how long a call is made again, in seconds: in less time a replica takes over, or a broker
restarts."""

REPEAT_S_MIN: Final = 0.05
REPEAT_S_MAX: Final = 1.0
"""The wait before a call is made again; it doubles from the first value to the second."""

Answer = TypeVar("Answer")


def misleads(error: CallError) -> bool:
    """Whether the route that led to this error is in doubt."""
    doubtful = isinstance(error, ServiceUnavailable | DeadlinePassed)
    return doubtful or error.reason in ROUTING_REASONS


class Failover:
    """Makes calls again until the present primary has answered."""

    def __init__(self, routes: Routes, clock: Clock) -> None:
        """Doubt these routes."""
        self._routes = routes
        self._clock = clock

    def note(self, error: CallError, topics: Iterable[str]) -> None:
        """Doubt the routes of topics if a failed call is a reason to."""
        if misleads(error):
            for topic in topics:
                self._routes.doubt(topic)

    async def ask(
        self,
        call: Callable[[], Awaitable[Answer]],
        topics: Collection[str] = (),
        *,
        patience_s: float = PATIENCE_S,
        reads: bool = False,
        is_final: Callable[[CallError], bool] = lambda _: False,
    ) -> Answer:
        """Make a call that is harmless to repeat until its outcome is known.

        Args:
            call: One try; looks up the address by itself.
            topics: The topics whose routes lead to the broker.
            patience_s: For how long tries are made, in seconds; 0: one try.
            reads: Whether the call changes nothing, so that its outcome is never unknown.
            is_final: Whether an error also settles what became of earlier tries.

        Raises:
            CallError: The error of the last try; ``outcome_unknown`` if any try may have succeeded.
        """
        deadline_s = self._clock.monotonic_s() + patience_s
        backoff: Backoff | None = None
        maybe_done = False
        while True:
            try:
                return await call()
            except CallError as error:
                if reads:
                    error.outcome_unknown = False
                maybe_done = maybe_done or error.outcome_unknown
                left_s = deadline_s - self._clock.monotonic_s()
                if left_s <= 0 or not (error.retriable or error.outcome_unknown):
                    self.note(error, topics)
                    error.outcome_unknown = maybe_done and not is_final(error)
                    raise
                logger.info("a call is made again: %s", error)
                backoff = backoff or Backoff(REPEAT_S_MIN, REPEAT_S_MAX)
                await self.wait(error, topics, min(backoff.next_s(), left_s), left_s)

    async def wait(
        self, error: CallError, topics: Collection[str], delay_s: float, left_s: float
    ) -> None:
        """Wait before the next try, and have routes queried that an error puts in doubt.

        Args:
            error: The failure.
            topics: The topics whose routes led to the broker.
            delay_s: The wait, unless the broker asks for a longer one.
            left_s: The time that the call has left.
        """
        await self._clock.sleep(min(max(delay_s, error.retry_after_s), left_s))
        if misleads(error):
            await asyncio.gather(*map(self._routes.reconsider, topics))
