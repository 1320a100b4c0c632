from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_record.checksums.checksum import masked_crc32
from ariane_record.errors import IllegalProperty, RecordCorrupted, RecordTooLarge
from ariane_record.layout import CRC_PROPERTY_BYTES, RECORD_BYTES_MIN
from ariane_record.single.message import (
    RecordFields,
    decode_record,
    encode_record,
    record_checksum_ok,
)
from ariane_record.testing.strategies import record_fields

GOLDEN_VECTOR = """
0000007b daa320a7 77d18982 00000003 00000000 0000000000000007 0000000000000000 00000000
0000018bcfe56800 7f000001 00003039 0000018bcfe56801 7f000001 00002a9f 00000000 0000000000000000
00000005 48656c6c6f 09 546f70696354657374 0012 4b455953 01 6b31 02 54414753 01 54616741 02
"""

HELLO = RecordFields(topic="TopicTest", body=b"Hello", properties={"TAGS": "TagA"})


def as_stored(fields):
    """The fields as they come back: the checksum of the body and the bits of the hosts are made."""
    bits = 0x10 * (":" in fields.born_host[0]) | 0x20 * (":" in fields.store_host[0])
    return replace(
        fields,
        system_flag=fields.system_flag | bits,
        body_crc=masked_crc32(fields.body),
    )


def test_the_first_golden_file_is_the_vector_of_the_format():
    golden = Path(__file__).parents[1] / "golden" / "v1_ipv4.bin"

    assert golden.read_bytes() == bytes.fromhex(GOLDEN_VECTOR)


def test_golden_files_are_what_their_writer_writes(golden_case, golden, record_bytes):
    _, case = golden_case

    assert golden[0] == record_bytes(case)


def test_golden_decode(golden):
    record, fields, has_checksum = golden

    assert decode_record(record) == as_stored(fields)
    assert decode_record(memoryview(record)) == as_stored(fields)
    assert record_checksum_ok(record)
    assert record_checksum_ok(record, required=True) == has_checksum


def test_golden_encode(golden):
    record, fields, has_checksum = golden

    assert encode_record(fields, checksum=has_checksum) == record


@given(record_fields(), st.booleans())
def test_round_trip(fields, has_checksum):
    record = encode_record(fields, checksum=has_checksum)

    assert decode_record(record) == as_stored(fields)
    assert record_checksum_ok(record, required=has_checksum)


@given(fields=record_fields(), has_checksum=st.booleans())
def test_any_record_is_as_the_plain_writer_writes_it(record_bytes, fields, has_checksum):
    case = asdict(fields) | {"body": fields.body.hex(), "checksum": has_checksum}

    assert encode_record(fields, checksum=has_checksum) == record_bytes(case)


def test_accessors():
    fields = RecordFields(
        topic="t",
        body=b"",
        properties={"KEYS": "a  b ", "TAGS": "x", "UNIQ_KEY": "u", "__SHARDINGKEY": "g"},
    )

    assert fields.keys == ("a", "b")
    assert (fields.tag, fields.unique_id, fields.message_group) == ("x", "u", "g")
    bare = RecordFields(topic="t", body=b"")
    assert (bare.keys, bare.tag, bare.unique_id, bare.message_group) == ((), "", "", "")


@given(fields=record_fields(), change=st.integers(1, 255), place=st.floats(0, 1, exclude_max=True))
def test_damage_of_any_covered_byte_is_seen(fields, change, place):
    record = bytearray(encode_record(fields))
    record[int(place * (len(record) - CRC_PROPERTY_BYTES))] ^= change

    assert not record_checksum_ok(record)


def test_damage_of_each_byte_of_the_golden_records(golden):
    record, fields, has_checksum = golden
    body_start = record.index(fields.body)
    body = range(body_start, body_start + len(fields.body))
    for place in range(len(record)) if has_checksum else body:
        for change in (0x01, 0x80, 0xFF):
            damaged = bytearray(record)
            damaged[place] ^= change

            assert not record_checksum_ok(damaged, required=has_checksum), (
                f"byte {place} ^ {change:#x}"
            )


def test_without_checksum_the_body_decides():
    record = bytearray(encode_record(HELLO, checksum=False))
    body_start = record.index(b"Hello")
    record[body_start] ^= 1

    assert not record_checksum_ok(record)
    with pytest.raises(RecordCorrupted, match="body"):
        decode_record(record)
    assert decode_record(record, verify=False).body == b"Iello"


def test_a_body_may_end_like_a_checksum():
    # A foreign record without checksum whose last twenty bytes would look like one.
    fields = RecordFields(topic="t", body=b"__CRC32#\x010000000", properties={})
    record = encode_record(fields, checksum=False)
    assert record[-CRC_PROPERTY_BYTES:].startswith(b"__CRC32#\x01")

    assert decode_record(record) == as_stored(fields)
    assert not record_checksum_ok(record, required=True)


@given(record_fields(), st.data())
def test_a_record_cut_short_or_too_long_is_none(fields, data):
    record = encode_record(fields)
    length = data.draw(st.integers(0, len(record) - 1))

    with pytest.raises(RecordCorrupted):
        decode_record(record[:length], verify=False)
    with pytest.raises(RecordCorrupted):
        decode_record(record + b"\0", verify=False)


@given(st.binary(max_size=RECORD_BYTES_MIN + 40))
def test_noise_is_no_record(noise):
    with pytest.raises(RecordCorrupted):
        decode_record(noise)
    assert not record_checksum_ok(noise)


def test_a_topic_that_is_no_text_is_damage():
    record = encode_record(RecordFields(topic="tt", body=b""), checksum=False)

    with pytest.raises(RecordCorrupted, match="UTF-8"):
        decode_record(record.replace(b"tt", b"\xff\xff"))


def test_what_does_not_fit_is_refused():
    with pytest.raises(RecordTooLarge, match="topic"):
        encode_record(RecordFields(topic="t" * 32768, body=b""))
    room = 32767 - CRC_PROPERTY_BYTES - len("n\x01\x02")
    fits = RecordFields(topic="t", body=b"", properties={"n": "v" * room})
    assert decode_record(encode_record(fits)).properties == fits.properties
    with pytest.raises(RecordTooLarge, match="properties"):
        encode_record(replace(fits, properties={"n": "v" * (room + 1)}))


def test_the_checksum_is_not_for_the_caller_to_set():
    with pytest.raises(IllegalProperty):
        encode_record(replace(HELLO, properties={"__CRC32#": "0"}))
