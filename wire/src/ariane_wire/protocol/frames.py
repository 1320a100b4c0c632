"""Frames of HTTP/2 (RFC 9113), as octets.

Every frame begins with nine octets::

    0        3      4       5                9
    | length | type | flags | R | stream id  | payload ...
      24 bit   8      8       1   31 bit

and the payload of a DATA frame of gRPC is cut out of messages, each of which begins with five::

    0            1                5
    | compressed | message length | message ...
      8 bit        32 bit
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Any, Final

DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

KIND_NAMES: Final = (
    *("DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS", "PUSH_PROMISE"),
    *("PING", "GOAWAY", "WINDOW_UPDATE", "CONTINUATION"),
)

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
WITH_PRIORITY: Final = 0x20

HEAD_OCTETS: Final = 9
PREFIX_OCTETS: Final = 5

STREAM_ID_MAX: Final = (1 << 31) - 1
WINDOW_MAX: Final = (1 << 31) - 1
WINDOW_DEFAULT: Final = 65_535
FRAME_OCTETS_MIN: Final = 16_384
"""Every peer takes frames of this size."""
FRAME_OCTETS_LIMIT: Final = (1 << 24) - 1

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What every client says first."""

HEAD: Final = Struct(">IBI")
"""Length and type in one number, flags, stream id."""
HEAD_AND_PREFIX: Final = Struct(">IBIBI")
"""The head of a DATA frame that begins with a message's prefix."""
PREFIX: Final = Struct(">BI")
_SHORT: Final = Struct(">IBII")
_GOAWAY: Final = Struct(">IBIII")
_SETTING: Final = Struct(">HI")


class ErrorCode(IntEnum):
    """Why a stream or connection ends."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


def error_name(code: int) -> str:
    """The name of an error code, or its number if the standard has none."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def checked_message(message: Any) -> bytes:
    """Return a message that can be sent: ``bytes``, or what shows its octets as they do.

    Raises:
        TypeError: It is something else. It must not get among the frames of other calls.
    """
    if isinstance(message, bytes | bytearray | memoryview):
        return message  # type: ignore[return-value]  # They are sent alike.
    raise TypeError(f"a message is bytes, and not {type(message).__name__}: it was not serialized")


def headers_frames(stream_id: int, block: bytes, frame_octets_max: int, flags: int) -> bytes:
    """A header block as one HEADERS frame, and CONTINUATION frames where it does not fit."""
    if len(block) <= frame_octets_max:
        return HEAD.pack(len(block) << 8 | HEADERS, flags | END_HEADERS, stream_id) + block
    pieces = [block[at : at + frame_octets_max] for at in range(0, len(block), frame_octets_max)]
    frames = [HEAD.pack(len(pieces[0]) << 8 | HEADERS, flags, stream_id), pieces[0]]
    for piece in pieces[1:]:
        last = END_HEADERS if piece is pieces[-1] else 0
        frames += (HEAD.pack(len(piece) << 8 | CONTINUATION, last, stream_id), piece)
    return b"".join(frames)


def reset_frame(stream_id: int, code: int) -> bytes:
    """RST_STREAM: one stream ends at once."""
    return _SHORT.pack(4 << 8 | RST_STREAM, 0, stream_id, code)


def window_frame(stream_id: int, octets: int) -> bytes:
    """WINDOW_UPDATE: the peer may send more; stream 0 is the connection."""
    return _SHORT.pack(4 << 8 | WINDOW_UPDATE, 0, stream_id, octets)


def ping_frame(payload: bytes, *, ack: bool = False) -> bytes:
    """PING with eight octets, or its answer."""
    return HEAD.pack(8 << 8 | PING, ACK if ack else 0, 0) + payload


def goaway_frame(last_stream_id: int, code: int, text: bytes = b"") -> bytes:
    """GOAWAY: streams beyond the last one were not and will not be processed."""
    return _GOAWAY.pack((8 + len(text)) << 8 | GOAWAY, 0, 0, last_stream_id, code) + text


def settings_frame(settings: dict[int, int]) -> bytes:
    """SETTINGS, by number."""
    pairs = b"".join(_SETTING.pack(*pair) for pair in settings.items())
    return HEAD.pack(len(pairs) << 8 | SETTINGS, 0, 0) + pairs


SETTINGS_ACK: Final = HEAD.pack(SETTINGS, ACK, 0)


def parse_settings(payload: bytes) -> list[tuple[int, int]]:
    """The pairs of a SETTINGS frame whose length is a multiple of six."""
    return list(_SETTING.iter_unpack(payload))
