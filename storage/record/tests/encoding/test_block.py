import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_ordering import java_string_hash
from ariane_record.checksums.checksum import masked_crc32
from ariane_record.checksums.java_hash import key_hash
from ariane_record.encoding.message_properties import KEYS_MAX
from ariane_record.errors import IllegalProperty, RecordTooLarge
from ariane_record.layout import CRC_PROPERTY_BYTES, EMPTY_CRC_PROPERTY
from ariane_record.single.message import (
    RecordFields,
    decode_record,
    encode_record,
    record_checksum_ok,
)
from ariane_record.single.record_copy import encode_block
from ariane_record.testing.block_encoder import BlockEncoder, BlockFull
from ariane_record.testing.strategies import blocks, message_arguments, record_fields, topic_names

NOON = 1_700_000_000_000


@pytest.fixture
def encoder():
    return BlockEncoder("TopicTest", size_bytes_max=1 << 20)


def records_of(block):
    ends = np.cumsum(block.sizes).tolist()
    return [block.records[end - size : end] for end, size in zip(ends, block.sizes, strict=True)]


def expected_fields(topic, arguments):
    """What a record must say, straight from the arguments."""
    properties = dict(arguments.get("properties") or {})
    if arguments.get("keys"):
        properties["KEYS"] = " ".join(arguments["keys"])
    for argument, name in [
        ("tag", "TAGS"),
        ("unique_id", "UNIQ_KEY"),
        ("message_group", "__SHARDINGKEY"),
    ]:
        if arguments.get(argument):
            properties[name] = arguments[argument]
    return RecordFields(
        topic=topic,
        body=arguments["body"],
        properties=properties,
        flag=arguments.get("flag", 0),
        system_flag=arguments.get("system_flag", 0),
        born_timestamp_ms=arguments["born_timestamp_ms"],
        body_crc=masked_crc32(arguments["body"]),
    )


@given(topic_names(), st.lists(message_arguments(), max_size=6))
def test_each_record_says_what_was_added(topic, messages):
    encoder = BlockEncoder(topic, size_bytes_max=1 << 20)
    sizes = [encoder.add(**arguments) for arguments in messages]
    assert encoder.count == len(messages)
    assert encoder.size_bytes == sum(sizes)

    block = encoder.finish()

    assert block.topic == topic
    assert block.count == len(messages)
    assert block.sizes.tolist() == sizes
    assert block.size_bytes == len(block.records) == sum(sizes)
    assert block.crc32 == zlib.crc32(block.records)
    for record, arguments in zip(records_of(block), messages, strict=True):
        decoded = decode_record(record, verify=False)
        expected = expected_fields(topic, arguments)
        assert decoded == expected
        assert list(decoded.properties) == list(expected.properties)
        assert record.endswith(EMPTY_CRC_PROPERTY)


@given(blocks())
def test_columns_are_those_of_the_records(block):
    """The broker takes tag codes and key hashes from the block: a record must say the same."""
    tag_codes, key_counts, hashes = [], [], []
    for record in records_of(block):
        fields = decode_record(record, verify=False)
        keys = [fields.unique_id] if fields.unique_id else []
        keys += fields.keys
        tag_codes.append(java_string_hash(fields.tag))
        key_counts.append(len(keys))
        hashes += [key_hash(block.topic, key) for key in keys]

    assert block.tag_codes.tolist() == tag_codes
    assert block.key_counts.tolist() == key_counts
    assert block.key_hashes.tolist() == hashes


@given(blocks())
def test_columns_have_their_types(block):
    assert block.sizes.dtype == np.int32
    assert block.tag_codes.dtype == np.int32
    assert block.key_counts.dtype == np.uint8
    assert block.key_hashes.dtype == np.int32


@given(blocks(count_min=1))
def test_a_record_is_whole_once_its_checksum_is_filled_in(block):
    for record in records_of(block):
        fields = decode_record(record, verify=False)
        with_checksum = encode_record(fields)

        assert with_checksum[:-CRC_PROPERTY_BYTES] == record[:-CRC_PROPERTY_BYTES]
        assert record_checksum_ok(with_checksum, required=True)


def test_finish_starts_anew(encoder):
    encoder.add(b"first", keys=["k"], tag="t", born_timestamp_ms=NOON)
    first = encoder.finish()

    assert encoder.count == encoder.size_bytes == 0
    assert encoder.finish().count == 0
    encoder.add(b"second", born_timestamp_ms=NOON)
    second = encoder.finish()
    assert first.count == second.count == 1
    assert b"first" in first.records
    assert b"first" not in second.records
    assert second.key_hashes.tolist() == second.tag_codes[1:].tolist() == []


def test_clear_forgets(encoder):
    encoder.add(b"first", keys=["k"], tag="t", born_timestamp_ms=NOON)

    encoder.clear()

    assert encoder.count == encoder.size_bytes == encoder.finish().count == 0


def test_a_full_block_stays_as_it_is():
    encoder = BlockEncoder("t", size_bytes_max=400)
    size = encoder.add(b"x" * 100, tag="a", keys=["k"], born_timestamp_ms=NOON)
    with pytest.raises(BlockFull):
        encoder.add(b"x" * 200, tag="b", keys=["l"], unique_id="u", born_timestamp_ms=NOON)

    block = encoder.finish()

    assert block.sizes.tolist() == [size]
    assert block.key_counts.tolist() == [1]
    assert block.tag_codes.tolist() == [java_string_hash("a")]


