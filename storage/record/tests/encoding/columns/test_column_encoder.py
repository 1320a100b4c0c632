"""Columns become the same bytes as messages one by one."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_record.encoding.columns.column_encoder import encode_columns, record_sizes
from ariane_record.encoding.columns.message_columns import MessageColumns
from ariane_record.encoding.message_properties import KEYS_MAX
from ariane_record.errors import IllegalColumn, RecordTooLarge
from ariane_record.single.producer_sequence import SEQUENCE_BYTES, ProducerSequence
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_record.testing.strategies import message_arguments, topic_names

NOON = 1_700_000_000_000
STRINGS = pa.list_(pa.string())
PAIRS = pa.map_(pa.string(), pa.string())
TYPES = {
    "body": (pa.binary(), pa.large_binary(), pa.binary_view()),
    "tag": (pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())),
    "keys": (STRINGS, pa.large_list(pa.large_string())),
    "message_group": (pa.string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())),
    "properties": (PAIRS, pa.map_(pa.large_string(), pa.large_string())),
    "flag": (pa.int32(), pa.int64()),
}


def array_of(name, kind, values):
    if name == "properties":
        values = [value if value is None else list(value.items()) for value in values]
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, kind)


@st.composite
def tables(draw):
    """Arguments of messages, and the same as arrays that are slices of longer ones."""
    whole = draw(st.lists(message_arguments(), max_size=12))
    start = draw(st.integers(0, len(whole)))
    stop = draw(st.integers(start, len(whole)))
    with_nulls = draw(st.booleans())
    empty = {"tag": "", "keys": (), "message_group": "", "properties": {}, "flag": 0}
    arrays = {}
    for name, kinds in TYPES.items():
        if name != "body" and not draw(st.booleans()):
            for arguments in whole:
                arguments.pop(name, None)
            continue
        values = [arguments.get(name) or empty.get(name, b"") for arguments in whole]
        if with_nulls and name != "body":
            values = [value or None for value in values]
        arrays[name] = array_of(name, draw(st.sampled_from(kinds)), values)[start:stop]
    for arguments in whole:
        arguments.pop("system_flag", None)
        arguments["born_timestamp_ms"] = NOON
    return whole[start:stop], arrays


def some_ids(count):
    return pa.array(map(str, range(count)), pa.string())


@st.composite
def with_unique_ids(draw):
    messages, arrays = draw(tables())
    ids = [arguments.get("unique_id") or "id" for arguments in messages]
    if draw(st.booleans()):
        ids = [f"7F000001{number:08X}" for number in range(len(messages))]
    for arguments, unique_id in zip(messages, ids, strict=True):
        arguments["unique_id"] = unique_id
    return messages, arrays, pa.array(ids, pa.string())


def assert_same(block, expected):
    assert bytes(block.records) == bytes(expected.records)
    for name in ("sizes", "tag_codes", "key_counts", "key_hashes"):
        ours, theirs = getattr(block, name), getattr(expected, name)
        assert ours.dtype == theirs.dtype, name
        assert ours.tolist() == theirs.tolist(), name
    assert (block.topic, block.crc32) == (expected.topic, expected.crc32)
    if expected.record_crcs is None:
        assert block.record_crcs is None
    else:
        assert block.record_crcs.dtype == expected.record_crcs.dtype
        assert block.record_crcs.tolist() == expected.record_crcs.tolist()


def encoded_one_by_one(topic, messages, sequence=None):
    encoder = BlockEncoder(topic, size_bytes_max=1 << 24, sequenced=sequence is not None)
    for arguments in messages:
        encoder.add(**arguments)
    return encoder.finish(sequence)


@given(topic_names(), with_unique_ids())
def test_columns_become_what_messages_become(topic, made):
    messages, arrays, unique_ids = made

    columns = MessageColumns.of(**arrays)
    block = encode_columns(topic, columns, unique_ids=unique_ids, born_timestamp_ms=NOON)

    assert_same(block, encoded_one_by_one(topic, messages))


@given(with_unique_ids(), st.data())
def test_any_rows_can_be_taken(made, data):
    messages, arrays, unique_ids = made
    columns = MessageColumns.of(**arrays)
    start = data.draw(st.integers(0, len(messages)))
    part = columns.slice(start, len(messages))
    places = st.lists(st.integers(0, max(0, len(part) - 1)), max_size=20)
    rows = np.array(data.draw(places) if len(part) else [], np.int64)

    ids = unique_ids[start:].take(pa.array(rows))
    block = encode_columns("t", part.take(rows), unique_ids=ids, born_timestamp_ms=NOON)

    assert_same(block, encoded_one_by_one("t", [messages[start + row] for row in rows]))


@given(with_unique_ids().filter(lambda made: made[0]))
def test_a_sequence_fits_into_the_first_record(made):
    messages, arrays, unique_ids = made
    sequence = ProducerSequence(7, 1, 99)

    block = encode_columns(
        "t",
        MessageColumns.of(**arrays),
        unique_ids=unique_ids,
        born_timestamp_ms=NOON,
        sequenced=True,
    )

    expected = encoded_one_by_one("t", messages, sequence)
    assert_same(block.with_sequence(sequence), expected)
    assert block.sizes[0] - SEQUENCE_BYTES > 0


@pytest.mark.parametrize("odd", [None, 0, 7])
def test_properties_of_one_length_each_are_those_of_their_record(odd):
    messages = [
        {
            "body": b"x" * (number % 5),
            "message_group": "a longer one" if number == odd else f"g{number:03}",
            "unique_id": f"7F000001{number:08X}",
            "born_timestamp_ms": NOON,
        }
        for number in range(200)
    ]
    columns = {
        name: pa.array([message[name] for message in messages], kind)
        for name, kind in (("body", pa.binary()), ("message_group", pa.string()))
    }

    block = encode_columns(
        "t",
        MessageColumns.of(**columns),
        unique_ids=pa.array([message["unique_id"] for message in messages]),
        born_timestamp_ms=NOON,
        sequenced=True,
    )

    sequence = ProducerSequence(7, 1, 99)
    expected = encoded_one_by_one("t", messages, sequence)
    assert_same(block.with_sequence(sequence), expected)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string()])
def test_bodies_without_other_fields_are_given_one_by_one(kind):
    body = pa.array(["never", "one", "", "three", "never"], kind).slice(1, 3)

    assert MessageColumns.of(body).lone_bodies() == [b"one", b"", b"three"]
    assert MessageColumns.of(body.slice(0, 0)).lone_bodies() == []


def test_bodies_are_not_given_one_by_one_if_messages_have_other_fields():
    body, one = pa.array([b"x"]), pa.array(["t"])

    for name in ("tag", "keys", "message_group"):
        assert MessageColumns.of(body, **{name: one}).lone_bodies() is None
    assert MessageColumns.of(body, flag=pa.array([1], pa.int32())).lone_bodies() is None
    flags = np.array([1], np.int32)
    assert replace(MessageColumns.of(body), system_flag=flags).lone_bodies() is None


def test_sizes_are_known_beforehand():
    columns = MessageColumns.of(
        pa.array(["one", "", "three"]),
        tag=pa.array(["a", "bb", None]),
        keys=pa.array([["k", "ll"], [], None]),
        message_group=pa.array(["g", None, ""]),
        properties=pa.array([[("n", "v"), ("nn", "vv")], None, []], PAIRS),
    )
    ids = pa.array([f"{number:032X}" for number in range(3)])

    block = encode_columns("topic", columns, unique_ids=ids, born_timestamp_ms=NOON)

    assert record_sizes("topic", columns, unique_id_bytes=32).tolist() == block.sizes.tolist()


def test_a_column_of_texts_is_one_key_each():
    columns = MessageColumns.of(pa.array(["x", "y", "z"]), keys=pa.array(["k1", None, ""]))
    messages = [
        {"body": b"x", "keys": ("k1",), "unique_id": "0", "born_timestamp_ms": NOON},
        {"body": b"y", "unique_id": "1", "born_timestamp_ms": NOON},
        {"body": b"z", "unique_id": "2", "born_timestamp_ms": NOON},
    ]

    block = encode_columns("t", columns, unique_ids=some_ids(len(columns)), born_timestamp_ms=NOON)

    assert_same(block, encoded_one_by_one("t", messages))


def test_nulls_of_lists_may_have_elements():
    keys = pa.ListArray.from_arrays(
        pa.array([0, 1, 2, 3], pa.int32()),
        pa.array(["a", "hid den", "c"]),
        mask=pa.array([False, True, False]),
    )

    columns = MessageColumns.of(pa.array(["1", "2", "3"]), keys=keys)

    assert columns.keys.children[0].to_pylist() == ["a", "c"]
    assert columns.keys.counts.tolist() == [1, 0, 1]


def test_large_bodies_and_many_long_keys():
    bodies = [bytes([number]) * 70_000 for number in range(5)]
    keys = [["k" * 3000, "x" * 2999], ["y" * 20_000], [], ["z" * 31_000], ["w"]]
    messages = [
        {"body": body, "keys": its_keys, "unique_id": str(number), "born_timestamp_ms": NOON}
        for number, (body, its_keys) in enumerate(zip(bodies, keys, strict=True))
    ]

    columns = MessageColumns.of(pa.array(bodies, pa.large_binary()), keys=pa.array(keys, STRINGS))
    block = encode_columns("t", columns, unique_ids=some_ids(len(columns)), born_timestamp_ms=NOON)

    assert_same(block, encoded_one_by_one("t", messages))


BODIES = pa.array([b"a", b"b", b"c"])


@pytest.mark.parametrize(
    ("name", "array", "row", "clause"),
    [
        ("body", pa.array([1, 2, 3]), None, "int64; binary or string"),
        ("body", pa.array([b"a", None, b"c"]), 1, "null"),
        ("tag", pa.array([1, 2, 3]), None, "int64; string"),
        ("tag", pa.array(["a", "b", "x\x01"]), 2, "control character"),
        ("tag", pa.array(["a", "x\x7f", "x"]).dictionary_encode(), 1, "control character"),
        ("keys", pa.array([["a"], ["b", "c\x00"], []]), 1, "control character"),
        ("message_group", pa.array(["a", "é\x85", ""]), 1, "control character"),
        ("keys", pa.array([1, 2, 3]), None, "list<string>"),
        ("keys", pa.array([["a"], ["b", "c d"], None]), 1, "a space"),
        ("keys", pa.array([[], [], ["c", ""]]), 2, "an empty key"),
        ("keys", pa.array([["a"], ["c", None], []]), 1, "null inside"),
        ("keys", pa.array([["a"] * KEYS_MAX, [], []]), 0, "255 keys; 254"),
        ("message_group", pa.array(["a", "\x02", None]), 1, "control character"),
        ("properties", pa.array([["a"], [], []]), None, "map<string, string>"),
        ("properties", pa.array([[], [("a", "")], []], PAIRS), 1, "empty name or value"),
        ("properties", pa.array([[], [], [("a", None)]], PAIRS), 2, "null inside"),
        ("properties", pa.array([[], [("KEYS", "x")], []], PAIRS), 1, "KEYS: not a property"),
        ("properties", pa.array([[("a", "1")], [("a", "1"), ("a", "2")], []], PAIRS), 1, "twice"),
        (
            "properties",
            pa.array([[], [(f"n{i % 70}", "v") for i in range(71)], []], PAIRS),
            1,
            "twice",
        ),
        ("properties", pa.array([[], [], [("a", "x" * 33_000)]], PAIRS), 2, "bytes;"),
        ("flag", pa.array(["a", "b", "c"]), None, "int32"),
        ("flag", pa.array([1, 2, 1 << 40]), None, "not in range"),
    ],
)
def test_an_illegal_message_is_refused_by_column_and_by_row(name, array, row, clause):
    arrays = {"body": BODIES} | {name: array}

    with pytest.raises(IllegalColumn, match=clause) as refusal:
        MessageColumns.of(**arrays)

    assert (refusal.value.column, refusal.value.row) == (name, row)


def test_texts_that_are_no_utf8_are_refused():
    broken = pa.Array.from_buffers(
        pa.string(), 3, pa.array([b"a", b"\xff", b"c"], pa.binary()).buffers()
    )

    with pytest.raises(IllegalColumn, match="no UTF-8"):
        MessageColumns.of(BODIES, message_group=broken)


def test_a_topic_has_its_limit():
    with pytest.raises(RecordTooLarge):
        encode_columns(
            "t" * 40_000,
            MessageColumns.of(BODIES),
            unique_ids=some_ids(len(BODIES)),
            born_timestamp_ms=NOON,
        )
