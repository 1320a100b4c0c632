"""Pulls one after another over one stream.

::

    client     request 1        request 2                     request 3
                  |                 |                             |
    broker     [look] answer 1   [look, hold ...... something came] answer 2   [look] ...
                                                   or request 3 came: answer 2 with what there is

A request is read while the one before it is held, and at no other time: so one at most waits in the
broker, and the stream's own flow control keeps the others with the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import suppress
from typing import Generic, TypeVar

from ariane_broker.held_requests import HeldRequests
from ariane_broker.pull import PulledQueue, PullOrder, PullRecords

Request = TypeVar("Request")


class PullStream(Generic[Request]):
    """One stream; is also the hold of its present request, which the next one ends."""

    def __init__(
        self,
        pull_records: PullRecords,
        held: HeldRequests,
        requests: AsyncIterator[Request],
        order_of: Callable[[Request], PullOrder],
    ) -> None:
        """Take the parts.

        Args:
            pull_records: Answers each request.
            held: Where requests are held.
            requests: What comes from the client.
            order_of: What a request asks for.
        """
        self._pull_records = pull_records
        self._held = held
        self._requests = requests
        self._order_of = order_of
        self._next: asyncio.Task[Request | None] | None = None

    @property
    def over(self) -> bool:
        """Whether the hold ends now: the next request has come, or none ever will."""
        return self._next is not None and self._next.done()

    def begin(self) -> None:
        """The present request is about to be held: listen for the next."""
        if self._next is None:
            self._next = asyncio.create_task(self._read(), name="next-pull")
            self._next.add_done_callback(lambda _: self._held.wake(self))

    async def answers(self) -> AsyncGenerator[list[PulledQueue]]:
        """What each request finds, until there are no more, or the broker stops.

        Raises:
            ServiceError: As ``PullRecords.pull``.
        """
        try:
            while (request := await self._take()) is not None:
                yield await self._pull_records.pull(self._order_of(request), self)
                if not self._held.open:
                    return
        finally:
            if self._next is not None:
                self._next.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await self._next

    async def _take(self) -> Request | None:
        if self._next is None:
            return await self._read()
        request = await self._next
        self._next = None
        return request

    async def _read(self) -> Request | None:
        return await anext(self._requests, None)
