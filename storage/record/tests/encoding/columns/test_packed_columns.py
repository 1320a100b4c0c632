"""Large bodies of columns are compressed, and become the same records as those of messages."""

import random

import pyarrow as pa
import pytest

from ariane_record.encoding.columns.column_encoder import encode_columns
from ariane_record.encoding.columns.message_columns import MessageColumns, packed_columns
from ariane_record.single.compression import BodyPacking, Compression, body_compressor
from ariane_record.testing.block_encoder import BlockEncoder

NOISE = random.Random(1).randbytes(3000)
BODIES = [b"small", b"a teapot, " * 300, b"", NOISE, b"x" * 1000, b"y" * 999]
PACKED = [False, True, False, False, True, False]
KINDS = [Compression.LZ4, Compression.ZSTD, Compression.ZLIB]


def columns_of(bodies, body_type=None):
    return MessageColumns.of(
        pa.array(bodies, body_type or pa.binary()), tag=pa.array(["t"] * len(bodies))
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body_type", [pa.binary(), pa.large_binary()])
def test_records_are_those_of_messages(kind, body_type):
    whole = columns_of([b"before", *BODIES, b"behind"], body_type)
    packing = BodyPacking(kind, 5, size_bytes_min=1000)

    packed = packed_columns(whole.slice(1, 1 + len(BODIES)), packing)
    ids = pa.array(map(str, range(len(BODIES))), pa.string())
    block = encode_columns("orders", packed, unique_ids=ids, born_timestamp_ms=7)

    encoder = BlockEncoder("orders", size_bytes_max=1 << 20)
    for number, (body, is_packed) in enumerate(zip(BODIES, PACKED, strict=True)):
        encoder.add(
            body_compressor(kind, 5)(body) if is_packed else body,
            tag="t",
            unique_id=str(number),
            system_flag=kind.system_flag if is_packed else 0,
            born_timestamp_ms=7,
        )
    assert bytes(block.records) == bytes(encoder.finish().records)


def test_flags_go_along_with_their_rows():
    packed = packed_columns(
        columns_of(BODIES), BodyPacking(Compression.ZLIB, 5, size_bytes_min=1000)
    )

    assert (packed.slice(1, 3).system_flag != 0).tolist() == PACKED[1:3]
    assert (packed.take(pa.array([4, 0, 1]).to_numpy()).system_flag != 0).tolist() == [
        PACKED[4],
        PACKED[0],
        PACKED[1],
    ]


@pytest.mark.parametrize(
    "packing",
    [
        BodyPacking(Compression.NONE, 5, size_bytes_min=0),
        BodyPacking(Compression.ZSTD, 5, size_bytes_min=1 << 20),
    ],
)
def test_columns_with_nothing_to_compress_are_returned_as_they_are(packing):
    columns = columns_of(BODIES)

    assert packed_columns(columns, packing) is columns
