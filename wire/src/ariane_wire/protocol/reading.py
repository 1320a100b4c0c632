"""Cutting octets into frames.

The one loop that runs for every frame. It takes DATA frames that are just one whole message by
itself, and hands all others to the connection. A DATA frame is handed on as it comes; of any other,
what has come is kept until it is whole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from struct import Struct
from typing import Any, Final

from ariane_wire.protocol.allowance import Allowance
from ariane_wire.protocol.faults import ConnectionFault, StreamFault
from ariane_wire.protocol.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEAD,
    HEAD_OCTETS,
    HEADERS,
    PADDED,
    PREFIX_OCTETS,
    ErrorCode,
)
from ariane_wire.protocol.sending import FrameSender
from ariane_wire.protocol.stream import Stream

WORK_MAX: Final = 128
"""Calls that are begun in one turn, before other connections have theirs; an uncommon header block
of 256 octets counts like a call."""

VAIN_WORK: Final = 4
"""A call that is refused or given up costs more than one that is answered, and brings nobody
forward: it counts like so many more."""

_WHOLE_HEAD: Final = END_STREAM | END_HEADERS
_LENGTH: Final = Struct(">I")
_HTTP_1: Final = b"HTTP/1"


class FrameReader(FrameSender, ABC):
    """The receiving half of a connection, below its rules."""

    payload_octets_max: int
    """The longest frame that is taken and is not DATA."""

    def __init__(self, frame_octets_max: int, streams_max: int) -> None:
        super().__init__()
        self.streams: dict[int, Stream] = {}
        """Open streams, by id."""
        self.heads: dict[bytes, Any] = {}
        """What header blocks were parsed to, as far as that is remembered."""
        self.work = 0
        """What this turn has cost so far; see ``WORK_MAX``."""
        self.taken = 0
        """Octets of DATA that came since we last opened the connection's window."""
        self.grant_at = 0
        """When ``taken`` has come so far, the window is looked at."""
        self.is_over = False
        """Whether nothing more is read."""
        self.allowance = Allowance(streams_max)
        self.octets_received = 0
        self._frame_octets_max = frame_octets_max
        self._rest: bytes | bytearray = b""
        """What has come and is not taken yet."""
        self._needed = 0
        """How much of it makes a whole frame; 0 where there are some."""
        self._left = 0
        """Octets of a DATA frame that have yet to come."""
        self._left_stream: Stream | None = None
        self._left_ends = False
        self._block_of = 0
        """The stream whose header block has yet to be completed by CONTINUATION; 0 for none."""

    def receive(self, octets: bytes | memoryview) -> None:
        """Take what the peer sent. The octets may change once this returns.

        If ``has_more_work`` afterwards, others have their turn before ``receive(b"")``.
        """
        if self.is_over:
            return
        self.octets_received += len(octets)
        self.work = 0
        if self.allowance.resets:
            self.allowance.forgive()
        if self._rest:
            if self._needed:
                self._rest += octets
                if len(self._rest) < self._needed:
                    return
                octets = bytes(self._rest)
            else:
                octets = bytes(self._rest) + octets
            self._rest = b""
        try:
            self._cut(octets)
            if self.paused:
                self.allowance.unread(len(self.out))
        except ConnectionFault as fault:
            self.fail(fault)

    @property
    def has_more_work(self) -> bool:
        """Whether frames are left that were too much for one turn."""
        return self.work >= WORK_MAX and bool(self._rest) and not self.is_over

    def _cut(self, octets: bytes | memoryview) -> None:  # noqa: C901, PLR0912, PLR0915 - one loop: no calls.
        end = len(octets)
        at = self._go_on(octets, end) if self._left else 0
        streams = self.streams
        unpack = HEAD.unpack_from
        while end - at >= HEAD_OCTETS:
            word, flags, stream_id = unpack(octets, at)
            length = word >> 8
            stop = at + HEAD_OCTETS + length
            kind = word & 255
            if kind == DATA and not self._block_of:
                stream = streams.get(stream_id)
                if (
                    stream is not None
                    and stop <= end
                    and flags <= END_STREAM
                    and length >= PREFIX_OCTETS
                    and length - PREFIX_OCTETS <= stream.whole_max
                    and not octets[at + 9]
                    and _LENGTH.unpack_from(octets, at + 10)[0] == length - PREFIX_OCTETS
                    and length <= self._frame_octets_max
                    and not stream.is_remote_closed
                ):
                    self.taken += length
                    if self.taken >= self.grant_at:
                        self.grant_connection()
                    stream.taken += length
                    if flags:
                        stream.is_remote_closed = True
                        stream.on_message(bytes(octets[at + 14 : stop]), compressed=False)
                        if not stream.is_gone:
                            stream.on_end()
                    else:
                        stream.on_message(bytes(octets[at + 14 : stop]), compressed=False)
                        if stream.taken >= stream.grant_at:
                            self._grant_stream(stream)
                    at = stop
                    continue
            elif kind == HEADERS and stop <= end and flags | END_STREAM == _WHOLE_HEAD:
                # A block that is remembered; there is none before the peer's SETTINGS.
                head = self.heads.get(bytes(octets[at + HEAD_OCTETS : stop]))
                if head is not None and not self._block_of and stream_id:
                    self._take_head(stream_id & 0x7FFFFFFF, head, ends=flags == _WHOLE_HEAD)
                    at = stop
                    if self.is_over:
                        return
                    if self.work >= WORK_MAX:
                        break
                    continue
            if length > self._frame_octets_max:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, _wrong(octets, at, length))
            if kind != DATA and length > self.payload_octets_max:
                raise ConnectionFault(
                    ErrorCode.ENHANCE_YOUR_CALM, f"a frame of {length} octets that is no DATA"
                )
            if kind == DATA and not flags & PADDED:
                self._begin_data(stream_id & 0x7FFFFFFF, length, bool(flags & END_STREAM))
                at = self._go_on(octets, end, at + HEAD_OCTETS)
            elif stop <= end:
                payload = bytes(octets[at + HEAD_OCTETS : stop])
                self._take_frame(kind, flags, stream_id & 0x7FFFFFFF, payload)
                at = stop
            else:
                break
            if self.is_over:
                return
            if self.work >= WORK_MAX:
                break
        if at < end:
            self._keep(octets[at:])

    def _keep(self, octets: bytes | memoryview) -> None:
        """Keep what has come for later: the beginning of a frame, or more than this turn takes."""
        self._needed = HEAD_OCTETS
        if len(octets) >= HEAD_OCTETS:
            self._needed += HEAD.unpack_from(octets)[0] >> 8
        if len(octets) < self._needed:
            self._rest = bytearray(octets)
        else:
            self._needed = 0
            self._rest = bytes(octets)

    def _begin_data(self, stream_id: int, length: int, ends: bool) -> None:
        """Take note of a DATA frame whose payload may not be here yet."""
        if self._block_of:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "DATA inside of a header block")
        self.take_octets(length)
        self._left = length
        self._left_ends = ends
        self._left_stream = None
        try:
            stream = self.stream_for_data(stream_id)
            if stream is not None:
                self._left_stream = stream
                stream.take(length)
        except StreamFault as fault:
            self.refuse(fault)
            self._left_stream = None
        if not length:
            self.empty_data()

    def _go_on(self, octets: bytes | memoryview, end: int, at: int = 0) -> int:
        """Take what has come of a DATA frame; return where it ends."""
        stop = min(end, at + self._left)
        self._left -= stop - at
        stream = self._left_stream
        if stream is not None:
            if stream.is_gone:
                self._left_stream = None
            else:
                self._give(stream, octets, at, stop)
                # Not before: only now it is known what of the frame waits for its reader.
                if not self._left and stream.taken >= stream.grant_at:
                    self._grant_stream(stream)
            if not self._left:
                self._left_stream = None
        return stop

    def _give(self, stream: Stream, octets: bytes | memoryview, at: int, stop: int) -> None:
        try:
            if at < stop:
                stream.receive(octets, at, stop)
            if self._left_ends and not self._left:
                stream.receive_end()
        except StreamFault as fault:
            self.refuse(fault)

    def _grant_stream(self, stream: Stream) -> None:
        try:
            stream.grant()
        except StreamFault as fault:
            self.refuse(fault)

    def _take_frame(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        try:
            self.on_frame(kind, flags, stream_id, payload)
        except StreamFault as fault:
            self.refuse(fault)

    def _take_head(self, stream_id: int, head: Any, *, ends: bool) -> None:
        try:
            self.on_head(stream_id, head, ends=ends)
        except StreamFault as fault:
            self.refuse(fault)

    def take_octets(self, octets: int) -> None:
        """DATA of the connection has come, of whichever stream."""
        self.taken += octets
        if self.taken >= self.grant_at:
            self.grant_connection()

    def receive_padded(self, stream: Stream | None, payload: bytes, *, ends: bool) -> None:
        """Take a DATA frame that was padded; the padding is cut off."""
        if stream is None:
            return
        self._left_ends = ends
        self._give(stream, payload, 0, len(payload))
        if stream.taken >= stream.grant_at:
            self._grant_stream(stream)

    @abstractmethod
    def on_head(self, stream_id: int, head: Any, *, ends: bool) -> None:
        """A header block has come.

        Raises:
            ConnectionFault: It may not come there.
            StreamFault: It breaks a rule of its stream.
        """

    @abstractmethod
    def on_frame(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        """A whole frame that is not plain DATA.

        Raises:
            ConnectionFault: It breaks a rule of the connection.
            StreamFault: It breaks a rule of its stream.
        """

    @abstractmethod
    def stream_for_data(self, stream_id: int) -> Stream | None:
        """The stream that a DATA frame is for; None if it came too late to matter.

        Raises:
            ConnectionFault: There was never such a stream.
            StreamFault: Its sender has ended it.
        """

    @abstractmethod
    def grant_connection(self) -> None:
        """Open the connection's window by what was read.

        Raises:
            ConnectionFault: The peer sent more than the window.
        """

    @abstractmethod
    def empty_data(self) -> None:
        """A DATA frame without octets has come."""

    @abstractmethod
    def refuse(self, fault: StreamFault) -> None:
        """End a stream whose peer broke a rule."""

    @abstractmethod
    def fail(self, fault: ConnectionFault) -> None:
        """End the connection, whose peer broke a rule."""


def _wrong(octets: bytes | memoryview, at: int, length: int) -> str:
    """What a frame that is too long is."""
    if bytes(octets[at : at + len(_HTTP_1)]) == _HTTP_1:
        return "it answers in HTTP/1, and does not speak gRPC at this port"
    return f"a frame of {length} octets"
