"""What a hostile client may say: an opening, and then the same kind of thing again and again.

Each attack stands for a cost: the octets that one unit of it has are few, and what a careless
server does for them is much. How much ours does is counted in the tests, and how an honest client
fares meanwhile is measured in ``bench/wire/hostile.py``.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import raw_frames as raw
from raw_frames import END_HEADERS, END_STREAM, Kind, frame

ECHO = "/hostile.Probe/Echo"
"""A unary call that answers with its request."""
HANG = "/hostile.Probe/Hang"
"""A unary call whose handler waits until it is cancelled."""
COLLECT = "/hostile.Probe/Collect"
"""A call that reads any number of requests, and answers at their end."""
GUSH = "/hostile.Probe/Gush"
"""A call that answers with messages of 64 KiB without end."""

PRIORITY_PAYLOAD = struct.pack(">IB", 0, 15)


def stream_of(unit: int) -> int:
    """The stream that a unit opens."""
    return 2 * unit + 1


@dataclass(frozen=True, slots=True)
class Attack:
    """One way to be hostile."""

    unit: Callable[[int], bytes]
    """The octets of one unit, by number from 0."""
    ends_within: int | None
    """After how many units at most the server ends the connection; None where a unit only ends its
    own stream, or costs nothing worth a limit."""
    opening: bytes = b""
    """What is said first."""
    settings: tuple[tuple[int, int], ...] = ()
    """What the attacker's SETTINGS say."""
    reads: bool = True
    """Whether it reads what is answered."""
    introduces: bool = True
    """Whether it does the handshake."""
    per_s: int = 20_000
    """Units a second in the measurement."""


IDLE_FRAMES_MAX = 1_000
"""Frames that carry no call, beyond those that calls earn: after them a connection ends."""
SPARE = 300
"""What handshake, opening and octets earn on top, at most."""
CONTINUATIONS_MAX = 64
FAULTY_STREAMS_MAX = 100
STREAMS_MAX = 1_000
RESETS_MAX = STREAMS_MAX + 200


def always(octets: bytes) -> Callable[[int], bytes]:
    """The same unit each time."""
    return lambda _: octets


def rapid_reset(unit: int) -> bytes:
    """A call that is given up as soon as it is made."""
    stream = stream_of(unit)
    return raw.whole_call(stream, HANG) + raw.rst_stream(stream)


def faulty_stream(unit: int) -> bytes:
    """A call with a field that HTTP/2 forbids."""
    fields = [*raw.request_fields(ECHO), ("connection", "close")]
    return frame(Kind.HEADERS, END_HEADERS | END_STREAM, stream_of(unit), raw.block(fields))


def half_closed(unit: int) -> bytes:
    """A call whose client has nothing more to say, and whose handler waits."""
    return raw.whole_call(stream_of(unit), HANG)


def unfinished(unit: int) -> bytes:
    """A call whose only message never becomes whole."""
    stream = stream_of(unit)
    return raw.call_head(stream, ECHO) + frame(
        Kind.DATA, 0, stream, raw.message(b"x", length=1_000)
    )


def huge_field(unit: int) -> bytes:
    """A field of 15,000 octets and another: together more than is taken."""
    more = (("x-a", "a" * 9_000), ("x-b", "b" * 9_000))
    return raw.call_head(stream_of(unit), ECHO, *more, flags=END_STREAM)


def many_fields(unit: int) -> bytes:
    """Thousands of fields of one letter."""
    more = tuple((f"x-{number}", "") for number in range(2_000))
    fields = raw.block(raw.request_fields(ECHO, *more))
    return in_pieces(stream_of(unit), fields)


def in_pieces(stream: int, block: bytes, piece: int = 16_384) -> bytes:
    """A header block in HEADERS and CONTINUATION frames."""
    pieces = [block[at : at + piece] for at in range(0, len(block), piece)] or [b""]
    out = b""
    for number, each in enumerate(pieces):
        flags = END_HEADERS if number == len(pieces) - 1 else 0
        kind = Kind.CONTINUATION if number else Kind.HEADERS
        out += frame(kind, flags | (0 if number else END_STREAM), stream, each)
    return out


