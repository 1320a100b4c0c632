from dataclasses import replace
from ipaddress import ip_address

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_record.decoding.columns import decode_columns, gather_headers
from ariane_record.errors import RecordCorrupted
from ariane_record.layout import HEADER, HEADER_BYTES, RECORD_BYTES_MIN, SYSTEM_FLAG_START
from ariane_record.single.message import RecordFields, decode_record, encode_record
from ariane_record.single.message_id import encode_offset_message_id
from ariane_record.single.view import iter_messages
from ariane_record.testing.strategies import record_fields

RECORD = RecordFields(topic="TopicTest", body=b"Hello", properties={"TAGS": "TagA"})

SOME_RECORDS = st.lists(
    st.builds(
        lambda fields, checksum: encode_record(fields, checksum=checksum),
        record_fields(st.sampled_from(["a", "b", "topic", "t" * 130, "t" * 300])),
        st.booleans(),
    ),
    max_size=6,
)


def packed(records):
    return b"".join(records), np.array([len(record) for record in records], np.int32)


def all_messages(block, sizes):
    """By way of the columns, topics included, which are decoded where they are asked for."""
    columns = decode_columns(block, sizes)
    return [columns.message(position) for position in range(len(columns))]


def accepted_one_by_one(block, sizes):
    """Which bytes the decoder of single records takes for records."""
    start = 0
    for size in sizes.tolist():
        try:
            decode_record(block[start : start + size], verify=False)
        except RecordCorrupted:
            return False
        start += size
    return True


@given(SOME_RECORDS, st.sampled_from([bytes, bytearray, memoryview]))
def test_columns_equal_decoding_one_by_one(records, kind):
    block, sizes = packed(records)
    columns = decode_columns(kind(block), sizes)
    expected = [decode_record(record) for record in records]

    assert len(columns) == len(records)
    assert columns.sizes.tolist() == [len(record) for record in records]
    for name in (
        "queue_id",
        "queue_offset",
        "commit_log_offset",
        "flag",
        "system_flag",
        "born_timestamp_ms",
        "store_timestamp_ms",
        "attempts",
        "half_offset",
        "body_crc",
    ):
        column = getattr(columns, name)
        assert column.dtype.isnative
        assert column.tolist() == [getattr(fields, name) for fields in expected]
    for host in ("born", "store"):
        hosts = [getattr(fields, f"{host}_host") for fields in expected]
        assert columns.headers[f"{host}_port"].tolist() == [port for _, port in hosts]
        addresses = columns.headers[f"{host}_ip"].tolist()
        for address, (ip, _) in zip(addresses, hosts, strict=True):
            assert ":" in ip or address == int(ip_address(ip))
    assert columns.bodies() == [fields.body for fields in expected]
    starts, lengths = columns.topic_start, columns.topic_length
    spans = zip(starts, starts + lengths, strict=True)
    topics = [block[start:end].decode() for start, end in spans]
    assert topics == [fields.topic for fields in expected]
    assert [columns.message(position) for position in range(len(columns))] == expected


@given(SOME_RECORDS, st.sampled_from([bytes, bytearray, memoryview]))
def test_messages_equal_decoding_one_by_one(records, kind):
    block, sizes = packed(records)
    views = list(iter_messages(kind(block), sizes))

    assert len(views) == len(records)
    for view, record in zip(views, records, strict=True):
        fields = decode_record(record)
        for name in (
            "topic",
            "body",
            "tag",
            "keys",
            "unique_id",
            "message_group",
            "properties",
            "queue_id",
            "queue_offset",
            "commit_log_offset",
            "flag",
            "system_flag",
            "born_timestamp_ms",
            "born_host",
            "store_timestamp_ms",
            "store_host",
            "attempts",
        ):
            assert getattr(view, name) == getattr(fields, name), name
        assert type(view.body) is bytes
        assert view.size_bytes == len(record)
        place = encode_offset_message_id(fields.store_host, fields.commit_log_offset)
        assert view.offset_message_id == place
        assert view.message_id == (fields.unique_id or place)
        assert view.topic in repr(view)


def test_no_records_are_no_columns():
    columns = decode_columns(*packed([]))

    assert list(columns.iter_messages()) == columns.bodies() == columns.queue_id.tolist() == []


def test_messages_of_columns_are_those_of_their_records():
    block, sizes = packed([encode_record(RECORD), encode_record(replace(RECORD, body=b"second"))])

    views = decode_columns(block, sizes).iter_messages()

    assert [view.body for view in views] == [b"Hello", b"second"]


@given(SOME_RECORDS.filter(bool), st.data())
def test_damage_is_refused_by_all_decoders_alike(records, data):
    block, sizes = packed(records)
    damaged = bytearray(block)
    for _ in range(data.draw(st.integers(1, 3))):
        # Lengths and flags are where damage is dangerous, bodies where it is not.
        record = data.draw(st.integers(0, len(records) - 1))
        start = int(sizes[:record].sum())
        near = st.sampled_from([0, 1, 2, 3, 4, 7, 36, 37, 38, 39, 84, 85, 86, 87, 88, 90])
        anywhere = st.integers(0, int(sizes[record]) - 1)
        place = start + data.draw(near | anywhere)
        damaged[place] = data.draw(st.sampled_from([0, 1, 0x10, 0x7F, 0x80, 0xFF]))
    accepted = accepted_one_by_one(bytes(damaged), sizes)

    if accepted:
        expected = all_messages(damaged, sizes)
        views = list(iter_messages(damaged, sizes))
        assert [view.stored_body for view in views] == [fields.body for fields in expected]
        assert [view.properties for view in views] == [fields.properties for fields in expected]
    else:
        with pytest.raises(RecordCorrupted):
            list(iter_messages(damaged, sizes))
        with pytest.raises(RecordCorrupted):
            all_messages(damaged, sizes)


