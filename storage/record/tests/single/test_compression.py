import sys
import zlib

import lz4.frame
import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ariane_record import SystemFlag
from ariane_record.decoding.arrow import to_arrow
from ariane_record.decoding.columns import decode_columns
from ariane_record.errors import BodyDamaged, CodecMissing, RecordCorrupted
from ariane_record.single.compression import Compression, body_compressor, original_body
from ariane_record.single.view import iter_messages
from ariane_record.testing.block_encoder import BlockEncoder

KINDS = [Compression.LZ4, Compression.ZSTD, Compression.ZLIB]
TEAPOTS = b"a teapot, a teapot, a teapot; " * 40

# What the compressors of Apache RocketMQ 5.5.0 make of TEAPOTS.
WRITTEN_BY_ROCKETMQ = {
    Compression.LZ4: (
        "04224d1860707323000000ae6120746561706f742c200a001f3b1400000628000f1e00ffffffff62"
        "50706f743b2000000000"
    ),
    Compression.ZSTD: (
        "28b52ffd00581c0200a2c5080dc025c301c0e0ae578f6ff0abe3d1b66ddbb66ddbb66ddbb66ddbb6"
        "6d8b03041226244fa810f0fb06e0d7116c183ef103fbffd7fffff5ff7ffdffd7872e9852010000"
    ),
    Compression.ZLIB: ("785e4b5428494d2cc82fd15148c4605963111b951d951d951d951d285900708b9498"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_bodies_of_rocketmq_are_understood(kind):
    stored = bytes.fromhex(WRITTEN_BY_ROCKETMQ[kind])

    assert original_body(stored, kind.system_flag) == TEAPOTS


def test_flags_are_those_of_rocketmq():
    assert [kind.system_flag for kind in Compression] == [0, 0x101, 0x201, 0x301]
    old = bytes.fromhex(WRITTEN_BY_ROCKETMQ[Compression.ZLIB])
    assert original_body(old, 0x1) == TEAPOTS
    assert original_body(old, 0x300) == old


@given(st.sampled_from(KINDS), st.integers(1, 9), st.binary(max_size=3000), st.integers(1, 50))
def test_what_is_compressed_comes_back(kind, level, body, times):
    body *= times
    stored = body_compressor(kind, level)(memoryview(body))

    assert original_body(stored, kind.system_flag) == body
    assert original_body(stored, kind.system_flag, size_bytes_max=len(body)) == body


def test_frames_can_be_read_by_java():
    # Its reader of LZ4 frames wants blocks that do not need one another.
    frame = body_compressor(Compression.LZ4, 5)(bytes(range(256)) * 4096)

    assert not lz4.frame.get_frame_info(frame)["block_linked"]


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_damage_is_told(kind, data):
    stored = body_compressor(kind, 5)(TEAPOTS)
    cut = data.draw(st.integers(0, len(stored) - 1))
    for damaged in (stored[:cut], stored + b"x", b"plain text"):
        with pytest.raises(BodyDamaged):
            original_body(damaged, kind.system_flag)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bomb_does_not_go_off(kind):
    bomb = body_compressor(kind, 9)(bytes(64 << 20))
    assert len(bomb) < 1 << 19

    with pytest.raises(BodyDamaged, match=r"33554432 bytes"):
        original_body(bomb, kind.system_flag)
    with pytest.raises(BodyDamaged):
        original_body(body_compressor(kind, 5)(bytes(1001)), kind.system_flag, size_bytes_max=1000)


def test_a_bomb_without_a_size_does_not_go_off():
    stream = zstandard.ZstdCompressor().compressobj()
    bomb = stream.compress(bytes(64 << 20)) + stream.flush()

    with pytest.raises(BodyDamaged, match=r"33554432 bytes"):
        original_body(bomb, Compression.ZSTD.system_flag)


def test_unknown_kinds_and_missing_libraries_are_told(monkeypatch):
    with pytest.raises(BodyDamaged, match="type 7"):
        original_body(b"x", 0x701)
    for module in ("lz4.frame", "zstandard"):
        monkeypatch.setitem(sys.modules, module, None)
    for kind in (Compression.LZ4, Compression.ZSTD):
        with pytest.raises(CodecMissing, match="compression"):
            body_compressor(kind, 5)
        with pytest.raises(CodecMissing, match="compression"):
            original_body(b"x", kind.system_flag)


def block_of(bodies):
    """A block of (stored body, system flag)."""
    encoder = BlockEncoder("orders", size_bytes_max=1 << 24)
    for position, (body, flag) in enumerate(bodies):
        encoder.add(
            body,
            tag=f"t{position}",
            unique_id=f"u{position}",
            system_flag=flag,
            born_timestamp_ms=7,
        )
    return encoder.finish()


bodies_and_kinds = st.lists(
    st.tuples(st.binary(max_size=300), st.sampled_from(Compression)), max_size=8
)


@given(bodies_and_kinds)
def test_columns_views_and_arrow_give_bodies_as_they_were(pairs):
    block = block_of(
        (body_compressor(kind, 5)(body) if kind is not Compression.NONE else body, kind.system_flag)
        for body, kind in pairs
    )
    bodies = [body for body, _ in pairs]

    columns = decode_columns(block.records, block.sizes)
    views = list(iter_messages(block.records, block.sizes))

    assert columns.bodies() == bodies
    assert to_arrow(columns, ["body"]).column(0).to_pylist() == bodies
    assert [view.body for view in views] == bodies
    assert [view.body for view in views] == bodies
    assert [view.tag for view in views] == [f"t{position}" for position in range(len(pairs))]
    stored = [columns.message(position).body for position in range(len(columns))]
    assert [view.stored_body for view in views] == stored


def test_a_damaged_body_is_named():
    block = block_of([(b"fine", 0), (zlib.compress(b"fine"), 0x301), (b"damaged", 0x301)])
    columns = decode_columns(block.records, block.sizes)
    views = list(iter_messages(block.records, block.sizes))

    with pytest.raises(RecordCorrupted, match="zlib") as caught:
        columns.bodies()
    assert caught.value.position == 2
    with pytest.raises(RecordCorrupted, match="record 2"):
        to_arrow(columns, ["tag", "body"])
    assert to_arrow(columns, ["tag"]).num_rows == 3
    assert repr(views[2])
    with pytest.raises(BodyDamaged):
        _ = views[2].body
    with pytest.raises(AttributeError, match="bodies"):
        _ = views[2].bodies


def test_all_bodies_of_a_block_share_one_limit(monkeypatch):
    monkeypatch.setattr("ariane_record.decoding.columns.DECOMPRESSED_TOTAL_BYTES_MAX", 2500)
    block = block_of([(zlib.compress(bytes(1000)), 0x301)] * 3)
    columns = decode_columns(block.records, block.sizes)

    with pytest.raises(RecordCorrupted, match="grows beyond 500 bytes") as caught:
        to_arrow(columns, ["body"])
    assert caught.value.position == 2


def test_blocks_without_compressed_bodies_are_not_looked_at_one_by_one(monkeypatch):
    block = block_of([(b"x", 0)] * 100)

    def never(*_, **__):
        raise AssertionError("a body was looked at")

    monkeypatch.setattr("ariane_record.decoding.columns.original_body", never)
    monkeypatch.setattr("ariane_record.single.view.original_body", never)
    columns = decode_columns(block.records, block.sizes)

    assert to_arrow(columns, ["body"]).column(0) == pa.array([b"x"] * 100, pa.binary())
    assert columns.bodies() == [view.body for view in columns.iter_messages()]
    assert np.all(columns.system_flag & SystemFlag.COMPRESSED == 0)
