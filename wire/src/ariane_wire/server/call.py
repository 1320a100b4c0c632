"""A call as the server sees it: what comes, and what is answered."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import grpc
from grpc import StatusCode

from ariane_wire.protocol.assembly import MessageRefused, too_long
from ariane_wire.protocol.compression import DecompressedTooLong, compress, decompress
from ariane_wire.protocol.faults import StreamFault
from ariane_wire.protocol.frames import PREFIX_OCTETS, ErrorCode
from ariane_wire.protocol.headers.heads import RequestHead
from ariane_wire.protocol.headers.metadata import (
    LIMIT_KEY,
    SIZE_KEY,
    UNPROCESSED_KEY,
    Pairs,
    metadata_octets,
)
from ariane_wire.protocol.reading import VAIN_WORK
from ariane_wire.protocol.sending import SMALL_OCTETS
from ariane_wire.protocol.stream import Stream
from ariane_wire.server import replies
from ariane_wire.transport.callbacks import call_back

if TYPE_CHECKING:
    from ariane_wire.server.connection import ServerConnection
    from ariane_wire.server.server import Server
    from ariane_wire.transport.deadlines import Expiring


class ServerCall(Stream):
    """One call."""

    connection: ServerConnection
    handler: grpc.RpcMethodHandler[Any, Any] | None = None
    """What answers it; None while that is not known."""
    task: asyncio.Task[None] | None = None
    """What runs for it, once that has waited; None before."""
    deadline_s: float | None = None
    is_cancelled = False
    is_answered = False
    is_started = False
    ends_when_sent = False
    _code: StatusCode | None = None
    _details = ""
    _initial: Pairs = ()
    _trailing: Pairs = ()
    _is_head_sent = False
    _encoding = "identity"
    _skips_compression = False
    _message: bytes | bytearray | None = None
    _messages: deque[bytes | bytearray] | None = None
    _reader: asyncio.Future[None] | None = None
    _callbacks: list[Callable[[Any], None]] | None = None
    expiry: dict[Expiring, None] | None = None

    def __init__(self, server: Server, head: RequestHead) -> None:
        self.server = server
        self.head = head

    # What comes.

    def on_message(self, message: bytes | bytearray, *, compressed: bool) -> None:
        """A request has come."""
        if compressed:
            plain = self._plain(message)
            if plain is None:
                return
            message = plain
        handler = self.handler
        if handler is not None and not handler.request_streaming:
            if self._message is not None:
                self.refuse(StatusCode.INTERNAL, "more than one request of a single one")
            else:
                self._message = message
                if not self.is_remote_closed:
                    # Nobody reads it until the client ends its half, which may be never.
                    self.hold(len(message))
            return
        if self._messages is None:
            self._messages = deque()
        self._messages.append(message)
        if self._reader is None:
            self.hold(len(message))
        else:
            self._wake()

    def on_end(self) -> None:
        """The client has sent all its requests."""
        if self._reader is not None:
            self._wake()
        if not self.is_started:
            if self._message is None:
                self.refuse(StatusCode.INTERNAL, "the client sent no request")
            else:
                self.server.run(self)  # type: ignore[arg-type]  # Each is a context, too.

    def on_refused(self, refusal: MessageRefused) -> None:
        """The client sent a message that is not taken."""
        trailing: Pairs = ()
        if refusal.size_octets is not None:
            trailing = (
                (SIZE_KEY, str(refusal.size_octets)),
                (LIMIT_KEY, str(refusal.limit_octets)),
            )
        code = StatusCode.RESOURCE_EXHAUSTED if refusal.is_exhausted else StatusCode.INTERNAL
        self.refuse(code, f"SERVER: {refusal.text}", trailing)

    def _plain(self, message: bytes | bytearray) -> bytes | None:
        limit = self.connection.message_octets_max
        try:
            return decompress(message, self.head.encoding, limit)
        except DecompressedTooLong:
            self.on_refused(too_long(limit + 1, limit))
        except ValueError as error:
            self.refuse(StatusCode.UNIMPLEMENTED, str(error))
        return None

    def on_reset(self, code: int) -> None:
        """The client has given the call up."""
        del code
        self._go()

    def on_fault(self, fault: StreamFault) -> None:
        """The client broke a rule."""
        del fault
        self._go()

    def on_lost(self, text: str, *, never_processed: bool) -> None:
        """The connection is gone."""
        del text, never_processed
        self._go()

    def expire(self) -> None:
        """The deadline has passed."""
        self.expiry = None
        if not self.is_gone:
            self.is_cancelled = True
            self._cancel_handler()
            self.refuse(StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")

    def abort_call(self) -> None:
        """The server ends the call."""
        if not self.is_gone:
            self.is_cancelled = True
            self._cancel_handler()
            self.refuse(StatusCode.UNAVAILABLE, "the server is stopping")

    def _go(self) -> None:
        """The call is gone without an answer, or before its last octets have left."""
        if not self.is_answered:
            self.is_cancelled = True
            self._cancel_handler()
        self._complete()

    def _cancel_handler(self) -> None:
        self._wake()
        if self.task is not None:
            self.task.cancel()

    def _wake(self) -> None:
        reader = self._reader
        if reader is not None:
            self._reader = None
            if not reader.done():
                reader.set_result(None)

    def _complete(self) -> None:
        """Nothing of the call is left to be done by the transport."""
        self.server.forget(self)
        if self.expiry is not None:
            self.expiry.pop(self, None)
            self.expiry = None
        if self._callbacks is not None:
            callbacks, self._callbacks = self._callbacks, None
            call_back(callbacks, self)

    # Answers.

    def refuse(self, code: StatusCode, details: str, trailing: Pairs = ()) -> None:
        """End the call with a status, without its handler."""
        self.connection.work += VAIN_WORK
        if not self.is_started and code is StatusCode.RESOURCE_EXHAUSTED:
            # Other codes tell by themselves that nothing was done.
            trailing = (*trailing, (UNPROCESSED_KEY, "1"))
        elif self.task is not None and not self.is_answered:
            self.is_cancelled = True
            self._cancel_handler()
        self.end(code, details, trailing)

    def answer(self, message: bytes) -> None:
        """Send the only response, and OK."""
        connection = self.connection
        if self.is_gone:
            return
        octets = len(message) + PREFIX_OCTETS
        limit = self.server.options.send_octets_max
        if 0 <= limit < len(message):
            self._too_long_to_send(len(message), limit)
            return
        if (
            octets <= self.send_window
            and octets <= connection.send_window
            and octets <= connection.whole_max
            and not self._is_head_sent
            and not self._initial
            and not self._trailing
            and not self._details
            and self._code is None
            and (octets <= SMALL_OCTETS or not connection.ready)
            and not connection.first
            and not connection.paused
            and not connection.lead
            and self._encoding == "identity"
            and self.is_remote_closed
        ):
            connection.send_window -= octets
            connection.octets_sent += octets
            connection.out += replies.whole(self.stream_id, message)
            self._finished()
            connection.carrier.wake()
            return
        self._send_head()
        self._send(message)
        self.end(self._code or StatusCode.OK, self._details, self._trailing)

    def end(self, code: StatusCode, details: str, trailing: Pairs) -> None:
        """Send the status: the call is answered."""
        if self.is_gone or self.is_answered or (trailing and self._is_beyond_client(trailing)):
            return
        self.is_answered = True
        self._code, self._details = code, details
        connection = self.connection
        try:
            block = replies.trailers_block(code, details, trailing)
        except Exception as error:  # noqa: BLE001 - whatever a handler has set: it is answered.
            block = replies.trailers_block(StatusCode.INTERNAL, str(error), ())
        if not self._is_head_sent:
            self._is_head_sent = True
            if self._initial:
                connection.send_block(
                    self.stream_id,
                    connection.block_with_lead(replies.head_block(self._initial, "identity")),
                    0,
                )
            else:
                block = replies.trailers_only(block)
        self.ends_when_sent = True
        self.send_trailers(connection.block_with_lead(block))
        connection.carrier.wake()

    def on_all_sent(self) -> None:
        """All that waited is in ``out``: the last of it ends the call."""
        super().on_all_sent()
        if self.ends_when_sent and not self.is_gone and self.is_local_closed:
            self._finished()

    def _finished(self) -> None:
        self.is_answered = True
        connection = self.connection
        if connection.allowance.resets:
            connection.allowance.forgive()
        if self.is_remote_closed:
            connection.close_stream(self)
        else:
            # What the client still wants to send, nobody reads.
            connection.reset_stream(self, ErrorCode.NO_ERROR)
        if self._callbacks is None:
            self._complete()
        else:
            connection.after.append(self._complete)

    def compress_by(self, encoding: str) -> None:
        """Compress responses by an encoding, if the client takes it."""
        self._encoding = encoding if encoding in self.head.accepted else "identity"

    def _send_head(self) -> None:
        if not self._is_head_sent:
            self._is_head_sent = True
            connection = self.connection
            block = replies.head_block(self._initial, self._encoding)
            connection.send_block(self.stream_id, connection.block_with_lead(block), 0)

    def _send(self, message: bytes) -> None:
        if self._encoding == "identity" or self._skips_compression:
            self._skips_compression = False
            self.send_message(message)
        else:
            self.send_message(compress(message, self._encoding), compressed=True)

    def _is_beyond_client(self, metadata: Pairs) -> bool:
        """Whether the client takes no such metadata: then the call has ended.

        It would end the call, or the connection with all calls.
        """
        limit = self.connection.peer.header_octets_max
        try:
            octets = metadata_octets(metadata)
        except TypeError:
            return False  # They cannot be sent at all; that error comes later.
        if octets <= limit:
            return False
        details = f"SERVER: metadata size exceeds the client's limit ({octets} vs. {limit})"
        self.end(StatusCode.RESOURCE_EXHAUSTED, details, ())
        return True

    def _too_long_to_send(self, octets: int, limit: int) -> None:
        details = f"SERVER: Sent message larger than max ({octets} vs. {limit})"
        self.end(StatusCode.RESOURCE_EXHAUSTED, details, ())

    # The requests, as the handler reads them.

    @property
    def set_status(self) -> StatusCode | None:
        """The status that the handler has set."""
        return self._code

    @property
    def is_failing(self) -> bool:
        """Whether the handler has set a status other than OK."""
        return self._code is not None and self._code is not StatusCode.OK

    def take_single(self) -> bytes | bytearray | None:
        """The request of a call that has one; None if it has yet to be read."""
        message, self._message = self._message, None
        if self.unread:
            self.release(self.unread)
        return message

    async def next_request(self) -> bytes | bytearray | None:
        """The next request; None after the last one.

        Raises:
            asyncio.CancelledError: The call is gone.
        """
        while not self._messages:
            if self.is_gone or self.is_cancelled:
                raise asyncio.CancelledError
            if self.is_remote_closed:
                return None
            if self._reader is None:
                self._reader = self.server.loop.create_future()
            await self._reader
        message = self._messages.popleft()
        if self.unread:
            self.release(min(len(message), self.unread))
        return message

    def _decoded(self, message: bytes | bytearray) -> Any:
        handler = self.handler
        deserializer = handler.request_deserializer if handler is not None else None
        return message if deserializer is None else deserializer(message)  # type: ignore[arg-type]

    async def requests(self) -> AsyncIterator[Any]:
        """The requests, one by one."""
        while (message := await self.next_request()) is not None:
            yield self._decoded(message)
            del message  # Not kept while the next one is awaited.
