"""The server's end of a connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from ariane_wire.protocol import settings
from ariane_wire.protocol.assembly import MemoryLedger, MemoryShare
from ariane_wire.protocol.connection import Connection
from ariane_wire.protocol.faults import ConnectionFault, StreamFault
from ariane_wire.protocol.frames import (
    PREFACE,
    STREAM_ID_MAX,
    ErrorCode,
    goaway_frame,
    ping_frame,
    reset_frame,
)
from ariane_wire.protocol.headers.header_blocks import BlockMemory, HeaderListTooLong
from ariane_wire.protocol.headers.header_fields import TABLE_OFF
from ariane_wire.protocol.headers.heads import RequestHead
from ariane_wire.protocol.stream import Stream
from ariane_wire.server import replies

if TYPE_CHECKING:
    from ariane_wire.options import ServerOptions
    from ariane_wire.server.call import ServerCall

DRAIN_PING: Final = b"drain-?\0"

_TEXT: Final = b"Here is gRPC: POST, and a content-type that begins with application/grpc.\n"

_QUIET_PING_INTERVAL_S: Final = 7200.0
"""How often a client without calls may ping, unless that is permitted; as every gRPC has it."""


class ServerConnection(Connection[RequestHead]):
    """The server's end."""

    is_server = True
    options: ServerOptions
    share: MemoryShare
    """What its host holds; the server says so once it has let the connection in."""
    peer_name = ""
    """The address of the client, as ``Identity.peer``."""

    def __init__(
        self,
        options: ServerOptions,
        requests: BlockMemory[RequestHead],
        ledger: MemoryLedger,
        begin: Callable[[ServerConnection, int, RequestHead], ServerCall],
        clock: Callable[[], float],
    ) -> None:
        super().__init__(options, requests, ledger, streams_max=options.streams_max)
        self.last_id = 0
        """The last stream that the client has opened."""
        self.lead = TABLE_OFF
        """Comes before the first header block."""
        self._begin = begin
        self.clock = clock
        """The clock of the loop, in seconds."""
        self._greeting = b""
        self._is_greeted = False
        self._pinged_at = -1e9
        self._seen_at_ping = (0, 0)
        self._strikes = 0
        self._is_draining = False
        self.out.append(self.hello({settings.MAX_CONCURRENT_STREAMS: options.streams_max}))

    def receive(self, octets: bytes | memoryview) -> None:
        """Take what the client sent; its first octets say that it speaks HTTP/2."""
        if self._is_greeted:
            super().receive(octets)
            return
        greeting = self._greeting + octets
        if greeting[: len(PREFACE)] != PREFACE[: len(greeting)]:
            self.fail(ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the client speaks no HTTP/2"))
        elif len(greeting) < len(PREFACE):
            self._greeting = greeting
        else:
            self._greeting = b""
            self._is_greeted = True
            super().receive(greeting[len(PREFACE) :])

    def block_with_lead(self, block: bytes) -> bytes:
        """A header block of ours, the first one with what comes before."""
        if self.lead:
            block = self.lead + block
            self.lead = b""
        return block

    def is_idle(self, stream_id: int) -> bool:
        """Whether a stream has never been opened."""
        return stream_id > self.last_id or not stream_id & 1

    def last_stream_taken(self) -> int:
        """The last stream of the client that we have taken."""
        return self.last_id

    def check_head_place(self, stream_id: int) -> None:
        """Check that a stream may be opened."""
        if stream_id in self.streams:
            return
        if not stream_id & 1:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"a client's stream {stream_id}")
        if stream_id <= self.last_id:
            if stream_id not in self._late:
                raise ConnectionFault(ErrorCode.STREAM_CLOSED, f"HEADERS for stream {stream_id}")
            return
        self.last_id = stream_id

    def on_head(self, stream_id: int, head: RequestHead, *, ends: bool) -> None:
        """A call begins, or ends its requests."""
        if stream_id <= self.last_id or not stream_id & 1:
            self._more_head(stream_id, head, ends=ends)
            return
        self.last_id = stream_id
        self.work += 1
        self.streams_begun += 1
        if head.is_trailers:
            raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR, "a request without a path")
        if self.goaway_sent is not None:
            return
        if len(self.streams) >= self.options.streams_max:
            self.out.append(reset_frame(stream_id, ErrorCode.REFUSED_STREAM))
            self._remember_late(stream_id)
            return
        request: ServerCall | ForeignRequest
        if head.http_status != 200 and not head.fault:
            request = self.streams[stream_id] = ForeignRequest(self, stream_id, head)
        else:
            request = self._begin(self, stream_id, head)
        if ends and not request.is_gone:
            request.receive_end()

    def _more_head(self, stream_id: int, head: RequestHead, *, ends: bool) -> None:
        self.check_head_place(stream_id)
        stream = self.streams.get(stream_id)
        if stream is None:
            return
        if stream.is_remote_closed:
            raise StreamFault(stream_id, ErrorCode.STREAM_CLOSED, "HEADERS after the end")
        if not ends or not head.is_trailers:
            raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR, "a second head")
        stream.receive_end()

    def on_long_head(self, stream_id: int, refusal: HeaderListTooLong, *, ends: bool) -> None:
        """A call has too much metadata."""
        self.check_head_place(stream_id)
        stream = self.streams.get(stream_id)
        if stream is not None:
            raise StreamFault(stream_id, ErrorCode.ENHANCE_YOUR_CALM, str(refusal))
        self.work += 1
        self.streams_begun += 1
        if self.goaway_sent is None:
            head = RequestHead(
                fault=f"received metadata size exceeds the limit: {refusal}",
                limit_octets=refusal.octets_max,
            )
            call = self._begin(self, stream_id, head)
            if ends and not call.is_gone:
                call.receive_end()

    def on_ping(self) -> None:
        """The client has asked whether we live."""
        now = self.clock()
        seen = (self.octets_sent, self.streams_begun)
        if seen != self._seen_at_ping:
            self._strikes = 0
            self._seen_at_ping = seen
        else:
            interval_s = self.options.ping_interval_min_s
            if not self.streams and not self.options.keepalive_without_calls:
                interval_s = _QUIET_PING_INTERVAL_S
            if now - self._pinged_at < interval_s:
                self._strikes += 1
                if self._strikes > self.options.ping_strikes_max:
                    raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too_many_pings")
        self._pinged_at = now

    def on_ping_answer(self, payload: bytes) -> None:
        """The client has seen that we drain: what it sends from now on, it knew."""
        if payload == DRAIN_PING:
            self.drain_now()

    def drain(self) -> None:
        """Tell the client to open no more streams; take those that it has opened meanwhile."""
        if not self._is_draining and not self.is_over:
            self._is_draining = True
            self.out += (goaway_frame(STREAM_ID_MAX, ErrorCode.NO_ERROR), ping_frame(DRAIN_PING))
            self.carrier.wake()

    def drain_now(self) -> None:
        """Take no more streams; end when the last one has."""
        if self._is_draining and self.goaway_sent is None and not self.is_over:
            self.goaway_sent = self.last_id
            self.out.append(goaway_frame(self.last_id, ErrorCode.NO_ERROR))
            self.carrier.wake()
            self.stream_closed()

    def abort_calls(self) -> None:
        """Cancel all calls."""
        for stream in list(self.streams.values()):
            cast("ServerCall | ForeignRequest", stream).abort_call()


