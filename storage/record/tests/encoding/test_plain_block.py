"""Plain messages in one go: byte for byte what the encoder makes of them one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_record import BlockEncoder, ProducerSequence
from ariane_record.checksums.java_hash import java_string_hashes
from ariane_record.encoding.plain_block import PlainShape
from ariane_record.errors import RecordTooLarge
from ariane_record.single.message_id import UniqueIds

SEQUENCE = ProducerSequence(7, 1, 42)


def ids(count, width):
    texts = [f"{number * 7919:0{width}X}" for number in range(count)]
    digits = np.frombuffer("".join(texts).encode(), np.uint8).reshape(count, width)
    return texts, UniqueIds(digits, java_string_hashes(texts).view(np.uint32))


def lengths(bodies):
    return np.array([len(body) for body in bodies], np.int32)


@given(
    bodies=st.lists(st.binary(max_size=40), min_size=1, max_size=8),
    repeats=st.sampled_from([1, 40]),
    topic=st.sampled_from(["orders", "t" * 127, "t" * 128, "täglich"]),
    tag=st.sampled_from(["", "created", "größe"]),
    sequenced=st.booleans(),
    width=st.sampled_from([32, 56]),
)
def test_it_is_what_the_encoder_makes(bodies, repeats, topic, tag, sequenced, width):
    bodies *= repeats
    texts, unique_ids = ids(len(bodies), width)
    encoder = BlockEncoder(topic, size_bytes_max=1 << 20, sequenced=sequenced)
    for body, unique_id in zip(bodies, texts, strict=True):
        encoder.add(body, tag=tag, unique_id=unique_id, born_timestamp_ms=1_700_000_000_000)
    expected = encoder.finish(SEQUENCE if sequenced else None)

    shape = PlainShape(topic, tag, id_bytes=width)
    block = shape.encode(
        bodies,
        lengths(bodies),
        unique_ids,
        born_timestamp_ms=1_700_000_000_000,
        sequenced=sequenced,
    )
    block = (block.at(SEQUENCE) if sequenced else block).joined()

    assert bytes(block.records) == bytes(expected.records)
    assert block.crc32 == expected.crc32
    for name in ("sizes", "tag_codes", "key_counts", "key_hashes"):
        found, wanted = getattr(block, name), getattr(expected, name)
        assert found.dtype == wanted.dtype
        assert found.tolist() == wanted.tolist()
    if expected.record_crcs is None:
        assert block.record_crcs is None
    else:
        assert block.record_crcs.tolist() == expected.record_crcs.tolist()


def test_the_overhead_is_that_of_each_record():
    shape = PlainShape("orders", "created", id_bytes=32)
    _, unique_ids = ids(2, 32)
    bodies = [b"", b"abc"]
    block = shape.encode(bodies, lengths(bodies), unique_ids, born_timestamp_ms=5, sequenced=False)
    assert block.sizes.tolist() == [shape.overhead_bytes, shape.overhead_bytes + 3]


def test_a_topic_that_no_record_can_name_is_refused():
    with pytest.raises(RecordTooLarge, match="topic"):
        PlainShape("t" * 40_000, "", id_bytes=32)
