"""HTTP/2 by hand, for peers that keep no rule: frames as octets, and octets as frames.

Independent of what is under test: what it sends wrongly on both ends is seen here.
"""

from __future__ import annotations

import asyncio
import enum
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from hpack import Decoder, Encoder

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_BYTES = 9


class Kind(enum.IntEnum):
    """Types of frames."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITY_FLAG = 0x20

HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS = 1, 2, 3
INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = 4, 5, 6

NO_ERROR, PROTOCOL_ERROR, REFUSED_STREAM, CANCEL = 0, 1, 7, 8
ENHANCE_YOUR_CALM = 11


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as it was read. ``kind`` is a number where the type is unknown."""

    kind: int
    flags: int
    stream: int
    payload: bytes

    def __repr__(self) -> str:
        name = Kind(self.kind).name if self.kind in set(Kind) else str(self.kind)
        return f"{name}(flags={self.flags:#x}, stream={self.stream}, {len(self.payload)} octets)"


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    """A frame whose length is right."""
    return frame_head(len(payload), kind, flags, stream) + payload


def frame_head(length: int, kind: int, flags: int = 0, stream: int = 0) -> bytes:
    """The nine octets before a payload, which may promise another length."""
    return struct.pack(">I", length)[1:] + struct.pack(">BBI", kind, flags, stream)


def settings(*pairs: tuple[int, int]) -> bytes:
    """A SETTINGS frame."""
    return frame(Kind.SETTINGS, payload=b"".join(struct.pack(">HI", *pair) for pair in pairs))


SETTINGS_ACK = frame(Kind.SETTINGS, ACK)


def window_update(stream: int, octets: int) -> bytes:
    """A WINDOW_UPDATE frame."""
    return frame(Kind.WINDOW_UPDATE, 0, stream, struct.pack(">I", octets))


def rst_stream(stream: int, code: int = CANCEL) -> bytes:
    """An RST_STREAM frame."""
    return frame(Kind.RST_STREAM, 0, stream, struct.pack(">I", code))


def message(payload: bytes, *, compressed: bool = False, length: int | None = None) -> bytes:
    """A gRPC message with its head, which may promise another length."""
    size = len(payload) if length is None else length
    return struct.pack(">BI", compressed, size) + payload


def request_fields(path: str, *more: tuple[str, str]) -> list[tuple[str, str]]:
    """The header fields of a call."""
    return [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        *more,
    ]


def block(fields: Iterable[tuple[str, str]]) -> bytes:
    """A header block that leaves the dynamic table of the peer as it is."""
    encoder = Encoder()
    encoder.header_table_size = 0
    return encoder.encode(list(fields))


def call_head(stream: int, path: str, *more: tuple[str, str], flags: int = 0) -> bytes:
    """The HEADERS of a call, in one frame."""
    return frame(Kind.HEADERS, END_HEADERS | flags, stream, block(request_fields(path, *more)))


def whole_call(stream: int, path: str, payload: bytes = b"") -> bytes:
    """A unary call: HEADERS and DATA, and the end."""
    return call_head(stream, path) + frame(Kind.DATA, END_STREAM, stream, message(payload))


class FrameBuffer:
    """Cuts octets into frames."""

    def __init__(self) -> None:
        self._octets = bytearray()

    @property
    def rest(self) -> bytes:
        """What is no whole frame yet."""
        return bytes(self._octets)

    def feed(self, octets: bytes) -> Iterator[Frame]:
        """Take octets as they come; the frames that are whole now."""
        self._octets += octets
        while len(self._octets) >= HEAD_BYTES:
            length = int.from_bytes(self._octets[:3], "big")
            if len(self._octets) < HEAD_BYTES + length:
                return
            _, kind, flags, stream = struct.unpack(">4sBBI", b"\0" + self._octets[:HEAD_BYTES])
            payload = bytes(self._octets[HEAD_BYTES : HEAD_BYTES + length])
            del self._octets[: HEAD_BYTES + length]
            yield Frame(kind, flags, stream & 0x7FFFFFFF, payload)


class RawPeer(asyncio.Protocol):
    """A connection on which anything may be said. Answers nothing by itself."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = FrameBuffer()
        self._preface_left = 0
        self._news = asyncio.Event()
        self.frames: list[Frame] = []
        """All that the other end has sent."""
        self.decoder = Decoder()
        """Of its header blocks."""
        self.is_lost = False
        """Whether there is no connection any more."""
        self.was_reset = False
        """Whether it ended so that frames may have been lost."""

    @classmethod
    async def connect(cls, address: str) -> RawPeer:
        """Connect, saying nothing yet."""
        host, port = address.rsplit(":", 1)
        loop = asyncio.get_running_loop()
        _, peer = await loop.create_connection(cls, host, int(port))
        return peer

    @classmethod
    async def introduced(cls, address: str, *pairs: tuple[int, int]) -> RawPeer:
        """Connect and do the handshake to its end."""
        peer = await cls.connect(address)
        peer.write(PREFACE + settings(*pairs))
        await peer.until(lambda each: each.kind == Kind.SETTINGS and not each.flags & ACK)
        peer.write(SETTINGS_ACK)
        return peer

    @classmethod
    def of_server(cls) -> RawPeer:
        """The server's end: the client's preface is passed over."""
        peer = cls()
        peer._preface_left = len(PREFACE)
        return peer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        passed = min(self._preface_left, len(data))
        self._preface_left -= passed
        self.frames += self._buffer.feed(data[passed:])
        self._news.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self.was_reset = exc is not None
        self._news.set()

    def write(self, octets: bytes) -> None:
        """Say something, at once."""
        assert self._transport is not None
        if not self.is_lost:
            self._transport.write(octets)

    def stop_reading(self) -> None:
        """Leave what the other end sends to the kernel."""
        assert self._transport is not None
        self._transport.pause_reading()

    async def until(self, is_it: Callable[[Frame], bool]) -> Frame | None:
        """The first frame of this kind, whenever it came; None if the connection ends before."""
        seen = 0
        while True:
            for each in self.frames[seen:]:
                if is_it(each):
                    return each
            seen = len(self.frames)
            if self.is_lost:
                return None
            self._news.clear()
            await self._news.wait()

    async def until_lost(self) -> None:
        """Wait for the end."""
        await self.until(lambda _: False)

    def fields(self, head: Frame) -> dict[str, str]:
        """The header fields of a HEADERS frame without padding or priority."""
        return {str(name): str(value) for name, value in self.decoder.decode(head.payload)}

    async def close(self) -> None:
        """End the connection."""
        assert self._transport is not None
        self._transport.abort()
        while not self.is_lost:
            self._news.clear()
            await self._news.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
