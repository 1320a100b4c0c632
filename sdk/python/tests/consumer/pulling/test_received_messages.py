"""Pulled records become messages, whatever they look like."""

import dataclasses
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ariane_record import RecordFields, encode_record
from ariane_record.errors import RecordCorrupted
from ariane_record.layout import HEADER_BYTES, SYSTEM_FLAG_START, SystemFlag
from ariane_record.single.view import iter_messages
from ariane_sdk import MessageQueue
from ariane_sdk.consumer.pulling.received_messages import (
    COLUMNS_RECORDS_MIN,
    PulledMessage,
    queue_offsets_of,
    received_messages,
)
from ariane_sdk.message import ReceivedMessage

QUEUE = MessageQueue("orders", "broker-a", 3)
ATTRIBUTES = (
    *("topic", "body", "tag", "keys", "properties", "message_group", "unique_id", "message_id"),
    *("offset_message_id", "size_bytes", "queue_id", "flag", "queue_offset", "commit_log_offset"),
    *("system_flag", "born_timestamp_ms", "born_host", "store_timestamp_ms", "store_host"),
    *("attempts", "stored_body"),
)

text = st.text(st.characters(codec="utf-8", min_codepoint=32), min_size=1, max_size=8)
fields = st.builds(
    RecordFields,
    topic=st.sampled_from(["orders", "orders", "orders", "orderz", "%RETRY%billing"]),
    body=st.binary(max_size=40),
    properties=st.dictionaries(st.sampled_from(["a", "TAGS", "KEYS", "UNIQ_KEY"]), text),
    queue_id=st.integers(0, 9),
    queue_offset=st.integers(0, 1 << 40),
    commit_log_offset=st.integers(0, 1 << 40),
    flag=st.integers(-(1 << 31), (1 << 31) - 1),
    born_timestamp_ms=st.integers(0, 1 << 40),
    born_host=st.sampled_from([("10.0.0.1", 1), ("10.0.0.2", 65535), ("fe80::1", 7)]),
    store_host=st.sampled_from([("10.0.0.3", 10911), ("fe80::2", 10911)]),
    attempts=st.integers(0, 16),
)


def packed(records):
    return b"".join(records), np.array(list(map(len, records)), np.int32)


@given(st.lists(st.tuples(fields, st.integers(1, 24)), min_size=1, max_size=6))
def test_messages_are_those_that_are_read_one_by_one(many):
    alike = (count * [encode_record(fields)] for fields, count in many)
    records, sizes = packed(list(chain.from_iterable(alike)))

    messages = received_messages(memoryview(records), sizes, QUEUE)

    views = list(iter_messages(records, sizes))
    assert queue_offsets_of(messages).tolist() == [view.queue_offset for view in views]
    for message, view in zip(messages, views, strict=True):
        assert type(message.body) is bytes
        for name in ATTRIBUTES:
            assert getattr(message, name) == getattr(view, name)
        assert message.message_queue is QUEUE
        assert "ReceivedMessage orders@broker-a#3" in repr(message)


def test_records_of_one_topic_are_cut_at_once_and_their_headers_wait():
    record = encode_record(RecordFields(topic="orders", body=b"x", queue_offset=7))
    messages = received_messages(*packed([record] * COLUMNS_RECORDS_MIN), QUEUE)

    assert {type(message) for message in messages} == {PulledMessage}
    assert messages[0].queue_offset == 7
    with pytest.raises(AttributeError, match="no_such"):
        messages[0].no_such  # noqa: B018 - asking is the matter.


def test_a_few_records_are_not_worth_columns():
    record = encode_record(RecordFields(topic="orders", body=b"x", queue_offset=7))
    messages = received_messages(*packed([record] * (COLUMNS_RECORDS_MIN - 1)), QUEUE)

    assert {type(message) for message in messages} == {ReceivedMessage}
    assert messages[0].queue_offset == 7


@pytest.mark.parametrize("run", [2, 100])
def test_neighbours_of_one_size_are_cut_at_once(run):
    parts = [
        RecordFields(topic="orders", body=body, properties={"a": value}, queue_offset=place)
        for place, (body, value) in enumerate([(b"xy", "z"), (b"x", "yz"), (b"", "xyz")] * 4)
        for _ in range(run)
    ]
    messages = received_messages(*packed(list(map(encode_record, parts))), QUEUE)

    assert {type(message) for message in messages} == {PulledMessage}
    found = [(each.body, each.properties["a"], each.queue_offset) for each in messages]
    assert found == [(each.body, each.properties["a"], each.queue_offset) for each in parts]


def same(messages, records, sizes):
    views = iter_messages(records, sizes)
    return all(
        getattr(message, name) == getattr(view, name)
        for message, view in zip(messages, views, strict=True)
        for name in ATTRIBUTES
    )


@settings(max_examples=12)
@given(st.lists(st.tuples(fields, st.integers(1, 200)), min_size=1, max_size=4))
def test_long_runs_of_records_that_are_alike_are_cut_at_once(many):
    parts = [
        encode_record(dataclasses.replace(fields, queue_offset=number))
        for fields, count in many
        for number in range(count)
    ]
    records, sizes = packed(parts)
    assert same(received_messages(memoryview(records), sizes, QUEUE), records, sizes)


@pytest.mark.parametrize("position", [0, 70, 199])
@pytest.mark.parametrize(
    ("place", "mask"),
    [
        (4, 1),  # Magic code.
        (SYSTEM_FLAG_START + 3, SystemFlag.COMPRESSED),
        (SYSTEM_FLAG_START + 3, SystemFlag.BORN_HOST_IPV6),
        (HEADER_BYTES - 1, 1),  # Length of the body.
        (HEADER_BYTES + 4, 1),  # Length of the topic.
        (HEADER_BYTES + 5, 1),  # The topic.
        (HEADER_BYTES + 5 + len("orders") + 1, 1),  # Length of the properties.
    ],
)
def test_one_record_that_is_not_alike_is_not_cut_like_the_others(position, place, mask):
    record = encode_record(RecordFields(topic="orders", body=b"body", properties={"a": "b" * 40}))
    records, sizes = bytearray(record * 200), np.full(200, len(record), np.int32)
    records[position * len(record) + place] ^= mask
    try:
        views = list(iter_messages(bytes(records), sizes))
    except RecordCorrupted:
        with pytest.raises(RecordCorrupted):
            received_messages(memoryview(records), sizes, QUEUE)
        return
    messages = received_messages(memoryview(records), sizes, QUEUE)
    assert [message.topic for message in messages] == [view.topic for view in views]
    assert messages[position].system_flag == views[position].system_flag


@pytest.mark.parametrize("size", [0, 10, 90])
def test_sizes_that_no_record_has_are_damage(size):
    with pytest.raises(RecordCorrupted):
        received_messages(bytes(100 * size), np.full(100, size, np.int32), QUEUE)


@pytest.mark.parametrize("count", [1, COLUMNS_RECORDS_MIN])
def test_damage_is_told(count):
    record = encode_record(RecordFields(topic="orders", body=b"x"))
    records, sizes = packed([record] * count)
    sizes[-1] -= 1
    with pytest.raises(RecordCorrupted):
        received_messages(records, sizes, QUEUE)
    with pytest.raises(RecordCorrupted):
        received_messages(records[:-1], sizes, QUEUE)
