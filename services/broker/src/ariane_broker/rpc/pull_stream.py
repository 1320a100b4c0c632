"""Pulls one after another over one stream.

::

    client     request 1        request 2, follow                        request 3
                  |                 |                                        |
    broker     [look] answer 1   [look, hold ........... new message] answer 2 |
                                 [look, hold ........... new message] answer 3 |
                                 [look, hold ............ request 3 arrived] answer 4  [look] ...

The next request is read while the present one is answered: so at most one waits in the broker, and
the stream's flow control keeps the others in the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

from ariane_broker.log.held_requests import HeldRequests
from ariane_broker.read.open_pull import OpenPull
from ariane_broker.read.pull import PullRecords
from ariane_broker.read.pull_order import PulledQueue, PullOrder
from ariane_servicekit import AnswerLease, first_request

Request = TypeVar("Request")


class StreamOrder(NamedTuple):
    """A request of a stream."""

    order: PullOrder
    """The pull."""
    follow: bool
    """Whether the pull goes on after an answer."""


class StreamAnswer(NamedTuple):
    """One answer."""

    pulled: list[PulledQueue]
    """The messages found."""
    more_follow: bool
    """Whether the same pull goes on."""


class PullStream(Generic[Request]):
    """One stream of pulls."""

    def __init__(
        self,
        pull_records: PullRecords,
        held: HeldRequests,
        requests: AsyncIterator[Request],
        order_of: Callable[[Request], Awaitable[StreamOrder]],
        lease: AnswerLease,
    ) -> None:
        """Answer requests.

        The lease reserves memory for each answer; the caller releases it when the answer is sent.
        """
        self._pull_records = pull_records
        self._held = held
        self._requests = requests
        self._order_of = order_of
        self._lease = lease
        self._next: asyncio.Task[Request | None] | None = None

    async def answers(self) -> AsyncGenerator[StreamAnswer]:
        """Yield the answers to all requests, until there are no more, or the broker stops.

        Raises:
            ServiceError: As ``PullRecords.open`` and ``OpenPull.answer``.
        """
        request = await first_request(self._read())
        try:
            while request is not None:
                order, follow = await self._order_of(request)
                with self._pull_records.open(order, self._lease) as opened:
                    reading = self._read_next(opened)
                    more_follow = True
                    while more_follow:
                        pulled = await opened.answer()
                        more_follow = follow and opened.may_go_on and self._held.open
                        yield StreamAnswer(pulled, more_follow)
                        del pulled  # Not kept while the next ones are awaited.
                if not self._held.open:
                    return
                request = await reading
        finally:
            if self._next is not None:
                self._next.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await self._next

    def _read_next(self, present: OpenPull) -> asyncio.Task[Request | None]:
        """Read the next request; its arrival ends the hold of the present one."""
        self._next = asyncio.create_task(self._read(), name="next-pull")
        self._next.add_done_callback(lambda _: present.interrupt())
        return self._next

    async def _read(self) -> Request | None:
        return await anext(self._requests, None)
