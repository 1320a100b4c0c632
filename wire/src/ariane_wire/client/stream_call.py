"""Calls with a stream of requests, of responses, or both.

The caller holds a handle, and the connection holds the stream behind it: a handle that is dropped
cancels its call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator
from typing import TYPE_CHECKING, Any, Final

import grpc
from grpc import StatusCode, aio
from grpc.aio import Metadata

from ariane_wire.client.call import ClientCall
from ariane_wire.client.request_stream import Requests, RequestStream
from ariane_wire.client.unary_call import UnaryResponse

if TYPE_CHECKING:
    from ariane_wire.client.connection import ClientConnection

_STYLE: Final = "The iterator and read/write APIs may not be mixed on a single RPC."


class ResponseStream(ClientCall):
    """A call whose responses are a stream."""

    _reader: asyncio.Future[None] | None = None

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._messages: deque[bytes | bytearray] = deque()

    def on_message(self, message: bytes | bytearray, *, compressed: bool) -> None:
        """A response has come."""
        if self.head is None:
            self._fail(StatusCode.INTERNAL, "a response without a head")
            return
        if compressed:
            plain = self.plain(message, compressed=True)
            if plain is None:
                return
            message = plain
        self._messages.append(message)
        if self._reader is None:
            self.hold(len(message))
        else:
            self._wake()

    def on_finished(self) -> None:
        """The call is over: wake who waits."""
        super().on_finished()
        self._wake()

    def _wake(self) -> None:
        reader = self._reader
        if reader is not None:
            self._reader = None
            if not reader.done():
                reader.set_result(None)

    async def read(self) -> Any:
        """The next response, or ``EOF``."""
        while not self._messages:
            if self.code_ is not None:
                return aio.EOF
            if self._reader is None:
                self._reader = self.channel.loop.create_future()
            try:
                await self._reader
            except asyncio.CancelledError:
                self._reader = None
                self.cancel()
                raise
        message = self._messages.popleft()
        if self.unread:
            self.release(min(len(message), self.unread))
        deserializer = self.method.deserializer
        return message if deserializer is None else deserializer(message)  # type: ignore[arg-type]


class UnaryStream(ResponseStream):
    """One request, many responses."""

    request = b""

    def begin(self, connection: ClientConnection) -> None:
        """Send head and request."""
        self.is_open = True
        connection.open(self, self.block)
        self.send_message(self.request, compressed=self.compression != "identity", last=True)
        connection.carrier.wake()
        self._wake_begun()

    _begun: asyncio.Future[None] | None = None

    def _wake_begun(self) -> None:
        if self._begun is not None and not self._begun.done():
            self._begun.set_result(None)

    def on_finished(self) -> None:
        """The call is over: wake who waits."""
        super().on_finished()
        self._wake_begun()

    async def wait_for_connection(self) -> None:
        """Wait until the call is written, or has failed."""
        if not self.is_open and self.code_ is None:
            if self._begun is None:
                self._begun = self.channel.loop.create_future()
            await asyncio.shield(self._begun)
        if self.code_ is not None and self.code_ is not StatusCode.OK:
            raise self.error()


class StreamUnary(RequestStream, UnaryResponse):
    """Many requests, one response."""


class StreamStream(RequestStream, ResponseStream):
    """Many requests, many responses."""


class _Handle:
    """What the caller holds of a call."""

    def __init__(self, stream: ClientCall) -> None:
        self._stream = stream

    def __del__(self) -> None:
        """Cancel what nobody can read any more."""
        stream = getattr(self, "_stream", None)
        if stream is not None and stream.code_ is None:
            stream.channel.abandon(stream)

    def cancel(self) -> bool:
        """End the call; False if it is over."""
        return self._stream.cancel()

    def cancelled(self) -> bool:
        """Whether the call ended as cancelled."""
        return self._stream.cancelled()

    def done(self) -> bool:
        """Whether the call is over."""
        return self._stream.done()

    def time_remaining(self) -> float | None:
        """Seconds until the deadline; None without one."""
        return self._stream.time_remaining()

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Call back when the call is over."""
        if self._stream.done():
            callback(self)
        else:
            self._stream.add_done_callback(lambda _: callback(self))

    async def initial_metadata(self) -> Metadata:
        """The metadata of the response's head."""
        return await self._stream.initial_metadata()

    async def trailing_metadata(self) -> Metadata:
        """The metadata of the trailers."""
        return await self._stream.trailing_metadata()

    async def code(self) -> grpc.StatusCode:
        """The status."""
        return await self._stream.code()

    async def details(self) -> str:
        """The text of the status."""
        return await self._stream.details()

    async def debug_error_string(self) -> str:
        """The status in one line."""
        return await self._stream.debug_error_string()

    def __repr__(self) -> str:
        return repr(self._stream)


class _Reading(_Handle):
    """The half of a handle that reads responses."""

    _stream: ResponseStream
    _iterator: AsyncIterator[Any] | None = None
    _reads = False

    def __aiter__(self) -> AsyncIterator[Any]:
        """The responses, one by one."""
        if self._reads:
            raise aio.UsageError(_STYLE)
        if self._iterator is None:
            self._iterator = self._responses()
        return self._iterator

    async def _responses(self) -> AsyncIterator[Any]:
        while (response := await self._stream.read()) is not aio.EOF:
            yield response
            del response  # Not kept while the next one is awaited.
        self._raise_if_failed()

    async def read(self) -> Any:
        """The next response, or ``EOF``.

        Raises:
            CallFailed: The call ended with another status than OK.
        """
        if self._iterator is not None:
            raise aio.UsageError(_STYLE)
        self._reads = True
        response = await self._stream.read()
        if response is aio.EOF:
            self._raise_if_failed()
        return response

    def _raise_if_failed(self) -> None:
        if self._stream.code_ is not StatusCode.OK:
            raise self._stream.error()


class _Writing(_Handle):
    """The half of a handle that writes requests."""

    _stream: RequestStream

    async def write(self, request: Any) -> None:
        """Send one request; returns once its last octets have left."""
        await self._stream.write(request)

    async def done_writing(self) -> None:
        """End the requests."""
        await self._stream.done_writing()

    @property
    def _done_writing_flag(self) -> bool:
        """What grpcio's interceptors ask."""
        return self._stream.is_done_writing

    async def wait_for_connection(self) -> None:
        """Wait until the call is written, or has failed."""
        await self._stream.wait_for_connection()


class UnaryStreamCall(_Reading, aio.UnaryStreamCall):  # type: ignore[type-arg]
    """The handle of a call with one request and many responses."""

    _stream: UnaryStream

    async def wait_for_connection(self) -> None:
        """Wait until the call is written, or has failed."""
        await self._stream.wait_for_connection()


class StreamUnaryCall(_Writing, aio.StreamUnaryCall):  # type: ignore[type-arg]
    """The handle of a call with many requests and one response."""

    _stream: StreamUnary

    def __await__(self) -> Generator[Any, Any, Any]:
        """Wait for the response; the handle is held meanwhile."""
        return (yield from self._stream.__await__())


class StreamStreamCall(_Reading, _Writing, aio.StreamStreamCall):  # type: ignore[type-arg]
    """The handle of a call with many requests and many responses."""

    _stream: StreamStream


__all__ = ["Requests", "StreamStreamCall", "StreamUnaryCall", "UnaryStreamCall"]
