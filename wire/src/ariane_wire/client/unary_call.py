"""Calls with one response."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

from grpc import StatusCode, aio

from ariane_wire.client.call import ClientCall
from ariane_wire.protocol.frames import HEAD_AND_PREFIX, PREFIX_OCTETS
from ariane_wire.protocol.headers.heads import ResponseHead
from ariane_wire.protocol.sending import SMALL_OCTETS
from ariane_wire.transport.link import PROMPT_OCTETS

if TYPE_CHECKING:
    from ariane_wire.client.connection import ClientConnection

_NONE: Final = object()


class UnaryResponse(ClientCall):
    """What calls with one response have in common: awaiting them."""

    _message: bytes | bytearray | None = None
    _response: Any = _NONE

    def on_message(self, message: bytes | bytearray, *, compressed: bool) -> None:
        """The response has come."""
        if self.head is None or self._message is not None:
            self._fail(StatusCode.INTERNAL, "more than one response, or one without a head")
            return
        self._message = self.plain(message, compressed=True) if compressed else message

    def end_well(self, head: ResponseHead) -> None:
        """The server has ended the call with OK."""
        if self._message is None:
            details = "the server ended the call with OK and without a response"
            self.finish(StatusCode.UNIMPLEMENTED, details, head.metadata)
        else:
            self.finish(StatusCode.OK, head.message, head.metadata)

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait for the response.

        Raises:
            CallFailed: The call ended with another status than OK.
            asyncio.CancelledError: It was cancelled by this side.
        """
        if self.code_ is None:
            future = self._done
            if future is None or future.done():
                future = self._done = self.channel.loop.create_future()
            try:
                yield from future
            except asyncio.CancelledError:
                self.cancel()
                raise
        return self.result()

    def result(self) -> Any:
        """The response of a call that is over, decoded once.

        Raises:
            CallFailed: The call ended with another status than OK.
            asyncio.CancelledError: It was cancelled by this side.
            grpc.aio.UsageError: It is not over.
        """
        if self.code_ is None:
            raise aio.UsageError("the call is not over")
        if self.code_ is not StatusCode.OK:
            raise self.error()
        response = self._response
        if response is _NONE:
            deserializer = self.method.deserializer
            message: Any = self._message
            response = message if deserializer is None else deserializer(message)
            self._response = response
        return response

    async def wait_for_connection(self) -> None:
        """Wait until the call is written, or has failed.

        Raises:
            CallFailed: It has failed.
        """
        while not self.is_open and self.code_ is None:
            await self.channel.changed()
        if self.code_ is not None and self.code_ is not StatusCode.OK:
            raise self.error()


class UnaryUnaryCall(UnaryResponse, aio.UnaryUnaryCall):  # type: ignore[type-arg]
    """A call with one request and one response: a stream that is written at once."""

    request = b""

    def begin(self, connection: ClientConnection) -> None:
        """Send head and request."""
        self.is_open = True
        connection.open(self, self.block)
        request = self.request
        octets = len(request) + PREFIX_OCTETS
        compressed = self.compression != "identity"
        if (
            octets <= self.send_window
            and octets <= connection.send_window
            and octets <= connection.whole_max
            and (octets <= SMALL_OCTETS or not connection.ready)
            and not connection.first
            and not connection.paused
        ):
            self.send_window -= octets
            connection.send_window -= octets
            connection.octets_sent += octets
            self.is_local_closed = True
            connection.out += (
                HEAD_AND_PREFIX.pack(
                    octets << 8, 1, self.stream_id, compressed, octets - PREFIX_OCTETS
                ),
                request,
            )
        else:
            self.send_message(request, compressed=compressed, last=True)
        connection.carrier.wake(at_once=octets >= PROMPT_OCTETS)
