"""Requests that are HTTP's, and not gRPC's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ariane_wire.protocol.faults import StreamFault
from ariane_wire.protocol.frames import ErrorCode
from ariane_wire.protocol.heads import RequestHead
from ariane_wire.protocol.stream import Stream
from ariane_wire.server import replies

if TYPE_CHECKING:
    from ariane_wire.server.connection import ServerConnection

_TEXT: Final = b"Here is gRPC: POST, and a content-type that begins with application/grpc.\n"


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
