"""The frames of a connection that both ends take: which may come when, and what they do."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic

from ariane_wire.protocol import frames, settings
from ariane_wire.protocol.allowance import CONTINUATIONS_MAX
from ariane_wire.protocol.assembly import MemoryLedger
from ariane_wire.protocol.faults import ConnectionFault, StreamFault
from ariane_wire.protocol.frames import WINDOW_MAX, ErrorCode, error_name
from ariane_wire.protocol.headers.header_blocks import (
    BlockMemory,
    BlockReader,
    Head,
    HeaderListTooLong,
)
from ariane_wire.protocol.reading import VAIN_WORK
from ariane_wire.protocol.sending import PIECE_OCTETS
from ariane_wire.protocol.stream import Stream
from ariane_wire.protocol.streams import StreamKeeper

if TYPE_CHECKING:
    from ariane_wire.options import ConnectionOptions

_BLOCK_FACTOR: Final = 4
_BLOCK_OCTETS_MIN: Final = 128 << 10
"""A block may have so many times the octets of the fields that we take, and so many at least: a
call with too much metadata fails alone. What is longer ends the connection."""

_TOO_LONG_WORK: Final = 64
"""A call that is refused for its fields has cost a look at as many as we take."""

_FIELDS_FREE: Final = 16
_FIELDS_PER_WORK: Final = 4
"""To read so many fields beyond the usual ones costs about as much as to begin a call."""


class Connection(StreamKeeper, Generic[Head]):
    """One end of a connection."""

    is_server: bool

    def __init__(
        self,
        options: ConnectionOptions,
        memory: BlockMemory[Head],
        ledger: MemoryLedger,
        *,
        streams_max: int = 0,
    ) -> None:
        super().__init__(options, ledger, streams_max=streams_max)
        self.blocks = BlockReader(memory, options.metadata_octets_max)
        self._header_octets_max = options.metadata_octets_max
        self.payload_octets_max = max(
            _BLOCK_OCTETS_MIN, _BLOCK_FACTOR * options.metadata_octets_max
        )
        self.settings_seen = False
        """Whether the peer's first SETTINGS have come."""
        self._pieces: list[bytes] = []
        self._block_flags = 0
        self._block_octets = 0

    def hello(self, own: dict[int, int]) -> bytes:
        """Our first frames: SETTINGS, and the connection's window."""
        values = {
            settings.HEADER_TABLE_SIZE: 0,
            settings.INITIAL_WINDOW_SIZE: self.stream_window,
            settings.MAX_FRAME_SIZE: self._frame_octets_max,
            settings.MAX_HEADER_LIST_SIZE: self._header_octets_max,
            **own,
        }
        window = frames.window_frame(0, self._window - frames.WINDOW_DEFAULT)
        return frames.settings_frame(values) + window

    # Frames.

    @abstractmethod
    def on_head(self, stream_id: int, head: Head, *, ends: bool) -> None:
        """A header block has come."""

    @abstractmethod
    def on_long_head(self, stream_id: int, refusal: HeaderListTooLong, *, ends: bool) -> None:
        """A header block has come whose fields are too many."""

    def on_frame(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        """A whole frame that is not plain DATA."""
        if self._block_of and (kind != frames.CONTINUATION or stream_id != self._block_of):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a frame inside of a header block")
        if not self.settings_seen and kind != frames.SETTINGS:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS")
        if kind < len(_TAKERS):
            _TAKERS[kind](self, flags, stream_id, payload)
        else:
            self.spend("unknown ones")

    def _push(self, flags: int, stream_id: int, payload: bytes) -> None:
        del flags, stream_id, payload
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE, which nobody may send")

    def empty_data(self) -> None:
        """A DATA frame without octets has come."""
        if not self._left_ends:
            self.spend("empty DATA")

    def _padded_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        self.take_octets(len(payload))
        stream = self.stream_for_data(stream_id)
        if stream is not None:
            stream.take(len(payload))
        plain = _unpadded(flags, payload)
        if not plain and not flags & frames.END_STREAM:
            self.spend("empty DATA")
        self.receive_padded(stream, plain, ends=bool(flags & frames.END_STREAM))

    def _headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        if not stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "HEADERS for stream 0")
        if flags & (frames.PADDED | frames.WITH_PRIORITY):
            payload = _unpadded(flags, payload)
            if flags & frames.WITH_PRIORITY:
                if len(payload) < 5:
                    raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "HEADERS without priority")
                _check_priority(stream_id, payload)
                payload = payload[5:]
        if flags & frames.END_HEADERS:
            self._block(flags, stream_id, payload)
            return
        self._block_of = stream_id
        self._block_flags = flags
        self._block_octets = len(payload)
        self._pieces = [payload]

    def _continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        if not self._block_of:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "CONTINUATION without HEADERS")
        self._pieces.append(payload)
        self._block_octets += len(payload)
        if len(self._pieces) > CONTINUATIONS_MAX:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many CONTINUATION frames")
        if self._block_octets > self.payload_octets_max:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too long a header block")
        if flags & frames.END_HEADERS:
            block = b"".join(self._pieces)
            self._pieces = []
            self._block_of = 0
            self._block(self._block_flags, stream_id, block)

    def _block(self, flags: int, stream_id: int, block: bytes) -> None:
        ends = bool(flags & frames.END_STREAM)
        head: Head | None = self.heads.get(block)
        if head is None:
            self.work += len(block) >> 8
            try:
                head = self.blocks.read(block)
            except HeaderListTooLong as refusal:
                self.work += _TOO_LONG_WORK
                self.on_long_head(stream_id, refusal, ends=ends)
                return
            except StreamFault as fault:
                self.check_head_place(stream_id)
                raise StreamFault(stream_id, fault.code, fault.text) from None
            more = self.blocks.fields_read - _FIELDS_FREE
            if more > 0:
                self.work += more // _FIELDS_PER_WORK
            self.heads = self.blocks.heads
        self.on_head(stream_id, head, ends=ends)

    @abstractmethod
    def check_head_place(self, stream_id: int) -> None:
        """Check that a header block may come for a stream; note that it was used.

        Raises:
            ConnectionFault: It may not.
        """

    def _priority(self, flags: int, stream_id: int, payload: bytes) -> None:
        del flags
        self.spend("PRIORITY")
        if not stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PRIORITY for stream 0")
        if len(payload) != 5:
            raise StreamFault(stream_id, ErrorCode.FRAME_SIZE_ERROR, "PRIORITY is not 5 octets")
        _check_priority(stream_id, payload)

    def _reset(self, flags: int, stream_id: int, payload: bytes) -> None:
        del flags
        if len(payload) != 4:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "RST_STREAM is not 4 octets")
        if not stream_id or self.is_idle(stream_id):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"RST_STREAM for stream {stream_id}")
        stream = self.streams.get(stream_id)
        if stream is None:
            self.spend("RST_STREAM of ended streams")
            return
        if self.is_server:
            self.allowance.reset()
            self.work += VAIN_WORK
        self.close_stream(stream)
        stream.on_reset(int.from_bytes(payload, "big"))

    def _settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "SETTINGS for a stream")
        if flags & frames.ACK:
            if payload:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS acknowledged with more")
            self.spend("SETTINGS")
            self.blocks.peer_has_our_settings()
            return
        if len(payload) % 6:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS are not pairs of 6 octets")
        self.spend("SETTINGS", 1 + len(payload) // 60)
        before = self.peer.window
        self.peer.apply(frames.parse_settings(payload))
        self.whole_max = min(self.peer.frame_octets_max, PIECE_OCTETS)
        change = self.peer.window - before
        if change:
            for stream in self.streams.values():
                self._widen(stream, change)
        self.out.append(frames.SETTINGS_ACK)
        if not self.settings_seen:
            self.settings_seen = True
            self.on_ready()
        self.on_settings()

    def on_ready(self) -> None:
        """The peer's first SETTINGS have come."""

    def on_settings(self) -> None:
        """The peer's settings have changed."""

    def _ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PING for a stream")
        if len(payload) != 8:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "PING is not 8 octets")
        if flags & frames.ACK:
            self.on_ping_answer(payload)
            return
        self.spend("PING")
        self.on_ping()
        self.out.append(frames.ping_frame(payload, ack=True))

    def on_ping(self) -> None:
        """The peer has asked whether we live.

        Raises:
            ConnectionFault: It asks too often.
        """

    def on_ping_answer(self, payload: bytes) -> None:
        """The peer has answered a ping."""

    def _goaway(self, flags: int, stream_id: int, payload: bytes) -> None:
        del flags
        if stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "GOAWAY for a stream")
        if len(payload) < 8:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "GOAWAY is not 8 octets")
        self.spend("GOAWAY")
        last = int.from_bytes(payload[:4], "big") & 0x7FFFFFFF
        code = int.from_bytes(payload[4:8], "big")
        text = payload[8:208].decode(errors="replace")
        self.goaway_received = last
        if code:
            self._farewell = f"{error_name(code)} {text}".strip()
        self.on_goaway(last, code, f"{error_name(code)} {text}".strip())
        self.stream_closed()

    def on_goaway(self, last: int, code: int, text: str) -> None:
        """The peer takes no streams beyond the last one."""

    def _window_update(self, flags: int, stream_id: int, payload: bytes) -> None:
        del flags
        if len(payload) != 4:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "WINDOW_UPDATE is not 4 octets")
        self.spend("WINDOW_UPDATE")
        octets = int.from_bytes(payload, "big") & 0x7FFFFFFF
        if not stream_id:
            if not octets:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a window that opens by 0")
            self.send_window += octets
            if self.send_window > WINDOW_MAX:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a window beyond 2^31 - 1")
            return
        stream = self.streams.get(stream_id)
        if stream is None:
            if self.is_idle(stream_id):
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"window of stream {stream_id}")
            return
        if not octets:
            raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR, "a window that opens by 0")
        if stream.send_window + octets > WINDOW_MAX:
            raise StreamFault(stream_id, ErrorCode.FLOW_CONTROL_ERROR, "a window beyond 2^31 - 1")
        self._widen(stream, octets)

    def _widen(self, stream: Stream, octets: int) -> None:
        stream.send_window += octets
        if stream.send_window > WINDOW_MAX:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a window beyond 2^31 - 1")
        if stream.pending_octets and stream.send_window > 0:
            self.enqueue(stream)

    def spend(self, what: str, count: int = 1) -> None:
        """Take note of frames that bring no call forward.

        Raises:
            ConnectionFault: There were too many.
        """
        octets = self.octets_received + self.octets_sent
        self.allowance.spend(what, count, calls=self.streams_begun, octets=octets)


def _unpadded(flags: int, payload: bytes) -> bytes:
    if not flags & frames.PADDED:
        return payload
    padding = payload[0] if payload else 0
    if not payload or padding >= len(payload):
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "padding longer than its frame")
    return payload[1 : len(payload) - padding]


def _check_priority(stream_id: int, payload: bytes) -> None:
    if int.from_bytes(payload[:4], "big") & 0x7FFFFFFF == stream_id:
        raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR, "a stream that depends on itself")


_TAKERS: Final[tuple[Callable[[Connection[Any], int, int, bytes], None], ...]] = (
    Connection._padded_data,  # noqa: SLF001 - the table of the class above, by type of frame.
    Connection._headers,  # noqa: SLF001
    Connection._priority,  # noqa: SLF001
    Connection._reset,  # noqa: SLF001
    Connection._settings,  # noqa: SLF001
    Connection._push,  # noqa: SLF001
    Connection._ping,  # noqa: SLF001
    Connection._goaway,  # noqa: SLF001
    Connection._window_update,  # noqa: SLF001
    Connection._continuation,  # noqa: SLF001
)
