"""The streams of a connection: what they may send, how they end, and how all of them end."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final

from ariane_wire.protocol import frames
from ariane_wire.protocol.assembly import MemoryLedger
from ariane_wire.protocol.faults import ConnectionFault, StreamFault
from ariane_wire.protocol.frames import ErrorCode
from ariane_wire.protocol.reading import VAIN_WORK, FrameReader
from ariane_wire.protocol.stream import Stream

if TYPE_CHECKING:
    from ariane_wire.options import ConnectionOptions

NO_LIMIT: Final = 1 << 62
LATE_STREAMS_MAX: Final = 256
"""How many streams that we ended early are remembered: what still comes for them is no fault."""


class StreamKeeper(FrameReader):
    """A connection as far as its streams go."""

    def __init__(
        self, options: ConnectionOptions, ledger: MemoryLedger, *, streams_max: int
    ) -> None:
        super().__init__(options.frame_octets_max, streams_max)
        self.options: ConnectionOptions = options
        self.ledger = ledger
        self.stream_window = options.stream_window_octets
        self.message_octets_max = (
            NO_LIMIT if options.receive_octets_max < 0 else options.receive_octets_max
        )
        self._window = options.connection_window_octets
        self.grant_at = self._window >> 1
        self.unread = 0
        self.goaway_sent: int | None = None
        """The last stream that we still take, once we have sent it."""
        self.goaway_received: int | None = None
        """The last stream that the peer takes, once it has sent it."""
        self.ended = ""
        """Why there is no connection any more; empty while there is."""
        self.fault: ConnectionFault | None = None
        """What the peer did to have the connection ended."""
        self._farewell = ""
        self.streams_begun = 0
        self._late: dict[int, None] = {}

    # Windows.

    def grant_connection(self) -> None:
        """Open the connection's window by what has come, read or not.

        A stream that nobody reads stands by its own window; it does not stop the others.
        """
        if self.taken > self._window:
            raise ConnectionFault(
                ErrorCode.FLOW_CONTROL_ERROR, "more DATA than the connection's window"
            )
        self.out.append(frames.window_frame(0, self.taken))
        self.taken = 0
        self.carrier.wake()

    def hold(self, octets: int) -> None:
        """A message waits to be read."""
        self.unread += octets
        self.ledger.add(octets)

    def release(self, octets: int) -> None:
        """A message was read, or never will be."""
        self.unread -= octets
        self.ledger.add(-octets)

    # Streams.

    def close_stream(self, stream: Stream) -> None:
        """A stream has ended at both ends: nothing of it is kept."""
        if stream.is_gone:
            return
        stream.is_gone = True
        if stream.pending_octets or stream.assembly is not None or stream.sent_waiter is not None:
            stream.drop_pending()
        if stream.unread:
            octets, stream.unread = stream.unread, 0
            self.release(octets)
        self.streams.pop(stream.stream_id, None)
        self.stream_closed()

    def reset_stream(self, stream: Stream, code: int) -> None:
        """End a stream at once, and tell the peer."""
        if stream.is_gone:
            return
        self.out.append(frames.reset_frame(stream.stream_id, code))
        self._remember_late(stream.stream_id)
        self.close_stream(stream)
        self.carrier.wake()

    def stream_closed(self) -> None:
        """A stream has ended; the last one of a connection that goes away ends it."""
        if self.goaway_sent is None and self.goaway_received is None:
            return
        if not self.streams and not self.is_over:
            self.end("the connection was drained")

    def _remember_late(self, stream_id: int) -> None:
        self._late[stream_id] = None
        if len(self._late) > LATE_STREAMS_MAX:
            del self._late[next(iter(self._late))]

    def stream_for_data(self, stream_id: int) -> Stream | None:
        """The stream that a DATA frame is for."""
        stream = self.streams.get(stream_id)
        if stream is None:
            if stream_id in self._late:
                return None
            if not stream_id or self.is_idle(stream_id):
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"DATA for stream {stream_id}")
            raise StreamFault(stream_id, ErrorCode.STREAM_CLOSED, "DATA after the end")
        if stream.is_remote_closed:
            raise StreamFault(stream_id, ErrorCode.STREAM_CLOSED, "DATA after the end")
        return stream

    @abstractmethod
    def is_idle(self, stream_id: int) -> bool:
        """Whether a stream has never been opened."""

    # The end.

    def refuse(self, fault: StreamFault) -> None:
        """End a stream whose peer broke a rule."""
        self.allowance.fault()
        self.work += VAIN_WORK
        stream = self.streams.get(fault.stream_id)
        self.out.append(frames.reset_frame(fault.stream_id, fault.code))
        self._remember_late(fault.stream_id)
        if stream is not None:
            self.close_stream(stream)
            stream.on_fault(fault)

    def fail(self, fault: ConnectionFault) -> None:
        """End the connection, whose peer broke a rule."""
        self.fault = fault
        self.end(str(fault), fault.code)

    def end(self, text: str, code: ErrorCode = ErrorCode.NO_ERROR) -> None:
        """End the connection; streams that are open are lost."""
        if self.is_over:
            return
        self.is_over = True
        self.ended = text
        last = self.last_stream_taken()
        self.out.append(frames.goaway_frame(last, code, text.encode()[:200]))
        self.carrier.end(text)
        self.lose(text)

    def last_stream_taken(self) -> int:
        """The last stream of the peer that we have taken."""
        return 0

    def lose(self, text: str) -> None:
        """The transport is gone: every stream is lost, and nothing is sent any more."""
        self.is_over = True
        self.ended = self.ended or self._farewell or text
        for stream in list(self.streams.values()):
            self.close_stream(stream)
            stream.on_lost(self.ended, never_processed=False)
        self.first.clear()
        self.ready.clear()
