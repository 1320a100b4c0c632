"""A run of messages in one go: byte for byte what the encoder makes of them one by one."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from ariane_record import ProducerSequence
from ariane_record.checksums.checksum import crc32
from ariane_record.checksums.crc_algebra import CrcFolder
from ariane_record.encoding.message_properties import TopicProperties
from ariane_record.encoding.run_encoder import EVEN_BODY_BYTES_MAX, encode_run
from ariane_record.single.message_id import IdRun, UniqueIds
from ariane_record.single.producer_sequence import EMPTY_SEQUENCE, stored_sequence
from ariane_record.testing.block_encoder import BlockEncoder, record_crcs_of

SEQUENCE = ProducerSequence(7, 1, 42)
NOON = 1_700_000_000_000


def ids(count, width, first):
    """So many ids, their counters from a given one on."""
    stamps = [f"{number:0{width - 4}X}" for number in (0xABCDEF, 0xABCDF0)]
    in_first = min(count, 0x10000 - first)
    runs = [IdRun(stamps[0], first, first + in_first)]
    if count > in_first:
        runs.append(IdRun(stamps[1], 0, count - in_first))
    return UniqueIds(runs)


def encoded(topic, tag, bodies, unique_ids, *, sequenced):
    properties = TopicProperties(topic, id_bytes=unique_ids.digit_count, sequenced=sequenced)
    shape = properties.of_tag(tag)
    return shape, encode_run(
        properties,
        shape,
        bodies,
        np.array([len(body) for body in bodies], np.int32),
        unique_ids,
        born_timestamp_ms=NOON,
        sequenced=sequenced,
        folder=CrcFolder(),
    )


@st.composite
def even_bodies(draw):
    size = draw(st.sampled_from([0, 1, 7, 300]))
    return draw(st.lists(st.binary(min_size=size, max_size=size), min_size=1, max_size=8))


@given(
    bodies=st.one_of(st.lists(st.binary(max_size=40), min_size=1, max_size=8), even_bodies()),
    repeats=st.sampled_from([1, 40]),
    topic=st.sampled_from(["orders", "t" * 127, "t" * 200, "täglich"]),
    tag=st.sampled_from(["", "created", "größe"]),
    sequenced=st.booleans(),
    width=st.sampled_from([32, 56]),
    first=st.sampled_from([0, 0x12FC, 0xFFFE]),
)
@example(
    bodies=[b"x" * (EVEN_BODY_BYTES_MAX)] * 3,
    repeats=1,
    topic="orders",
    tag="",
    sequenced=True,
    width=32,
    first=0,
)
@example(
    bodies=[b"x" * (EVEN_BODY_BYTES_MAX + 1)] * 3,
    repeats=50,
    topic="orders",
    tag="",
    sequenced=True,
    width=32,
    first=0,
)
def test_it_is_what_the_encoder_makes(bodies, repeats, topic, tag, sequenced, width, first):
    bodies = bodies * repeats
    unique_ids = ids(len(bodies), width, first)
    encoder = BlockEncoder(topic, size_bytes_max=1 << 20, sequenced=sequenced)
    for body, unique_id in zip(bodies, unique_ids.texts(), strict=True):
        encoder.add(body, tag=tag, unique_id=unique_id, born_timestamp_ms=NOON)
    expected = encoder.finish(SEQUENCE if sequenced else None)

    _, block = encoded(topic, tag, bodies, unique_ids, sequenced=sequenced)
    assert block.size_bytes == sum(map(len, block.pieces)) == block.sizes.sum()
    block = block.with_sequence(SEQUENCE) if sequenced else block

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
    shape, block = encoded("orders", "created", [b"", b"abc"], ids(2, 32, 0), sequenced=False)
    assert block.sizes.tolist() == [shape.overhead_bytes, shape.overhead_bytes + 3]


@given(
    lengths=st.lists(st.integers(0, 5000), min_size=128, max_size=140),
    even=st.booleans(),
    sequenced=st.booleans(),
)
def test_sums_that_were_put_together_are_those_of_the_bytes(lengths, even, sequenced):
    bodies = [bytes([length % 251]) * (lengths[0] if even else length) for length in lengths]
    ids = UniqueIds([IdRun("0" * 28, 40, 40 + len(bodies))])
    topic = TopicProperties("orders", id_bytes=32, sequenced=sequenced)

    loose = encode_run(
        topic,
        topic.of_tag("created"),
        bodies,
        np.array([len(body) for body in bodies], np.int32),
        ids,
        born_timestamp_ms=5,
        sequenced=sequenced,
        folder=CrcFolder(),
    )
    block = loose.with_sequence(SEQUENCE) if sequenced else loose

    assert block.size_bytes == loose.size_bytes == int(loose.sizes.sum())
    pieces = b"".join(loose.pieces)
    assert block.crc32 == crc32(block.records)
    assert block.record_crcs.tolist() == record_crcs_of(block.records, block.sizes).tolist()
    said = stored_sequence(block.records)
    assert (said is not None) == sequenced
    assert (EMPTY_SEQUENCE in pieces) == sequenced