def test_the_last_byte_may_be_used():
    size = BlockEncoder("t", size_bytes_max=1000).add(b"body", born_timestamp_ms=NOON)
    encoder = BlockEncoder("t", size_bytes_max=2 * size)
    encoder.add(b"body", born_timestamp_ms=NOON)
    encoder.add(b"body", born_timestamp_ms=NOON)

    with pytest.raises(BlockFull):
        encoder.add(b"", born_timestamp_ms=NOON)
    with pytest.raises(RecordTooLarge):
        encoder.add(b"x" * (2 * size), born_timestamp_ms=NOON)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"tag": "a\x01b"}, IllegalProperty),
        ({"tag": "a\x02b"}, IllegalProperty),
        ({"unique_id": "\x02"}, IllegalProperty),
        ({"message_group": "a\x01b"}, IllegalProperty),
        ({"keys": ["a b"]}, IllegalProperty),
        ({"keys": [""]}, IllegalProperty),
        ({"keys": ["a", "", "b"]}, IllegalProperty),
        ({"keys": ["a\x01"]}, IllegalProperty),
        ({"keys": "k1"}, TypeError),
        ({"keys": ["k"] * (KEYS_MAX + 1)}, RecordTooLarge),
        ({"keys": ["k"] * KEYS_MAX, "unique_id": "u"}, RecordTooLarge),
        ({"properties": {"": "v"}}, IllegalProperty),
        ({"properties": {"n": ""}}, IllegalProperty),
        ({"properties": {"n\x01": "v"}}, IllegalProperty),
        ({"properties": {"n": "v\x02w"}}, IllegalProperty),
        ({"properties": {"n": "v\x01"}, "tag": "t"}, IllegalProperty),
        ({"properties": {"n": "\udc80"}}, IllegalProperty),
        ({"properties": {"TAGS": "t"}}, IllegalProperty),
        ({"properties": {"KEYS": "k"}}, IllegalProperty),
        ({"properties": {"UNIQ_KEY": "u"}}, IllegalProperty),
        ({"properties": {"__SHARDINGKEY": "g"}}, IllegalProperty),
        ({"properties": {"__CRC32#": "0"}}, IllegalProperty),
        ({"properties": {"n": "v" * 32767}}, RecordTooLarge),
        ({"body": "text"}, TypeError),
        ({"body": 5}, TypeError),
        ({"system_flag": 0x10}, ValueError),
        ({"system_flag": 0x20}, ValueError),
        ({"flag": 1 << 31}, struct.error),
    ],
)
def test_a_refused_record_leaves_no_trace_in_its_block(encoder, arguments, error):
    with pytest.raises(error):
        encoder.add(**({"body": b"", "born_timestamp_ms": NOON} | arguments))

    assert encoder.count == encoder.size_bytes == 0
    block = encoder.finish()
    assert block.records == b""
    assert block.key_hashes.tolist() == block.key_counts.tolist() == []


def test_most_keys(encoder):
    encoder.add(b"", keys=["k"] * (KEYS_MAX - 1), unique_id="u", born_timestamp_ms=NOON)

    assert encoder.finish().key_counts.tolist() == [KEYS_MAX]


def test_a_body_is_taken_as_it_is_at_the_call(encoder):
    body = bytearray(b"before")
    encoder.add(body, born_timestamp_ms=NOON)
    body[:] = b"after!"
    encoder.add(memoryview(body)[::1], born_timestamp_ms=NOON)

    bodies = [decode_record(record, verify=False).body for record in records_of(encoder.finish())]

    assert bodies == [b"before", b"after!"]


def test_a_topic_beyond_its_length_field():
    with pytest.raises(RecordTooLarge):
        BlockEncoder("t" * 32768, size_bytes_max=1 << 20)


@given(topic_names(), st.lists(record_fields(), max_size=4))
def test_a_block_of_fields_is_that_of_their_arguments(topic, messages):
    block = encode_block(topic, messages)
    encoder = BlockEncoder(topic, size_bytes_max=1 << 20)

    for record, message in zip(records_of(block), messages, strict=True):
        nowhere = ("0.0.0.0", 0)  # noqa: S104
        assert decode_record(record, verify=False) == replace(
            message,
            topic=topic,
            queue_id=0,
            queue_offset=0,
            commit_log_offset=0,
            store_timestamp_ms=0,
            born_host=nowhere,
            store_host=nowhere,
            body_crc=masked_crc32(message.body),
        )
        assert record.endswith(EMPTY_CRC_PROPERTY)
        own = {"KEYS", "TAGS", "UNIQ_KEY", "__SHARDINGKEY"}
        encoder.add(
            message.body,
            tag=message.tag,
            keys=message.keys,
            unique_id=message.unique_id,
            message_group=message.message_group,
            properties={name: v for name, v in message.properties.items() if name not in own},
            born_timestamp_ms=message.born_timestamp_ms,
        )
    same = encoder.finish()
    assert block.sizes.tolist() == same.sizes.tolist()
    assert block.tag_codes.tolist() == same.tag_codes.tolist()
    assert block.key_counts.tolist() == same.key_counts.tolist()
    assert block.key_hashes.tolist() == same.key_hashes.tolist()
    assert block.crc32 == zlib.crc32(block.records)


def test_more_keys_than_an_index_takes_stay_with_the_message():
    keys = [f"k{number}" for number in range(KEYS_MAX + 5)]
    message = RecordFields(
        topic="t", body=b"", properties={"UNIQ_KEY": "u", "KEYS": " ".join(keys)}
    )

    block = encode_block("t", [message])

    assert block.key_counts.tolist() == [KEYS_MAX]
    assert block.key_hashes.tolist() == [key_hash("t", key) for key in ["u", *keys][:KEYS_MAX]]
    assert list(decode_record(block.records, verify=False).keys) == keys