@cache
def table_bomb() -> bytes:
    """A field of 4,000 octets that enters the table, and 10,000 references to it of one octet."""
    name = b"x-bomb"
    value = b"z" * 3_900
    literal = b"\x40" + bytes([len(name)]) + name
    # 3,900 as an integer with a prefix of 7 bits: 127, then 3,773 in groups of 7.
    literal += bytes([127, (3_773 & 127) | 128, 3_773 >> 7]) + value
    return raw.block(raw.request_fields(ECHO)) + literal + b"\xbe" * 10_000


def table_bombs(unit: int) -> bytes:
    """One block that says 40 MB in 14,000 octets."""
    return in_pieces(stream_of(unit), table_bomb())


def size_updates(unit: int) -> bytes:
    """A block that only changes the size of the table, 10,000 times."""
    return in_pieces(stream_of(unit), b"\x20" * 10_000 + raw.block(raw.request_fields(ECHO)))


@cache
def bomb() -> bytes:
    """64 MiB of zeros, as gzip has them."""
    return gzip.compress(bytes(64 << 20), 9)


def compressed_bomb(unit: int) -> bytes:
    """A message that is a thousand times as large as its octets."""
    stream = stream_of(unit)
    octets = raw.message(bomb(), compressed=True)
    pieces = [octets[at : at + 16_384] for at in range(0, len(octets), 16_384)]
    out = raw.call_head(stream, ECHO, ("grpc-encoding", "gzip"))
    for number, piece in enumerate(pieces):
        out += frame(Kind.DATA, END_STREAM * (number == len(pieces) - 1), stream, piece)
    return out


def lying_message(unit: int) -> bytes:
    """A message that promises 4 GiB."""
    stream = stream_of(unit)
    return raw.call_head(stream, ECHO) + frame(
        Kind.DATA, 0, stream, raw.message(b"x", length=(1 << 32) - 1)
    )


def lying_content_length(unit: int) -> bytes:
    """A call with more octets than it has promised."""
    stream = stream_of(unit)
    return raw.call_head(stream, ECHO, ("content-length", "3")) + frame(
        Kind.DATA, END_STREAM, stream, raw.message(b"xyz")
    )


def trickle(unit: int) -> bytes:
    """An octet of a message that is never whole."""
    return frame(Kind.DATA, 0, 1, b"x" if unit else raw.message(b"", length=1 << 20))


def toggled_window(unit: int) -> bytes:
    """All windows opened, and closed again."""
    return raw.settings((raw.INITIAL_WINDOW_SIZE, 65_535 if unit % 2 else 0))


def unread_answer(unit: int) -> bytes:
    """A call of a method that is not there: it is answered at once."""
    return raw.whole_call(stream_of(unit), "/hostile.Probe/None")


def long_block(unit: int) -> bytes:
    """An octet of a HEADERS frame that says it has 2^20."""
    return b"x" if unit else raw.frame_head(1 << 20, Kind.HEADERS, END_HEADERS, 1)


OPEN_CALL = raw.call_head(1, COLLECT)
MANY_GUSHING = b"".join(raw.whole_call(stream_of(number), GUSH) for number in range(100))
IDLE_END = IDLE_FRAMES_MAX + SPARE

