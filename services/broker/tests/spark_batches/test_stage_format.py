"""The bytes of a staged block: drawn once, never changed, and damage is told."""

from dataclasses import replace

import numpy as np
import pytest

from ariane_broker.spark_batches.records.stage_format import StagedBlock, decode_stage, encode_stage
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_storage.errors import RecordCorrupted

GOLDEN = bytes.fromhex(
    "415354470100060002000000040000001501000074c9f12801000000f382c18000000000000000000068e5cf"
    "8b010000930000008200000074000000000000000300000004000000134292497cf849177bf8491714429249"
    "03016f726465727300000093daa320a768b7be43000000000000000000000000000000000000000000000000"
    "0000000000000000000000070000000000000000000000000000000000000000000000000000000000000000"
    "000000000000000161066f726465727300314b455953016b31206b320254414753017402554e49515f4b4559"
    "0131025f5f43524333322301303030303030303030300200000082daa320a742a92b38000000000000000000"
    "0000000000000000000000000000000000000000000000000000080000000000000000000000000000000000"
    "00000000000000000000000000000000000000000000026263066f7264657273001f554e49515f4b45590132"
    "025f5f435243333223013030303030303030303002"
)
"""Two records of the topic orders, one for later, as they were staged first."""


def staged(*, times_ms=(0, 0)):
    encoder = BlockEncoder("orders", size_bytes_max=1 << 16)
    encoder.add(b"a", tag="t", keys=("k1", "k2"), unique_id="1", born_timestamp_ms=7)
    encoder.add(b"bc", unique_id="2", born_timestamp_ms=8)
    block = encoder.finish()
    block = replace(block, pieces=(bytes(block.records),), record_crcs=None)
    return StagedBlock(block, np.array([3, 4], np.int32), np.array(times_ms, np.int64))


def test_the_bytes_are_those_that_were_written_first():
    one = staged(times_ms=(0, 1_700_000_000_000))

    assert encode_stage(one).hex() == GOLDEN.hex()
    assert decode_stage(GOLDEN, 0).block.topic == "orders"


@pytest.mark.parametrize("times_ms", [(0, 0), (5, 0)])
def test_what_is_encoded_comes_back(times_ms):
    one = staged(times_ms=times_ms)

    again = decode_stage(encode_stage(one), 0)

    assert again.block.records == one.block.records
    for name in ("sizes", "tag_codes", "key_counts", "key_hashes"):
        assert getattr(again.block, name).tolist() == getattr(one.block, name).tolist()
    assert (again.block.topic, again.block.crc32) == ("orders", one.block.crc32)
    assert again.queue_ids.tolist() == [3, 4]
    assert again.times_ms.tolist() == list(times_ms)


def test_every_byte_that_changes_and_every_byte_that_lacks_is_found():
    body = encode_stage(staged(times_ms=(5, 0)))
    damaged = [body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :] for at in range(len(body))]
    cut = [body[:end] for end in range(len(body))]

    for wrong in (*damaged, *cut, body + b"x"):
        with pytest.raises(RecordCorrupted, match=r"commit-log offset 77: .*staged block"):
            decode_stage(wrong, 77)
