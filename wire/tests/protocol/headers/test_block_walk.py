"""Header blocks as they are looked at before they are read; ``hpack`` is the oracle."""

from __future__ import annotations

import pytest
from hpack import Decoder, Encoder
from hpack.exceptions import HPACKError
from hpack.huffman_table import decode_huffman
from hypothesis import example, given
from hypothesis import strategies as st

from ariane_wire.protocol.headers import huffman
from ariane_wire.protocol.headers.block_walk import TooManyFields, plain_block
from ariane_wire.protocol.headers.header_blocks import BlockMemory, BlockReader, HeaderListTooLong
from ariane_wire.protocol.headers.heads import parse_request

FIELDS = Encoder().encode([(":method", "POST"), ("x-name", "a value")])
UPDATE = b"\x3f\xe1\x1f"
"""Changes the size to 4,096."""
LIMIT = 1 << 20
names = st.text("abcdefghijklmnopqrstuvwxyz-0123456789", min_size=1, max_size=20)
lists = st.lists(st.tuples(names, st.text(max_size=200)), max_size=10)


def oracle(octets):
    try:
        return decode_huffman(octets)
    except HPACKError:
        return None


def ours(octets):
    try:
        return huffman.decode(octets)
    except ValueError:
        return None


@given(st.binary(max_size=60))
@example(b"")
@example(b"\xff")
@example(b"\xff\xff\xff\xff")
@example(b"\x3f\xff\xff\xff\xff")
def test_strings_say_what_hpack_says(octets):
    assert ours(octets) == oracle(octets)


@given(lists, st.booleans(), st.booleans())
def test_a_block_says_the_same_without_huffman(fields, huffman_, keeps_table):
    encoder = Encoder()
    if not keeps_table:
        encoder.header_table_size = 0
    before, after = Decoder(), Decoder()
    for _ in range(2):
        block = encoder.encode(fields, huffman=huffman_)
        plain, count = plain_block(block, LIMIT)
        assert after.decode(plain, raw=True) == before.decode(block, raw=True)
        assert count == len(fields)


@given(st.binary(max_size=80))
def test_octets_that_are_no_block_raise_nothing_else(octets):
    before, after = Decoder(), Decoder()
    try:
        expected = before.decode(octets, raw=True)
    except (HPACKError, IndexError, ValueError):
        expected = None
    try:
        plain, _ = plain_block(octets, LIMIT)
    except ValueError:
        return
    if expected is not None:
        assert after.decode(plain, raw=True) == expected


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("update", [b"\x20", UPDATE])
def test_a_table_may_change_twice(update, count):
    updates = update * count
    assert plain_block(updates, LIMIT) == (updates, 0)
    assert plain_block(updates + FIELDS, LIMIT)[1] == 2


@pytest.mark.parametrize("updates", [b"\x20" * 3, UPDATE * 3, b"\x20" + UPDATE * 2])
def test_a_third_change_is_too_many(updates):
    with pytest.raises(ValueError, match="too many changes"):
        plain_block(updates + FIELDS, LIMIT)


def test_no_string_is_decoded_and_no_field_read_beyond_the_limit(monkeypatch):
    decoded = []
    decode = huffman.decode
    monkeypatch.setattr(huffman, "decode", lambda octets: decoded.append(octets) or decode(octets))
    encoder = Encoder()
    encoder.header_table_size = 0
    huge = encoder.encode([("a", "x" * 9_000)] * 100)
    many = encoder.encode([(f"x-{number}", "") for number in range(5_000)])
    for block in (huge, many):
        decoded.clear()
        with pytest.raises(TooManyFields):
            plain_block(block, 10_000)
        assert sum(map(len, decoded)) <= 20_000


def test_a_block_that_is_too_long_leaves_the_next_one_readable():
    encoder = Encoder()
    encoder.header_table_size = 0
    reader = BlockReader(BlockMemory(parse_request), 1_000)
    with pytest.raises(HeaderListTooLong):
        reader.read(b"\x20" + encoder.encode([("a", "x" * 2_000)]))
    head = [(":method", "POST"), (":scheme", "http"), (":path", "/a/b")]
    assert reader.read(encoder.encode(head)).method == "/a/b"