ATTACKS: dict[str, Attack] = {
    "rapid reset": Attack(rapid_reset, RESETS_MAX + SPARE, per_s=5_000),
    "PING flood": Attack(always(frame(Kind.PING, payload=bytes(8))), IDLE_END),
    "PING answers": Attack(always(frame(Kind.PING, raw.ACK, payload=bytes(8))), None),
    "SETTINGS flood": Attack(always(raw.settings()), IDLE_END),
    "SETTINGS answers": Attack(always(raw.SETTINGS_ACK), IDLE_END),
    "SETTINGS of many pairs": Attack(
        always(raw.settings(*[(raw.MAX_CONCURRENT_STREAMS, 7)] * 2_000)), 200, per_s=500
    ),
    "windows toggled": Attack(toggled_window, IDLE_END, opening=MANY_GUSHING, reads=False),
    "empty DATA flood": Attack(always(frame(Kind.DATA, 0, 1)), IDLE_END, opening=OPEN_CALL),
    "padded empty DATA flood": Attack(
        always(frame(Kind.DATA, raw.PADDED, 1, b"\x08" + bytes(8))), IDLE_END, opening=OPEN_CALL
    ),
    "PRIORITY flood": Attack(always(frame(Kind.PRIORITY, 0, 3, PRIORITY_PAYLOAD)), IDLE_END),
    "WINDOW_UPDATE flood": Attack(always(raw.window_update(0, 1)), IDLE_END),
    "WINDOW_UPDATE flood on a stream": Attack(
        always(raw.window_update(1, 1)), IDLE_END, opening=OPEN_CALL
    ),
    "windows opened octet by octet": Attack(
        always(raw.window_update(1, 1)),
        IDLE_END,
        opening=raw.whole_call(1, GUSH),
        settings=((raw.INITIAL_WINDOW_SIZE, 0),),
    ),
    "unknown frames": Attack(always(frame(99, 0xFF, 7, b"what?")), IDLE_END),
    "RST_STREAM of ended calls": Attack(
        always(raw.rst_stream(1)), IDLE_END, opening=raw.whole_call(1, ECHO)
    ),
    "GOAWAY flood": Attack(always(frame(Kind.GOAWAY, payload=bytes(8))), IDLE_END),
    "CONTINUATION flood": Attack(
        always(frame(Kind.CONTINUATION, 0, 1, b"\x00\x01a\x01b")),
        CONTINUATIONS_MAX + 1,
        opening=frame(Kind.HEADERS, 0, 1, raw.block(raw.request_fields(ECHO))),
    ),
    "empty CONTINUATION flood": Attack(
        always(frame(Kind.CONTINUATION, 0, 1)),
        CONTINUATIONS_MAX + 1,
        opening=frame(Kind.HEADERS, END_STREAM, 1, raw.block(raw.request_fields(ECHO))),
    ),
    "faulty streams": Attack(faulty_stream, FAULTY_STREAMS_MAX + 1, per_s=2_000),
    "half-closed flood": Attack(half_closed, None, per_s=5_000),
    "unfinished calls": Attack(unfinished, None, per_s=5_000),
    "huge fields": Attack(huge_field, None, per_s=500),
    "many fields": Attack(many_fields, None, per_s=500),
    "table bomb": Attack(table_bombs, None, per_s=500),
    "table size updates": Attack(size_updates, 1, per_s=500),
    "compressed bomb": Attack(compressed_bomb, None, per_s=10),
    "lying message lengths": Attack(lying_message, None, per_s=5_000),
    "lying content lengths": Attack(lying_content_length, FAULTY_STREAMS_MAX + 1, per_s=2_000),
    "lying frame length": Attack(
        always(raw.frame_head((1 << 24) - 1, Kind.DATA, 0, 1) + b"x"), 1, opening=OPEN_CALL
    ),
    "slow writer": Attack(trickle, None, opening=raw.call_head(1, ECHO), per_s=1_000),
    "slow reader": Attack(
        always(b""),
        None,
        opening=raw.window_update(0, (1 << 31) - 70_000) + MANY_GUSHING,
        settings=((raw.INITIAL_WINDOW_SIZE, (1 << 31) - 1),),
        reads=False,
        per_s=10,
    ),
    "answers that nobody reads": Attack(unread_answer, None, reads=False, per_s=20_000),
    "a header block octet by octet": Attack(long_block, 1, per_s=20_000),
    "window beyond its end": Attack(always(raw.window_update(0, (1 << 31) - 1)), 2),
    "a connection that says nothing": Attack(always(b""), None, introduces=False, per_s=10),
    "HTTP/1.1": Attack(
        always(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), 1, introduces=False, per_s=100
    ),
    "zeros": Attack(always(bytes(64)), 1, introduces=False),
}
