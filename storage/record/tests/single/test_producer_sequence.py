"""The producer sequence in the first record of a batch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_record import ProducerSequence, decode_record, encode_block
from ariane_record.checksums.checksum import crc32
from ariane_record.layout import PropertyName
from ariane_record.single.producer_sequence import (
    EMPTY_SEQUENCE,
    SEQUENCE_BYTES,
    StoredSequence,
    decode_sequence,
    encode_sequence,
    encode_sequences,
    says_sequence,
    stored_sequence,
)
from ariane_record.testing.block_encoder import BlockEncoder

SEQUENCES = st.builds(
    ProducerSequence,
    producer_id=st.integers(1, 2**63 - 1),
    epoch=st.integers(0, 2**31 - 1),
    first_sequence=st.integers(0, 2**63 - 1),
)


def block_of(bodies, sequence, topic="orders"):
    encoder = BlockEncoder(topic, size_bytes_max=1 << 20, sequenced=True)
    for body in bodies:
        encoder.add(body, tag="t", unique_id="u", properties={"a": "b"}, born_timestamp_ms=1)
    return encoder.finish(sequence)


@given(SEQUENCES, st.integers(1, 2**31 - 1), st.integers(0, 2**31 - 1))
def test_what_is_encoded_is_decoded(sequence, record_count, size_bytes):
    encoded = encode_sequence(sequence, record_count, size_bytes)
    assert len(encoded) == SEQUENCE_BYTES
    assert decode_sequence(encoded) == StoredSequence(sequence, record_count, size_bytes)


@given(
    st.lists(st.tuples(SEQUENCES, st.integers(1, 2**31 - 1), st.integers(0, 2**31 - 1)), min_size=1)
)
def test_many_are_encoded_as_one_by_one(rows):
    sequences, counts, sizes = zip(*rows, strict=True)
    together = encode_sequences(sequences, np.array(counts), np.array(sizes))
    assert together == b"".join(encode_sequence(*row) for row in rows)


@given(st.binary(max_size=2 * SEQUENCE_BYTES))
def test_other_bytes_say_nothing(encoded):
    decode_sequence(encoded)
    assert decode_sequence(EMPTY_SEQUENCE) is None


@given(SEQUENCES, SEQUENCES, st.lists(st.binary(max_size=300), min_size=1, max_size=5))
@pytest.mark.parametrize("topic", ["orders", "o" * 200])
def test_a_block_says_where_it_stands_and_can_move(topic, first, second, bodies):
    block = block_of(bodies, first, topic)
    assert stored_sequence(block.records) == StoredSequence(first, len(bodies), block.size_bytes)
    moved = block.with_sequence(second)
    assert stored_sequence(moved.records) == StoredSequence(second, len(bodies), block.size_bytes)
    assert moved.crc32 == crc32(moved.records)
    assert moved.records == block_of(bodies, second, topic).records


def test_only_the_first_record_says_it():
    block = block_of([b"1", b"2"], ProducerSequence(1, 0, 0))
    first = decode_record(block.records[: block.sizes[0]], verify=False)
    second = decode_record(block.records[block.sizes[0] :], verify=False)
    assert next(iter(first.properties)) == PropertyName.PRODUCER_SEQUENCE
    assert PropertyName.PRODUCER_SEQUENCE not in second.properties


def test_a_copy_does_not_say_it():
    block = block_of([b"1"], ProducerSequence(1, 0, 0))
    copy = encode_block("retry", [decode_record(block.records, verify=False)])
    assert stored_sequence(copy.records) is None
    assert decode_record(copy.records, verify=False).properties["a"] == "b"


def test_sequence_and_room_for_it_go_together():
    plain = BlockEncoder("orders", size_bytes_max=1 << 20)
    plain.add(b"1", born_timestamp_ms=1)
    with pytest.raises(ValueError, match="sequenced"):
        plain.finish(ProducerSequence(1, 0, 0))
    with pytest.raises(ValueError, match="no room"):
        plain.finish().with_sequence(ProducerSequence(1, 0, 0))
    with pytest.raises(ValueError, match="sequenced"):
        BlockEncoder("orders", size_bytes_max=1 << 20, sequenced=True).finish()


def test_records_say_just_their_own_sequence():
    sequence = ProducerSequence(7, 1, 42)
    records = block_of([b"1", b"2"], sequence).records
    assert says_sequence(records, sequence, 2)
    assert not says_sequence(records, None, 2)
    assert not says_sequence(records, sequence, 3)
    assert not says_sequence(records + b"more", sequence, 2)
    for other in (sequence._replace(producer_id=8), sequence._replace(first_sequence=43)):
        assert not says_sequence(records, other, 2)


def test_the_same_numbers_in_other_characters_are_the_same_sequence():
    sequence = ProducerSequence(7, 1, 42)
    records = block_of([b"1"], sequence).records
    encoded = encode_sequence(sequence, 1, len(records))
    # The last character says two bits that are beyond the numbers.
    last = encoded[-2:-1]
    other = encoded[:-2] + bytes([last[0] + 1]) + encoded[-1:]
    assert decode_sequence(other) == decode_sequence(encoded)
    assert says_sequence(records.replace(encoded, other), sequence, 1)


@pytest.mark.parametrize("records", [b"", b"\xff" * 100, b"\x00" * 400])
def test_what_is_no_record_says_nothing(records):
    assert stored_sequence(records) is None
    assert says_sequence(records, None, 1)
    assert not says_sequence(records, ProducerSequence(1, 0, 0), 1)
