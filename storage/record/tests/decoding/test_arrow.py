import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ariane_record.decoding import arrow
from ariane_record.decoding.arrow import COLUMN_NAMES, OWN_COLUMNS, arrow_schema, to_arrow
from ariane_record.decoding.columns import decode_columns
from ariane_record.errors import RecordCorrupted
from ariane_record.single.message import RecordFields, decode_record, encode_record
from ariane_record.single.message_id import encode_offset_message_id
from ariane_record.testing.strategies import record_fields

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UTC_MICROSECONDS = pa.timestamp("us", tz="UTC")


def columns_of(records):
    sizes = np.array([len(record) for record in records], np.int32)
    return decode_columns(b"".join(records), sizes)


def instant(milliseconds):
    return EPOCH + timedelta(milliseconds=milliseconds)


def expected_row(fields):
    """A row as the documentation of the columns has it, from one decoded record."""
    delivery = fields.properties.get("TIMER_DELIVER_MS")
    place = encode_offset_message_id(fields.store_host, fields.commit_log_offset)
    return {
        "topic": fields.topic,
        "queueId": fields.queue_id,
        "queueOffset": fields.queue_offset,
        "messageId": fields.unique_id or place,
        "keys": list(fields.keys),
        "tag": fields.tag or None,
        "messageGroup": fields.message_group or None,
        "properties": [pair for pair in fields.properties.items() if pair[0] not in OWN_COLUMNS],
        "bornTimestamp": instant(fields.born_timestamp_ms),
        "storeTimestamp": instant(fields.store_timestamp_ms),
        "deliveryTimestamp": instant(int(delivery)) if delivery else None,
        "reconsumeTimes": fields.attempts,
        "body": fields.body,
    }


@given(
    st.lists(record_fields(st.sampled_from(["a", "topic", "t" * 130])), max_size=6),
    st.booleans(),
    st.permutations(COLUMN_NAMES).flatmap(
        lambda names: st.integers(0, len(names)).map(lambda count: names[:count])
    ),
)
def test_arrow_equals_decoding_one_by_one(messages, has_checksum, names):
    records = [encode_record(fields, checksum=has_checksum) for fields in messages]

    batch = to_arrow(columns_of(records), names)

    batch.validate(full=True)
    assert batch.schema == arrow_schema(names)
    rows = [expected_row(decode_record(record)) for record in records]
    expected = [{name: row[name] for name in names} for row in rows]
    assert batch.to_pylist() == (expected if names else [])


def test_schema_is_the_one_that_spark_wants():
    schema = arrow_schema()

    assert {field.name: field.type for field in schema} == {
        "topic": pa.string(),
        "queueId": pa.int32(),
        "queueOffset": pa.int64(),
        "messageId": pa.string(),
        "keys": pa.list_(pa.string()),
        "tag": pa.string(),
        "messageGroup": pa.string(),
        "properties": pa.map_(pa.string(), pa.string()),
        "bornTimestamp": UTC_MICROSECONDS,
        "storeTimestamp": UTC_MICROSECONDS,
        "deliveryTimestamp": UTC_MICROSECONDS,
        "reconsumeTimes": pa.int32(),
        "body": pa.binary(),
    }
    assert all(field.nullable for field in schema)


def test_an_unknown_column_is_an_error():
    with pytest.raises(KeyError):
        to_arrow(columns_of([]), ["offset"])


@pytest.mark.parametrize("text", ["soon", "-5", "12345678901234567890", "1e3"])
def test_a_delivery_time_that_is_none_is_null(text):
    fields = RecordFields(topic="t", body=b"", properties={"TIMER_DELIVER_MS": text})
    other = replace(fields, properties={"TIMER_DELIVER_MS": "1500"})
    columns = columns_of([encode_record(fields), encode_record(other)])

    column = to_arrow(columns, ["deliveryTimestamp"]).column(0)

    assert column.to_pylist() == [None, instant(1500)]


def test_keys_are_what_stands_between_any_spaces():
    texts = ["a b", " a  b ", "   ", "a", "a    b   c"]
    messages = [RecordFields(topic="t", body=b"", properties={"KEYS": text}) for text in texts]
    columns = columns_of([encode_record(fields) for fields in messages])

    column = to_arrow(columns, ["keys"]).column(0)

    assert column.to_pylist() == [text.split() for text in texts]


def test_of_a_repeated_name_the_last_value_counts():
    record = encode_record(RecordFields(topic="t", body=b"", properties={"aa": "1", "ab": "2"}))
    columns = columns_of([record.replace(b"aa\x01", b"ab\x01")] * 2)

    batch = to_arrow(columns, ["properties"])

    assert batch.column(0).to_pylist() == [[("ab", "2")], [("ab", "2")]]


def test_a_topic_that_is_no_text_is_damage():
    record = encode_record(RecordFields(topic="tt", body=b""), checksum=False)
    other = encode_record(RecordFields(topic="ok", body=b""), checksum=False)

    for records in (
        [record.replace(b"tt", b"\xff\xff")] * 2,
        [other, record.replace(b"tt", b"\xff\xff")],
    ):
        with pytest.raises(RecordCorrupted, match="UTF-8"):
            to_arrow(columns_of(records), ["topic"])


def test_bodies_keep_no_hold_of_the_records():
    records = bytearray(encode_record(RecordFields(topic="t", body=b"before")))
    columns = decode_columns(records, np.array([len(records)], np.int32))
    batch = to_arrow(columns, ["body"])

    records[:] = bytes(len(records))

    assert batch.column(0).to_pylist() == [b"before"]


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(1, 400)), min_size=1, max_size=8
    ),
    st.sampled_from([pa.binary(), pa.string()]),
)
@example([(3, 2, 400), (2, 0, 400)], pa.binary())
@example([(0, 0, 300)], pa.binary())
def test_spans_are_copied_alike_in_runs_and_one_by_one(shapes, kind):
    """Runs of spans of one length, each with a gap behind it, however long they are."""
    shape_of_each = np.repeat(np.arange(len(shapes)), [count for _, _, count in shapes])
    lengths = np.array([length for length, _, _ in shapes], np.int64)[shape_of_each]
    steps = lengths + np.array([gap for _, gap, _ in shapes])[shape_of_each]
    starts = np.cumsum(steps) - steps
    buffer = (b"abcdefg" * (int(steps.sum()) // 7 + 1))[: int(steps.sum())]

    spans = arrow._spans(buffer, starts, starts + lengths, kind)

    spans.validate(full=True)
    expected = [
        buffer[start : start + length] for start, length in zip(starts, lengths, strict=True)
    ]
    assert spans.cast(pa.binary()).to_pylist() == expected


def test_only_this_module_needs_arrow():
    statement = "import ariane_record, sys; sys.exit('pyarrow' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", statement], check=False).returncode == 0
