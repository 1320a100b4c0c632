"""The client's end of a connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from ariane_wire.protocol import settings
from ariane_wire.protocol.assembly import MemoryLedger
from ariane_wire.protocol.connection import Connection
from ariane_wire.protocol.faults import ConnectionFault
from ariane_wire.protocol.frames import HEAD, HEADERS, PREFACE, STREAM_ID_MAX, ErrorCode
from ariane_wire.protocol.headers.header_blocks import BlockMemory, HeaderListTooLong
from ariane_wire.protocol.headers.header_fields import TABLE_OFF
from ariane_wire.protocol.headers.heads import ResponseHead

if TYPE_CHECKING:
    from ariane_wire.client.call import ClientCall
    from ariane_wire.options import ChannelOptions


def _ignore(_connection: ClientConnection) -> None:
    """Nobody wants to know."""


class ClientConnection(Connection[ResponseHead]):
    """The client's end."""

    is_server = False

    def __init__(
        self,
        options: ChannelOptions,
        responses: BlockMemory[ResponseHead],
        ledger: MemoryLedger,
    ) -> None:
        super().__init__(options, responses, ledger)
        self.on_change: Callable[[ClientConnection], None] = _ignore
        """Called when the connection stands, takes more streams, or takes no more."""
        self._next_id = 1
        self._lead = TABLE_OFF
        self.is_full = False
        self._is_retired = False
        self.out.append(PREFACE + self.hello({settings.ENABLE_PUSH: 0}))

    @property
    def takes_calls(self) -> bool:
        """Whether a stream may be opened now."""
        return (
            self.settings_seen
            and not self.is_over
            and self.goaway_received is None
            and not self._is_retired
            and self._next_id < STREAM_ID_MAX
        )

    def retire(self) -> None:
        """Open no more streams; end when the last one has."""
        self._is_retired = True
        self.on_change(self)
        if not self.streams and not self.is_over:
            self.end("the certificate of the server has ended")

    def has_room(self) -> bool:
        """Whether the peer takes one more stream now; if not, ``on_change`` tells when."""
        if len(self.streams) < self.peer.streams_max:
            return True
        self.is_full = True
        return False

    def open(self, call: ClientCall, block: bytes) -> None:
        """Make a call a stream, and send its head."""
        stream_id = self._next_id
        self._next_id = stream_id + 2
        call.attach(self, stream_id)
        self.streams[stream_id] = call
        self.streams_begun += 1
        if self._lead:
            block = self._lead + block
            self._lead = b""
        if len(block) <= 16_384:
            self.out += (HEAD.pack(len(block) << 8 | HEADERS, 4, stream_id), block)
        else:
            self.send_block(stream_id, block, 0)
        if self._next_id >= STREAM_ID_MAX:
            self.on_change(self)

    def is_idle(self, stream_id: int) -> bool:
        """Whether a stream has never been opened."""
        return stream_id >= self._next_id or not stream_id & 1

    def check_head_place(self, stream_id: int) -> None:
        """Check that a header block may come for a stream."""
        if self.is_idle(stream_id):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"HEADERS for stream {stream_id}")

    def on_head(self, stream_id: int, head: ResponseHead, *, ends: bool) -> None:
        """A response begins or ends."""
        stream = self.streams.get(stream_id)
        if stream is None:
            self.check_head_place(stream_id)
            return
        stream.on_head(head, ends=ends)  # type: ignore[attr-defined]  # A call of ours.

    def on_long_head(self, stream_id: int, refusal: HeaderListTooLong, *, ends: bool) -> None:
        """A response has too much metadata."""
        del ends
        self.check_head_place(stream_id)
        stream = self.streams.get(stream_id)
        if stream is not None:
            self.reset_stream(stream, ErrorCode.CANCEL)
            cast("ClientCall", stream).on_long_head(refusal)

    def on_ready(self) -> None:
        """The connection stands."""
        self.on_change(self)

    def on_settings(self) -> None:
        """More streams may be taken now."""
        if self.is_full:
            self.on_change(self)

    def on_goaway(self, last: int, code: int, text: str) -> None:
        """The peer takes no streams beyond the last one."""
        del code
        for stream in [each for key, each in self.streams.items() if key > last]:
            self.close_stream(stream)
            stream.on_lost(f"the server goes away: {text}", never_processed=True)
        self.on_change(self)

    def on_ping_answer(self, payload: bytes) -> None:
        """The server lives."""
        del payload

    def stream_closed(self) -> None:
        """A stream has ended: there may be room for a call that waits."""
        if self.is_full:
            self.is_full = False
            self.on_change(self)
        if self._is_retired and not self.streams and not self.is_over:
            self.end("the certificate of the server has ended")
        elif self.goaway_received is not None:
            super().stream_closed()
