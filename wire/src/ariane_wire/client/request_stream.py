"""Streams of requests: written by the caller, or taken from an iterator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Iterable
from typing import TYPE_CHECKING, Any, Final

from grpc import StatusCode
from grpc.aio import UsageError

from ariane_wire.client.call import ClientCall
from ariane_wire.transport.link import PROMPT_OCTETS, left

if TYPE_CHECKING:
    from ariane_wire.client.connection import ClientConnection

_FINISHED: Final = "RPC already finished."
_HALF_CLOSED: Final = 'RPC is half closed after calling "done_writing".'
_STYLE: Final = "The iterator and read/write APIs may not be mixed on a single RPC."

Requests = AsyncIterable[Any] | Iterable[Any] | None


class RequestStream(ClientCall):
    """A call whose requests are a stream."""

    is_done_writing = False
    _feeder: asyncio.Task[None] | None = None
    _begun: asyncio.Future[None] | None = None

    def feed_from(self, requests: Requests) -> None:
        """Take the requests from an iterator, if there is one."""
        if requests is not None:
            self._feeder = self.channel.loop.create_task(self._feed(requests))

    def begin(self, connection: ClientConnection) -> None:
        """Send the head."""
        self.is_open = True
        connection.open(self, self.block)
        if self._begun is not None and not self._begun.done():
            self._begun.set_result(None)
        if self.is_done_writing:
            self.end_sending()
        connection.carrier.wake()

    def on_finished(self) -> None:
        """The call is over: wake who waits."""
        super().on_finished()
        if self._begun is not None and not self._begun.done():
            self._begun.set_result(None)
        feeder = self._feeder
        if feeder is not None:
            self._feeder = None
            feeder.cancel()

    async def _feed(self, requests: AsyncIterable[Any] | Iterable[Any]) -> None:
        try:
            if isinstance(requests, AsyncIterable):
                async for request in requests:
                    await self._write(request)
                    del request  # Not kept while the next one is awaited.
            else:
                for request in requests:
                    await self._write(request)
        except asyncio.CancelledError:
            if self.code_ is None and not self.is_cancelled:
                self.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - the caller's iterator: its call fails with it.
            if self.code_ is None:
                details = f"the iterator of requests raised {error!r}"
                self.give_up(StatusCode.UNKNOWN, details)
            return
        finally:
            self._feeder = None
        self.end_requests()

    async def until_begun(self) -> None:
        """Wait until the call is written, or over."""
        if not self.is_open and self.code_ is None:
            if self._begun is None:
                self._begun = self.channel.loop.create_future()
            await asyncio.shield(self._begun)

    async def wait_for_connection(self) -> None:
        """Wait until the call is written, or has failed.

        Raises:
            CallFailed: It has failed.
        """
        await self.until_begun()
        self._raise_if_failed()

    async def write(self, request: Any) -> None:
        """Send one request; returns once its last octets have left.

        Raises:
            asyncio.InvalidStateError: The call is over, or its requests have ended.
            CallFailed: It has failed meanwhile.
            UsageError: The requests come from an iterator.
        """
        if self._feeder is not None:
            raise UsageError(_STYLE)
        await self._write(request)

    async def _write(self, request: Any) -> None:
        if self.code_ is not None:
            raise asyncio.InvalidStateError(_FINISHED)
        if self.is_done_writing:
            raise asyncio.InvalidStateError(_HALF_CLOSED)
        try:
            if not self.is_open:
                await self.until_begun()
                self._raise_if_failed()
            message = self.serialize(request)
            self.send_message(message, compressed=self.compression != "identity")
            self.connection.carrier.wake(at_once=len(message) >= PROMPT_OCTETS)
            await left(self)
        except asyncio.CancelledError:
            self.cancel()
            raise
        self._raise_if_failed()

    async def done_writing(self) -> None:
        """End the requests; harmless if they have ended.

        Raises:
            UsageError: The requests come from an iterator.
        """
        if self._feeder is not None:
            raise UsageError(_STYLE)
        self.end_requests()

    def end_requests(self) -> None:
        """End the requests; harmless if they have ended."""
        if self.code_ is not None or self.is_done_writing:
            return
        self.is_done_writing = True
        if self.is_open:
            self.end_sending()
            self.connection.carrier.wake()

    def _raise_if_failed(self) -> None:
        if self.code_ is not None and self.code_ is not StatusCode.OK:
            raise self.error()
