"""Blocks in pieces: what they say of themselves is true wherever they travel."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_record import BlockEncoder, ProducerSequence
from ariane_record.checksums.checksum import crc32
from ariane_record.checksums.crc_algebra import CrcFolder
from ariane_record.encoding.block import record_crcs_of
from ariane_record.encoding.loose_block import LooseBlock
from ariane_record.encoding.message_properties import TopicProperties
from ariane_record.encoding.run_encoder import encode_run
from ariane_record.single.message_id import IdRun, UniqueIds
from ariane_record.single.producer_sequence import EMPTY_SEQUENCE, stored_sequence

FIRST, SECOND = ProducerSequence(7, 1, 42), ProducerSequence(1 << 60, 3, 1 << 40)


def encoded(count, *, sequence=FIRST):
    encoder = BlockEncoder("orders", size_bytes_max=1 << 20, sequenced=sequence is not None)
    for number in range(count):
        encoder.add(b"x" * number, unique_id=f"{number:032X}", born_timestamp_ms=5)
    return encoder.finish(sequence)


@pytest.mark.parametrize("count", [1, 200])
def test_a_block_that_goes_elsewhere_is_the_one_made_for_there(count):
    loose = LooseBlock.of(encoded(count), sequenced=True)

    moved, expected = loose.at(SECOND).joined(), encoded(count).with_sequence(SECOND)

    assert moved.records == expected.records
    assert moved.crc32 == expected.crc32
    if count > 1:
        assert moved.record_crcs.tolist() == expected.record_crcs.tolist()
    assert loose.at(FIRST).joined().records == encoded(count).records


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
    block = (loose.at(SECOND) if sequenced else loose).joined()

    assert block.size_bytes == loose.size_bytes == int(loose.sizes.sum())
    assert block.crc32 == crc32(block.records)
    assert block.record_crcs.tolist() == record_crcs_of(block.records, block.sizes).tolist()
    said = stored_sequence(block.records)
    assert (said is not None) == sequenced
    assert (EMPTY_SEQUENCE in b"".join(loose.pieces)) == sequenced


def test_a_block_without_room_goes_nowhere_else():
    loose = LooseBlock.of(encoded(1, sequence=None), sequenced=False)
    with pytest.raises(ValueError, match="no room"):
        loose.at(FIRST)
