"""The context that a handler is given: grpcio's, over a call of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import grpc
from grpc import StatusCode, aio

from ariane_wire.protocol.compression import NAMES
from ariane_wire.protocol.frames import checked_message
from ariane_wire.protocol.headers.metadata import encode_metadata
from ariane_wire.protocol.statuses import status_of
from ariane_wire.server.call import ServerCall
from ariane_wire.server.identity import Identity
from ariane_wire.transport.link import VIEW_OCTETS, left


class CallContext(ServerCall, aio.ServicerContext):  # type: ignore[type-arg]
    """A call and its context in one, because nearly every call needs no more than that."""

    async def read(self) -> Any:
        """The next request, or ``EOF``."""
        message = self.take_single()
        if message is None:
            message = await self.next_request()
        return aio.EOF if message is None else self._decoded(message)

    async def write(self, message: Any) -> None:
        """Send one response; returns once its last octets have left.

        Raises:
            grpc.aio.InternalError: The call is gone.
            grpc.aio.UsageError: The call is answered.
        """
        await self.write_together((message,))

    async def write_together(self, messages: Iterable[Any]) -> None:
        """Send responses that are all there; returns once the last octets have left.

        grpcio's context has no such method. Each response by itself waits for the transport.

        Raises:
            grpc.aio.InternalError: The call is gone.
            grpc.aio.UsageError: The call is answered.
        """
        if self.is_gone or self.is_cancelled:
            raise aio.InternalError("the call is gone")
        if self.is_answered:
            raise aio.UsageError("the call is answered")
        handler = self.handler
        serializer = handler.response_serializer if handler is not None else None
        limit = self.server.options.send_octets_max
        total = 0
        for message in messages:
            octets = message if serializer is None else serializer(message)
            if type(octets) is not bytes:
                octets = checked_message(octets)
            if 0 <= limit < len(octets):
                self._too_long_to_send(len(octets), limit)
                raise aio.AbortError
            self._send_head()
            self._send(octets)
            total += len(octets)
        self.connection.carrier.wake(at_once=total >= VIEW_OCTETS)
        await left(self)
        if self.is_gone:
            raise aio.InternalError("the call is gone")

    async def send_initial_metadata(self, initial_metadata: Iterable[Any]) -> None:
        """Send the head now.

        Raises:
            grpc.aio.UsageError: It was sent.
            ValueError: Metadata cannot be sent.
        """
        if self._is_head_sent:
            raise aio.UsageError("the initial metadata was sent")
        if self.is_gone:
            raise aio.InternalError("the call is gone")
        metadata = tuple(initial_metadata)
        if self._is_beyond_client(metadata):
            raise aio.AbortError
        encode_metadata(metadata)
        self._initial = metadata
        self._send_head()
        self.connection.carrier.wake()

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Iterable[Any] = ()
    ) -> NoReturn:
        """End the call with a status other than OK.

        Raises:
            grpc.aio.AbortError: Always, once the status is sent.
            grpc.aio.UsageError: The call is answered.
        """
        if self.is_answered:
            raise aio.UsageError("abort after the call was answered")
        code = status_of(code)
        if code is StatusCode.OK:
            raise ValueError("abort with the status OK")
        trailing = tuple(trailing_metadata) or self._trailing
        self.end(code, details, trailing)
        raise aio.AbortError("the handler has aborted the call")

    async def abort_with_status(self, status: grpc.Status) -> NoReturn:
        """End the call with a status other than OK."""
        await self.abort(status.code, status.details, status.trailing_metadata or ())

    def set_trailing_metadata(self, trailing_metadata: Iterable[Any]) -> None:
        """Metadata to come with the status."""
        self._trailing = tuple(trailing_metadata)

    def trailing_metadata(self) -> Any:
        """What was set."""
        return self._trailing

    def invocation_metadata(self) -> Any:
        """The metadata of the call: pairs."""
        return self.head.metadata

    def set_code(self, code: grpc.StatusCode) -> None:
        """The status to end with; its number is taken, too."""
        self._code = status_of(code)

    def code(self) -> Any:
        """The status that was set or sent; None before."""
        return self._code

    def set_details(self, details: str) -> None:
        """The text of the status to end with."""
        self._details = details

    def details(self) -> str:
        """The text that was set or sent."""
        return self._details

    def set_compression(self, compression: grpc.Compression) -> None:
        """How responses are compressed, if the client takes that.

        Raises:
            grpc.aio.UsageError: The head was sent.
        """
        if self._is_head_sent:
            raise aio.UsageError("set_compression after the initial metadata was sent")
        self.compress_by(NAMES[compression])

    def disable_next_message_compression(self) -> None:
        """Do not compress the next response."""
        self._skips_compression = True

    def peer(self) -> str:
        """The client's address, in the form of grpcio."""
        return self.connection.peer_name

    def peer_identities(self) -> list[bytes] | None:
        """Who the client is by its certificate; None without one."""
        identity = self.server.identity_of(self)
        return None if identity.key is None else list(identity.auth_context.get(identity.key, ()))

    def peer_identity_key(self) -> str | None:
        """Which property of ``auth_context`` says who the client is."""
        return self.server.identity_of(self).key

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """What the connection proves of the client."""
        return self.server.identity_of(self).auth_context

    def identity(self) -> Identity:
        """Who is at the other end, and what was noted of him."""
        return self.server.identity_of(self)

    def time_remaining(self) -> float | None:  # type: ignore[override]  # None without one, as grpcio's.
        """Seconds until the deadline; None without one."""
        if self.deadline_s is None:
            return None
        return max(0.0, self.deadline_s - self.connection.clock())

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Call back when the call is over: its last octets have left, or the client is gone."""
        if self.done():
            callback(self)
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def cancelled(self) -> bool:
        """Whether the call ended before it was answered."""
        return self.is_cancelled

    def done(self) -> bool:
        """Whether the call is over."""
        return self.is_gone and self._callbacks is None
