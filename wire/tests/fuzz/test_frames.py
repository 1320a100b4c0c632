"""Random frames, right and wrong, to both ends."""

from __future__ import annotations

import random

import pytest
import raw_frames as raw
from attacks import ATTACKS, COLLECT, ECHO, GUSH, HANG
from fuzzed_ends import pieces_of, play_client, play_server
from hypothesis import given
from hypothesis import strategies as st
from raw_frames import END_HEADERS, END_STREAM, PREFACE, Kind, frame

streams = st.sampled_from([0, 1, 1, 1, 3, 5, 2, 7, 101, (1 << 31) - 1])
flags = st.sampled_from([0, 0, END_STREAM, END_HEADERS, END_STREAM | END_HEADERS, 0x8, 0x20, 0xFF])
numbers = st.sampled_from([0, 1, 5, 255, 16_384, 65_535, 1 << 20, (1 << 31) - 1, (1 << 32) - 1])
pairs = st.lists(st.tuples(st.integers(0, 9), numbers), max_size=4)
methods = st.sampled_from([ECHO, COLLECT, GUSH, HANG, "/", "", "/hostile.Probe/None"])
extra = st.lists(
    st.sampled_from(
        [
            ("grpc-timeout", "1S"),
            ("grpc-timeout", "soon"),
            ("grpc-encoding", "gzip"),
            ("content-length", "7"),
            ("x-bin", "a"),
            ("x-y-bin", "AAA,BBBB"),
            (":path", "/again"),
            ("Upper", "case"),
            ("connection", "close"),
            ("grpc-status", "0"),
            ("grpc-message", "%zz"),
            ("x-long", "l" * 20_000),
        ]
    ),
    max_size=3,
)
responses = st.sampled_from(
    [
        [(":status", "200"), ("content-type", "application/grpc")],
        [(":status", "200"), ("content-type", "text/html")],
        [(":status", "503")],
        [(":status", "100")],
        [("grpc-status", "0")],
        [("grpc-status", "99"), ("grpc-message", "%F0%9F")],
        [(":status", "200"), ("content-type", "application/grpc"), ("grpc-status", "5")],
    ]
)
messages = st.builds(
    lambda octets, compressed, length: raw.message(octets, compressed=compressed, length=length),
    st.binary(max_size=30),
    st.booleans(),
    st.sampled_from([None, None, 0, 5, 40, 1 << 22, (1 << 32) - 1]),
)


def numbered(kind: Kind) -> st.SearchStrategy[bytes]:
    """Frames whose payload is a number or two."""
    return st.builds(
        lambda stream, number: frame(kind, 0, stream, number.to_bytes(4, "big")), streams, numbers
    )


frames = st.one_of(
    st.builds(
        lambda stream, flag, method, more: frame(
            Kind.HEADERS, flag, stream, raw.block([*raw.request_fields(method), *more])
        ),
        streams,
        flags,
        methods,
        extra,
    ),
    st.builds(
        lambda stream, flag, fields: frame(Kind.HEADERS, flag, stream, raw.block(fields)),
        streams,
        flags,
        responses,
    ),
    st.builds(lambda *parts: frame(Kind.DATA, *parts), flags, streams, messages),
    st.builds(lambda each: raw.settings(*each), pairs),
    st.just(raw.SETTINGS_ACK),
    numbered(Kind.RST_STREAM),
    numbered(Kind.WINDOW_UPDATE),
    numbered(Kind.PRIORITY),
    st.builds(lambda payload: frame(Kind.PING, 0, 0, payload), st.binary(min_size=8, max_size=8)),
    st.builds(lambda last: frame(Kind.GOAWAY, 0, 0, last.to_bytes(4, "big") + bytes(4)), numbers),
    st.builds(frame, st.integers(0, 12), flags, streams, st.binary(max_size=60)),
    st.builds(
        raw.frame_head, st.sampled_from([0, 3, 16_385, (1 << 24) - 1]), st.integers(0, 9), flags
    ),
    st.binary(max_size=20),
)
talks = st.lists(frames, max_size=12).map(b"".join)
sizes = st.sampled_from([0, 0, 1, 7, 9, 64])


@given(talks, sizes, st.booleans())
def test_no_octets_break_a_server(octets, size, is_polite):
    greeting = PREFACE + raw.settings() if is_polite else PREFACE
    play_server(pieces_of(greeting + octets, size))


@given(talks, sizes, st.booleans())
def test_no_octets_break_a_client(octets, size, is_polite):
    results = play_client(pieces_of((raw.settings() if is_polite else b"") + octets, size))
    assert len(results) == 2


@given(st.binary(max_size=300), sizes)
def test_no_garbage_breaks_either_end(octets, size):
    play_server(pieces_of(octets, size))
    play_client(pieces_of(octets, size))


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_with_one_octet_wrong_break_nothing(name):
    attack = ATTACKS[name]
    chance = random.Random(name)
    good = PREFACE + raw.settings(*attack.settings) + attack.opening
    good += b"".join(attack.unit(number) for number in range(3))
    for _ in range(10):
        wrong = bytearray(good)
        wrong[chance.randrange(len(PREFACE), len(wrong))] = chance.randrange(256)
        play_server(pieces_of(bytes(wrong), 0))
