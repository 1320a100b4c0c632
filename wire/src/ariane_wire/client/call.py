"""A call as the client sees it: what all four kinds have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import grpc
from grpc import StatusCode
from grpc.aio import Metadata

from ariane_wire.errors import CallFailed
from ariane_wire.protocol.assembly import MessageRefused, too_long
from ariane_wire.protocol.compression import DecompressedTooLong, compress, decompress
from ariane_wire.protocol.faults import StreamFault
from ariane_wire.protocol.frames import ErrorCode, checked_message, error_name
from ariane_wire.protocol.headers.header_blocks import HeaderListTooLong
from ariane_wire.protocol.headers.heads import ResponseHead
from ariane_wire.protocol.headers.metadata import LIMIT_KEY, NOTES, SIZE_KEY, UNPROCESSED_KEY, Pairs
from ariane_wire.protocol.statuses import status_of_http, status_of_number, status_of_reset
from ariane_wire.protocol.stream import Stream
from ariane_wire.transport.callbacks import call_back

if TYPE_CHECKING:
    from ariane_wire.client.channel import Channel
    from ariane_wire.client.connection import ClientConnection
    from ariane_wire.client.method import Method
    from ariane_wire.transport.deadlines import Expiring

LOCALLY_CANCELLED: Final = "Locally cancelled by application!"
"""Trailing metadata by which a server says how large a request was, and what it takes."""


class ClientCall(Stream):
    """One call.

    The state of a call that has not been given to a connection, too: it may wait for one.
    """

    connection: ClientConnection
    deadline_s: float | None = None
    """By the loop's clock; None without one."""
    wait_for_ready = False
    compression = "identity"
    code_: StatusCode | None = None
    """None while the call is not over."""
    details_ = ""
    head: ResponseHead | None = None
    trailing: Pairs = ()
    is_open = False
    is_cancelled = False
    never_processed = False
    metadata_octets = 0
    """As the peer counts them; known where there is any."""
    request_too_large: bool = False
    size_octets: int | None = None
    limit_octets: int | None = None
    _expiry: dict[Expiring, None] | None = None
    _done: asyncio.Future[None] | None = None
    """Of those who await the response."""
    _headed: asyncio.Future[None] | None = None
    _callbacks: list[Callable[[Any], None]] | None = None

    def __init__(self, channel: Channel, method: Method, block: bytes) -> None:
        self.channel = channel
        self.method = method
        self.block = block

    # The course of a call.

    def begin(self, connection: ClientConnection) -> None:
        """Become a stream of a connection: send the head, and what waits behind it."""
        raise NotImplementedError

    def expire(self) -> None:
        """The deadline has passed."""
        self._expiry = None
        self.give_up(StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")

    def give_up(self, code: StatusCode, details: str) -> None:
        """End the call from this side."""
        if self.code_ is not None:
            return
        if self.is_open:
            self.connection.reset_stream(self, ErrorCode.CANCEL)
        else:
            self.channel.forget(self)
            self.never_processed = True
        self.finish(code, details)

    def finish(self, code: StatusCode, details: str, trailing: Pairs = ()) -> None:
        """The call is over."""
        if self.code_ is not None:
            return
        self.code_ = code
        self.details_ = details
        if trailing:
            self.trailing = trailing
        if self._expiry is not None:
            self._expiry.pop(self, None)
        future = self._done
        if future is not None and not future.done():
            future.set_result(None)
        future = self._headed
        if future is not None and not future.done():
            future.set_result(None)
        if self._callbacks is not None:
            callbacks, self._callbacks = self._callbacks, None
            call_back(callbacks, self)
        self.on_finished()

    def on_finished(self) -> None:
        """The call is over: wake who waits."""

    def on_head(self, head: ResponseHead, *, ends: bool) -> None:
        """The response's head, or its trailers."""
        if head.fault:
            self._fail(StatusCode.UNKNOWN, head.fault)
        elif self.head is None:
            if head.http_status is None:
                self._fail(StatusCode.INTERNAL, "the response has no HTTP status")
            elif head.http_status < 200 and not ends:
                self.connection.spend("heads before the response's")
            elif head.http_status != 200 and head.status is None:
                details = f"the server answered with HTTP status {head.http_status}"
                self._fail(status_of_http(head.http_status), details)
            elif ends:
                self._end(head)
            elif not head.is_grpc:
                self._fail(StatusCode.UNKNOWN, "the answer is not gRPC's, by its content type")
            else:
                self.head = head
                future = self._headed
                if future is not None and not future.done():
                    future.set_result(None)
        elif not ends:
            self._fail(StatusCode.INTERNAL, "the server sent two heads")
        else:
            self._end(head)

    def _end(self, head: ResponseHead) -> None:
        self.is_remote_closed = True
        if self.assembly is not None and self.assembly.is_inside:
            self._fail(StatusCode.INTERNAL, "the response ended inside of a message")
            return
        if self.is_local_closed and not self.pending_octets:
            self.connection.close_stream(self)
        else:
            # The server wants no more of the request.
            self.connection.reset_stream(self, ErrorCode.NO_ERROR)
        if head.status == 0:
            self.end_well(head)
            return
        if head.status is None:
            self.finish(StatusCode.UNKNOWN, "the server ended without a status", head.metadata)
            return
        metadata = head.metadata
        if any(key in NOTES for key, _ in metadata):
            metadata = self._take_notes(metadata)
        self.finish(status_of_number(head.status), head.message, metadata)

    def _take_notes(self, metadata: Pairs) -> Pairs:
        """Take out what a server of this package adds to the metadata of a refusal."""
        notes = dict(metadata)
        self.never_processed = UNPROCESSED_KEY in notes
        if SIZE_KEY in notes:
            self.request_too_large = True
            self.size_octets = int(notes[SIZE_KEY])
        if LIMIT_KEY in notes:
            self.limit_octets = int(notes[LIMIT_KEY])
        return tuple(pair for pair in metadata if pair[0] not in NOTES)

    def end_well(self, head: ResponseHead) -> None:
        """The server has ended the call with OK."""
        self.finish(StatusCode.OK, head.message, head.metadata)

    def on_end(self) -> None:
        """The server has ended its half without trailers."""
        self._fail(StatusCode.INTERNAL, "the server ended without a status")

    def on_reset(self, code: int) -> None:
        """The server has ended the stream."""
        # Who has begun to answer has begun to work, whatever it says then.
        self.never_processed = code == ErrorCode.REFUSED_STREAM and self.head is None
        details = f"the server reset the stream: {error_name(code)}"
        status = status_of_reset(code)
        if status is StatusCode.CANCELLED and self.time_remaining() == 0:
            # The server's clock has reached the deadline first.
            status = StatusCode.DEADLINE_EXCEEDED
        self.finish(status, details)

    def on_fault(self, fault: StreamFault) -> None:
        """The server broke a rule."""
        self.finish(StatusCode.INTERNAL, str(fault))

    def on_lost(self, text: str, *, never_processed: bool) -> None:
        """The connection is gone."""
        self.never_processed = never_processed and self.head is None
        self.finish(StatusCode.UNAVAILABLE, text)

    def on_refused(self, refusal: MessageRefused) -> None:
        """The server sent a message that we do not take."""
        self.size_octets = refusal.size_octets
        self.limit_octets = refusal.limit_octets
        code = StatusCode.RESOURCE_EXHAUSTED if refusal.is_exhausted else StatusCode.INTERNAL
        self._fail(code, f"CLIENT: {refusal.text}")

    def on_long_head(self, refusal: HeaderListTooLong) -> None:
        """The server sent more metadata than we take."""
        self.limit_octets = refusal.octets_max
        details = f"received metadata size exceeds the limit: {refusal}"
        self.finish(StatusCode.RESOURCE_EXHAUSTED, details)

    def _fail(self, code: StatusCode, details: str) -> None:
        self.connection.reset_stream(self, ErrorCode.CANCEL)
        self.finish(code, details)

    # Messages.

    def plain(self, message: bytes | bytearray, *, compressed: bool) -> bytes | bytearray | None:
        """A message of the response, decompressed; None if the call has failed by it."""
        if not compressed:
            return message
        encoding = self.head.encoding if self.head is not None else "identity"
        try:
            return decompress(message, encoding, self.connection.message_octets_max)
        except DecompressedTooLong:
            limit = self.connection.message_octets_max
            self.on_refused(too_long(limit + 1, limit))
        except ValueError as error:
            self._fail(StatusCode.INTERNAL, str(error))
        return None

    def serialize(self, request: Any) -> bytes:
        """A request as octets, within the limit.

        Raises:
            CallFailed: It is too long; the call has ended.
            TypeError: The serializer gave no octets, or there is none.
        """
        serializer = self.method.serializer
        message = request if serializer is None else serializer(request)
        if type(message) is not bytes:
            message = checked_message(message)
        limit = self.channel.options.send_octets_max
        if 0 <= limit < len(message):
            self.request_too_large = True
            self.size_octets, self.limit_octets = len(message), limit
            details = f"CLIENT: Sent message larger than max ({len(message)} vs. {limit})"
            self.give_up(StatusCode.RESOURCE_EXHAUSTED, details)
            raise self.error()
        return message if self.compression == "identity" else compress(message, self.compression)

    # Waiting.

    async def until_done(self) -> None:
        """Wait for the end."""
        if self.code_ is None:
            # A future of its own: a caller that is cancelled cancels the future that it awaits.
            over: asyncio.Future[None] = self.channel.loop.create_future()
            self.add_done_callback(lambda _: None if over.done() else over.set_result(None))
            await over

    async def until_head(self) -> None:
        """Wait for the response's head, or the end."""
        if self.head is None and self.code_ is None:
            if self._headed is None:
                self._headed = self.channel.loop.create_future()
            await asyncio.shield(self._headed)

    # What the caller asks for.

    def done(self) -> bool:
        """Whether the call is over."""
        return self.code_ is not None

    def cancelled(self) -> bool:
        """Whether the call ended as cancelled, by whichever side."""
        return self.code_ is StatusCode.CANCELLED

    def cancel(self) -> bool:
        """End the call; False if it is over."""
        if self.code_ is not None:
            return False
        self.is_cancelled = True
        self.give_up(StatusCode.CANCELLED, LOCALLY_CANCELLED)
        return True

    def time_remaining(self) -> float | None:
        """Seconds until the deadline; None without one."""
        if self.deadline_s is None:
            return None
        return max(0.0, self.deadline_s - self.channel.loop.time())

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Call back when the call is over, at once if it is."""
        if self.code_ is not None:
            callback(self)
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    async def initial_metadata(self) -> Metadata:
        """The metadata of the response's head."""
        await self.until_head()
        return Metadata(*(self.head.metadata if self.head is not None else ()))

    async def trailing_metadata(self) -> Metadata:
        """The metadata of the trailers."""
        await self.until_done()
        return Metadata(*self.trailing)

    async def code(self) -> grpc.StatusCode:
        """The status."""
        await self.until_done()
        assert self.code_ is not None  # noqa: S101 - for the type checker: that is what was awaited.
        return self.code_

    async def details(self) -> str:
        """The text of the status."""
        await self.until_done()
        return self.details_

    async def debug_error_string(self) -> str:
        """The status in one line."""
        await self.until_done()
        return f"{self.code_}: {self.details_}"

    def error(self) -> BaseException:
        """What to raise for a call that did not end well."""
        return asyncio.CancelledError() if self.is_cancelled else self.failure()

    def failure(self) -> CallFailed:
        """The status as an error."""
        code = self.code_ or StatusCode.UNKNOWN
        return CallFailed(
            code,
            Metadata(*(self.head.metadata if self.head is not None else ())),
            Metadata(*self.trailing),
            self.details_,
            f"{self.method.path} at {self.channel.target}: {code.name}: {self.details_}",
            never_processed=self.never_processed,
            request_too_large=self.request_too_large,
            size_octets=self.size_octets,
            limit_octets=self.limit_octets,
        )

    def __repr__(self) -> str:
        state = "in work" if self.code_ is None else f"{self.code_.name} {self.details_!r}"
        return f"<{type(self).__name__} {self.method.path}: {state}>"