class ForeignRequest(Stream):
    """A request that asks for no call. Its body is counted, and not kept.

    It is answered when it is whole: then whoever has sent it knows that it was read, and frames
    that come later are faults.
    """

    connection: ServerConnection

    def __init__(self, connection: ServerConnection, stream_id: int, head: RequestHead) -> None:
        self.attach(connection, stream_id)
        self.whole_max = -1
        self.length_left = head.content_length
        self._http_status = head.http_status

    def receive(self, octets: bytes | memoryview, at: int, stop: int) -> None:
        """Pass over a piece of the body."""
        del octets
        self.count(stop - at)

    def on_end(self) -> None:
        """Answer."""
        connection = self.connection
        block = connection.block_with_lead(replies.http_head(self._http_status, len(_TEXT)))
        connection.send_block(self.stream_id, block, 0)
        self.send_last(_TEXT)
        connection.carrier.wake()

    def on_all_sent(self) -> None:
        """The answer is in ``out``."""
        super().on_all_sent()
        if self.is_local_closed and not self.is_gone:
            self.connection.close_stream(self)

    def on_reset(self, code: int) -> None:
        """The client has lost interest."""

    def on_fault(self, fault: StreamFault) -> None:
        """The client broke a rule."""

    def on_lost(self, text: str, *, never_processed: bool) -> None:
        """The connection is gone."""

    def abort_call(self) -> None:
        """The server stops."""
        self.connection.reset_stream(self, ErrorCode.CANCEL)
