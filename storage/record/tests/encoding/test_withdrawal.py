import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_record import BlockEncoder, ProducerSequence
from ariane_record.encoding.withdrawal import take_back
from ariane_record.testing import message_arguments

SEQUENCE = ProducerSequence(7, 1, 100)


def block_of(messages, *, sequenced):
    encoder = BlockEncoder("orders", size_bytes_max=1 << 24, sequenced=sequenced)
    for arguments in messages:
        encoder.add(**arguments)
    return encoder


def finished(encoder, *, sequenced):
    block = encoder.finish(SEQUENCE if sequenced else None)
    columns = (block.sizes, block.tag_codes, block.key_counts, block.key_hashes)
    return bytes(block.records), block.crc32, [column.tolist() for column in columns]


@given(st.lists(message_arguments(), min_size=1, max_size=6), st.booleans(), st.data())
def test_the_block_is_as_if_the_message_had_never_been_there(messages, sequenced, data):
    encoder = block_of(messages, sequenced=sequenced)
    left = list(messages)
    for _ in range(data.draw(st.integers(1, len(messages)))):
        before = encoder.size_bytes
        position = data.draw(st.integers(0, len(left) - 1))
        removed_bytes = take_back(encoder, position)
        del left[position]
        assert removed_bytes
        assert encoder.size_bytes <= before - removed_bytes + (47 if sequenced else 0)

    expected = block_of(left, sequenced=sequenced)
    assert encoder.size_bytes == expected.size_bytes
    assert encoder.count == len(left)
    if left:
        assert finished(encoder, sequenced=sequenced) == finished(expected, sequenced=sequenced)


def test_the_first_stays_when_the_next_has_no_room_for_the_sequence():
    encoder = BlockEncoder("orders", size_bytes_max=1 << 24, sequenced=True)
    encoder.add(b"first", born_timestamp_ms=1)
    encoder.add(b"second", properties={"a": "x" * 31_690}, born_timestamp_ms=1)

    assert take_back(encoder, 0) == 0
    assert encoder.count == 2
    assert take_back(encoder, 1)
    assert take_back(encoder, 0)
    with pytest.raises(IndexError):
        take_back(encoder, 0)
