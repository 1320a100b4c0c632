"""Blocks that are like earlier ones; reading each whole is the oracle."""

from __future__ import annotations

import pytest
from hpack import Encoder
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ariane_wire.protocol.faults import ConnectionFault, StreamFault
from ariane_wire.protocol.headers import header_blocks
from ariane_wire.protocol.headers.block_patterns import PATTERNS_MAX, VARIED_MAX
from ariane_wire.protocol.headers.header_blocks import BlockMemory, BlockReader, HeaderListTooLong
from ariane_wire.protocol.headers.heads import parse_request, request_form

ALIKE = [(":method", "POST"), (":scheme", "http"), (":path", "/a/b"), (":authority", "here")]
ALIKE += [("te", "trailers"), ("content-type", "application/grpc")]
LIMIT = 2_000


class Reading:
    """A connection whose peer uses no dynamic table, and how many blocks were read whole."""

    def __init__(self, monkeypatch=None, form_of=request_form):
        self.memory = BlockMemory(parse_request, form_of)
        self.reader = BlockReader(self.memory, LIMIT)
        self.whole = 0
        plain = header_blocks.plain_block

        def counted(*arguments):
            self.whole += 1
            return plain(*arguments)

        if monkeypatch is not None:
            monkeypatch.setattr(header_blocks, "plain_block", counted)
        self.reader.read(b"\x20" + block_of(ALIKE))

    def read(self, block):
        try:
            return self.reader.read(block)
        except (ConnectionFault, StreamFault, HeaderListTooLong) as fault:
            return type(fault)


def block_of(fields, *, coded=False):
    encoder = Encoder()
    encoder.header_table_size = 0
    block = encoder.encode(fields, huffman=coded)
    return block.removeprefix(b"\x20")


def call(number, *, coded=False, **more):
    fields = [*ALIKE, ("x-client", "c"), ("x-request", f"{number:08}"), *more.items()]
    return block_of([*fields, ("grpc-timeout", f"{9_999_000 + number}u")], coded=coded)


@pytest.mark.parametrize("coded", [False, True])
def test_what_varies_is_read_alone_and_the_head_is_the_same(monkeypatch, coded):
    reading = Reading(monkeypatch)
    blocks = [call(number, coded=coded) for number in range(200)]
    heads = [reading.read(block) for block in blocks]
    assert reading.whole < 25
    assert heads == [Reading(form_of=None).read(block) for block in blocks]
    assert len(reading.memory.heads) < 30
    assert dict(heads[77].metadata)["x-request"] == "00000077"


def test_a_call_that_differs_in_its_time_alone_is_kept_whole(monkeypatch):
    reading = Reading(monkeypatch)
    blocks = [block_of([*ALIKE, ("grpc-timeout", f"{number}m")]) for number in (100, 200, 300)]
    first = [reading.read(block) for block in blocks]
    assert reading.whole == 3
    assert [reading.read(block) for block in blocks] == first
    assert reading.reader.heads[blocks[2]] is first[2]


VALUES = st.one_of(
    st.sampled_from(["", "7", "1S", "9x", "\0", "\n", "\xff", "text", "a" * 1200, "trailers"]),
    st.text(st.characters(max_codepoint=300, exclude_categories=["Cs"]), max_size=4),
)
PLAIN = {"coded": False, "has_authority": True}
NAMES = ["x-a", "x-b-bin", "grpc-timeout", "te", "content-length", ":path", "host", "grpc-encoding"]


@settings(max_examples=40)
@given(
    calls=st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).flatmap(
        lambda names: st.lists(
            st.tuples(st.just(names), st.lists(VALUES, min_size=len(names), max_size=len(names))),
            min_size=2,
            max_size=8,
        )
    ),
    coded=st.booleans(),
    has_authority=st.booleans(),
)
@example(calls=[(["grpc-timeout"], [each]) for each in ("1S", "2S", "9x")], **PLAIN)
@example(calls=[(["x-a"], [each]) for each in ("a", "b", "\n")], **PLAIN)
@example(calls=[(["x-a"], [each]) for each in ("\u0107", "\u0108", "\u0109")], **PLAIN)
@example(calls=[(["te"], [each]) for each in ("trailers", "trailerz", "trailery")], **PLAIN)
def test_whatever_comes_is_read_as_it_would_be_alone(calls, *, coded, has_authority):
    reading = Reading()
    base = ALIKE if has_authority else [each for each in ALIKE if each[0] != ":authority"]
    for names, values in calls:
        block = block_of([*base, *zip(names, values, strict=True)], coded=coded)
        assert reading.read(block) == Reading(form_of=None).read(block)


def test_octets_that_are_no_block_are_like_none():
    reading = Reading()
    blocks = [call(number, coded=True) for number in range(100)]
    for block in blocks:
        reading.read(block)
    for at in range(len(blocks[0])):
        for octet in (0x00, 0x3F, 0x7F, 0xFF):
            broken = blocks[0][:at] + bytes((octet,)) + blocks[0][at + 1 :]
            assert reading.read(broken) == Reading(form_of=None).read(broken)
            reading.reader = BlockReader(reading.memory, LIMIT)
            reading.reader.read(b"\x20" + block_of(ALIKE))


def test_a_value_that_grows_beyond_the_limit_when_it_is_decoded_is_refused():
    memory = BlockMemory(parse_request, request_form)
    reader = BlockReader(memory, 1_000)
    reader.read(b"\x20" + block_of(ALIKE))
    # Of one length as they come: a symbol of 30 bits, or six of 5.
    short = [block_of([*ALIKE, ("x-a", text)], coded=True) for text in ("\x16\x16", "aaaaaa\x16")]
    for block in short:
        reader.read(block)
    assert memory.patterns.find(short[1], 1_000) is not None
    octets = sum(len(name) + len(value) + 32 for name, value in [*ALIKE, ("x-a", "aaaaaa\x16")])
    assert memory.patterns.find(short[1], octets) is not None
    assert memory.patterns.find(short[1], octets - 1) is None


def test_who_varies_everything_takes_no_more_than_so_much():
    reading = Reading()
    for length in range(2 * PATTERNS_MAX):
        for number in range(3):
            reading.read(block_of([*ALIKE, ("x-a", f"{number}" * (length + 1))]))
    patterns = reading.memory.patterns
    assert sum(map(len, patterns._patterns.values())) <= PATTERNS_MAX
    many = [block_of([*ALIKE, *((f"x-{at}", n) for at in range(VARIED_MAX + 1))]) for n in "abc"]
    for block in many:
        assert reading.read(block) == Reading(form_of=None).read(block)
        assert patterns.find(block, LIMIT) is None


def test_a_client_that_uses_a_table_is_not_learnt_from():
    memory = BlockMemory(parse_request, request_form)
    reader = BlockReader(memory, LIMIT)
    encoder = Encoder()
    for number in range(5):
        head = reader.read(encoder.encode([*ALIKE, ("x-a", str(number))]))
        assert dict(head.metadata)["x-a"] == str(number)
    assert not memory.patterns._patterns