def with_number(record, place, value, size=4):
    """The record with one of its numbers replaced."""
    return record[:place] + value.to_bytes(size, "big", signed=True) + record[place + size :]


def resized(record):
    return with_number(record, 0, len(record))


def negative_body():
    # The last byte of a body length of -1 is read as a topic length of 255, and all adds up.
    header = with_number(encode_record(RECORD)[:HEADER_BYTES], BODY_LENGTH, -1)
    return resized(header + bytes(255) + bytes(2))


def negative_body_and_a_topic_in_the_header():
    # The topic of the record before is found before the body length, whose own first bytes are
    # then read as the length of the properties: 0xffff.
    topic_part = bytes([9]) + b"TopicTest"
    body_end = BODY_LENGTH - len(topic_part)
    header = with_number(PLAIN, BODY_LENGTH, body_end - HEADER_BYTES)[:HEADER_BYTES]
    record = header[:body_end] + topic_part + header[BODY_LENGTH:]
    return resized(record + bytes(BODY_LENGTH + 2 + 0xFFFF - HEADER_BYTES))


def topic_at_the_very_end():
    # The body reaches so far that the topic is found in the properties, with nothing behind it.
    record = encode_record(replace(RECORD, properties={"n": "v\x09TopicTest"}), checksum=False)[:-1]
    body_length = len(record) - len("\x09TopicTest") - HEADER_BYTES
    return resized(with_number(record, BODY_LENGTH, body_length))


def topic_beyond_the_end():
    place = PLAIN.index(b"TopicTest") - 1
    return PLAIN[:place] + b"\xff" + PLAIN[place + 1 :]


def too_short_for_its_hosts():
    return resized(with_number(PLAIN, SYSTEM_FLAG_START, 0x30)[:RECORD_BYTES_MIN])


BODY_LENGTH = HEADER_BYTES - 4
PLAIN = encode_record(RECORD, checksum=False)
CRAFTED = [
    negative_body(),
    negative_body_and_a_topic_in_the_header(),
    topic_at_the_very_end(),
    topic_beyond_the_end(),
    too_short_for_its_hosts(),
    resized(PLAIN + b"\0"),
    resized(PLAIN[:-1]),
    resized(PLAIN[: RECORD_BYTES_MIN - 1]),
    with_number(PLAIN, BODY_LENGTH, (1 << 31) - 1),
    with_number(PLAIN, BODY_LENGTH, -(1 << 31)),
    b"",
]


@pytest.mark.parametrize("crafted", CRAFTED)
@pytest.mark.parametrize("before", [[], [PLAIN]])
@pytest.mark.parametrize("after", [[], [PLAIN]])
def test_crafted_records_are_refused_by_all_decoders(crafted, before, after):
    block, sizes = packed([*before, crafted, *after])

    with pytest.raises(RecordCorrupted):
        decode_record(crafted, verify=False)
    with pytest.raises(RecordCorrupted) as refusal:
        list(iter_messages(block, sizes))
    assert refusal.value.position == len(before)
    with pytest.raises(RecordCorrupted) as refusal:
        decode_columns(block, sizes)
    assert refusal.value.position == len(before)


def test_a_longer_host_is_not_taken_for_a_body_length():
    # Where an IPv4 record has its body length, this one has its attempts; they agree by chance.
    second = replace(RECORD, born_host=("::1", 5), attempts=len(RECORD.body) + 12)
    block, sizes = packed([encode_record(RECORD), encode_record(second)])

    _, view = iter_messages(block, sizes)

    assert (view.body, view.born_host, view.attempts) == (b"Hello", ("::1", 5), second.attempts)


@given(SOME_RECORDS.filter(bool), st.data())
def test_sizes_that_lie_are_refused(records, data):
    block, sizes = packed(records)
    lying = sizes.copy()
    lying[data.draw(st.integers(0, len(sizes) - 1))] += data.draw(
        st.integers(-(1 << 20), 1 << 20).filter(bool)
    )

    with pytest.raises(RecordCorrupted):
        decode_columns(block, lying)
    with pytest.raises(RecordCorrupted):
        list(iter_messages(block, lying))


def test_the_error_names_the_record():
    record = encode_record(RECORD)
    block, sizes = packed([record] * 3)
    damaged = bytearray(block)
    damaged[2 * len(record) + 4] ^= 0xFF

    with pytest.raises(RecordCorrupted, match="magic") as refusal:
        decode_columns(damaged, sizes)
    assert refusal.value.position == 2
    with pytest.raises(RecordCorrupted, match="magic") as refusal:
        list(iter_messages(damaged, sizes))
    assert refusal.value.position == 2


@given(SOME_RECORDS)
def test_gathered_headers_are_those_at_the_starts(records):
    block, sizes = packed(records)
    starts = np.cumsum(sizes, dtype=np.int64) - sizes

    headers = gather_headers(block, starts)

    assert headers.dtype == HEADER
    expected = b"".join(record[:HEADER_BYTES] for record in records)
    assert headers.tobytes() == expected


def test_properties_are_decoded_once():
    (view,) = iter_messages(*packed([encode_record(RECORD)]))

    assert view.properties is view.properties
