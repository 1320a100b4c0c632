"""Copies of records are what decoding and encoding again would make of them."""

import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ariane_record import RecordCorrupted, RecordFields, decode_record, encode_record
from ariane_record.errors import RecordTooLarge
from ariane_record.layout import HOST_FLAGS, PropertyName
from ariane_record.single.message import EMPTY_HOST
from ariane_record.single.record_copy import copied_block, copy_of, encode_block, without_properties
from ariane_record.testing.strategies import record_fields, topic_names

NOTES = st.dictionaries(
    st.sampled_from(
        [
            PropertyName.TAGS,
            PropertyName.KEYS,
            PropertyName.UNIQUE_ID,
            PropertyName.PRODUCER_SEQUENCE,
            "NOTE",
            "NOT",
        ]
    ),
    st.sampled_from(["a", "a b", "__CRC32#", "NOTE", "é", "x y  z"]),
)

noted_records = st.builds(
    lambda fields, notes: replace(fields, properties=fields.properties | notes),
    record_fields(),
    NOTES,
)


def decoded(block):
    """The messages of a block, without what the broker owns; and their checksums empty."""
    records, begin = bytes(block.records), 0
    messages = []
    for size in block.sizes.tolist():
        record = records[begin : begin + size]
        messages.append(
            replace(
                decode_record(record, verify=False),
                queue_id=0,
                queue_offset=0,
                commit_log_offset=0,
                store_timestamp_ms=0,
                born_host=EMPTY_HOST,
                store_host=EMPTY_HOST,
            )
        )
        begin += size
    assert begin == len(records)
    return messages


@given(
    messages=st.lists(noted_records, min_size=1, max_size=5),
    topic=topic_names(),
    checksum=st.booleans(),
)
@example(
    messages=[RecordFields(topic="t", body=b"", properties={"a": "__CRC32#"})],
    topic="other",
    checksum=True,
)
def test_a_block_of_copies_is_that_of_the_messages(messages, topic, checksum):
    copies = [copy_of(encode_record(message, checksum=checksum)) for message in messages]
    block, expected = copied_block(topic, copies), encode_block(topic, messages)
    assert decoded(block) == decoded(expected)
    assert block.topic == topic
    assert block.forwarded
    for column in ("sizes", "tag_codes", "key_counts", "key_hashes"):
        np.testing.assert_array_equal(getattr(block, column), getattr(expected, column))


@given(noted_records)
def test_a_copy_says_what_its_record_says(message):
    copy = copy_of(encode_record(message))
    assert copy.body == message.body
    assert copy.system_flag == message.system_flag & ~HOST_FLAGS
    assert copy.born_host == decode_record(encode_record(message)).born_host
    assert (copy.flag, copy.born_timestamp_ms) == (message.flag, message.born_timestamp_ms)
    assert (copy.attempts, copy.half_offset) == (message.attempts, message.half_offset)


@given(noted_records)
def test_properties_are_left_out_by_name(message):
    copy = without_properties(copy_of(encode_record(message)), frozenset({"NOTE", "b"}))
    (left,) = decoded(copied_block("t", [copy]))
    dropped = {"NOTE", "b", PropertyName.PRODUCER_SEQUENCE}
    assert left.properties == {
        name: value for name, value in message.properties.items() if name not in dropped
    }


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        (b"a\x01b", {"a": "b"}),  # Java leaves the last separator out.
        (b"a\x01b\x02\x02c\x01\x02", {"a": "b"}),
        (b"a\x01\xff\x02", {"a": "�"}),
        (b"", {}),
    ],
)
def test_properties_of_others_are_made_whole(properties, expected):
    record = bytearray(encode_record(RecordFields(topic="t", body=b"b"), checksum=False))
    record[-2:] = struct.pack(">H", len(properties))
    record += properties
    record[:4] = struct.pack(">i", len(record))
    block = copied_block("t", [copy_of(record)])
    assert bytes(block.records).endswith(b"\x02")
    assert [message.properties for message in decoded(block)] == [expected]


def test_a_damaged_record_has_no_copy():
    record = bytearray(encode_record(RecordFields(topic="t", body=b"body")))
    # Not in the name of the checksum: without it a record is one of those that have none.
    for place in (*range(0, len(record) - 20, 5), len(record) - 5):
        record[place] ^= 1
        with pytest.raises(RecordCorrupted):
            copy_of(record)
        record[place] ^= 1
    assert copy_of(record).body == b"body"


def test_what_the_format_cannot_carry_is_refused():
    copy = copy_of(encode_record(RecordFields(topic="t", body=b"")))
    with pytest.raises(RecordTooLarge, match="topic of 40000 bytes"):
        copied_block("t" * 40000, [copy])
    with pytest.raises(RecordTooLarge, match="properties of 32788 bytes"):
        copied_block("t", [copy._replace(properties=b"a\x01" + b"x" * 32765 + b"\x02")])
