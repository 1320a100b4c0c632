"""Rows of a table as messages."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from ariane_sdk.errors import ColumnIllegal
from ariane_spark.errors import OptionIllegal, RowIllegal, SchemaIllegal
from ariane_spark.records.rows import IdentitySeed, RowPlan, row_refusal

SEED = IdentitySeed("query/7/0")
NOON = datetime(2013, 2, 8, 12, tzinfo=UTC)


@pytest.fixture
def plan(ddl):
    return lambda text, topic="orders": RowPlan.of(ddl(text), topic)


def ids_of(seed, first_row, *bodies):
    return seed.message_ids(first_row, pa.array(bodies, pa.binary())).to_pylist()


@pytest.fixture
def tables(plan):
    def make(text, topic_option="orders", /, **columns):
        batch = pa.record_batch({name: pa.array(values) for name, values in columns.items()})
        return list(plan(text, topic_option).tables(batch, SEED, 0))

    return make


def test_every_column_has_its_place(plan):
    batch = pa.record_batch(
        {
            "Properties": pa.array([[("a", "1")], None], pa.map_(pa.string(), pa.string())),
            "BODY": pa.array([b"one", b""]),
            "tag": pa.array(["created", None]),
            "keys": pa.array([["k1", "k2"], None]),
            "messageGroup": pa.array(["g", None]),
            "DeliveryTimestamp": pa.array([None, NOON], pa.timestamp("us", "UTC")),
            "topic": pa.array(["orders", "refunds"]),
        }
    )
    text = (
        "Properties map<string,string>, BODY binary, tag string, keys array<string>,"
        " messageGroup string, DeliveryTimestamp timestamp, topic string"
    )

    orders, refunds = plan(text, None).tables(batch, SEED, 5)

    assert (orders.topic, orders.rows.tolist()) == ("orders", [5])
    [first_id] = ids_of(SEED, 5, b"one")
    assert orders.table.to_pylist() == [
        {
            "body": b"one",
            "tag": "created",
            "keys": ["k1", "k2"],
            "messageGroup": "g",
            "deliveryTimestamp": None,
            "properties": [("a", "1"), ("messageId", first_id)],
        }
    ]
    assert (refunds.topic, refunds.rows.tolist()) == ("refunds", [6])
    [second_id] = ids_of(SEED, 6, b"")
    assert refunds.table.to_pylist() == [
        {
            "body": b"",
            "tag": None,
            "keys": None,
            "messageGroup": None,
            "deliveryTimestamp": NOON,
            "properties": [("messageId", second_id)],
        }
    ]


def test_a_body_may_be_text(tables):
    [(_, table, _)] = tables("body string", body=["Zürich"])

    assert table["body"].to_pylist() == ["Zürich".encode()]


def test_the_option_counts_more_than_the_column(tables):
    [rows] = tables("body string, topic string", "orders", body=["x"], topic=["refunds"])

    assert rows.topic == "orders"


def test_rows_of_a_topic_stay_together_and_in_order(tables):
    first, second = tables(
        "body string, topic string", None, body=list("abcde"), topic=["t", "u", "t", "u", "t"]
    )

    assert (first.topic, first.rows.tolist()) == ("t", [0, 2, 4])
    assert first.table["body"].to_pylist() == [b"a", b"c", b"e"]
    assert (second.topic, second.table["body"].to_pylist()) == ("u", [b"b", b"d"])


def test_no_rows_are_no_table(tables):
    assert tables("body binary", body=pa.array([], pa.binary())) == []


def test_an_id_that_a_row_brings_along_gives_way(plan):
    pairs = [[("messageId", "old"), ("a", "1")], None, [], [("b", "2"), ("messageId", "old")]]
    batch = pa.record_batch(
        {"body": list("abcd"), "properties": pa.array(pairs, pa.map_(pa.string(), pa.string()))}
    ).slice(1)
    text = "body string, properties map<string,string>"

    [(_, table, _)] = plan(text).tables(batch, SEED, 0)

    first, second, third = ids_of(SEED, 0, b"b", b"c", b"d")
    assert table["properties"].to_pylist() == [
        [("messageId", first)],
        [("messageId", second)],
        [("b", "2"), ("messageId", third)],
    ]


def test_ids_are_the_same_for_the_same_row_and_differ_otherwise():
    assert ids_of(IdentitySeed("query/7/0"), 3, b"x") == ids_of(SEED, 3, b"x")
    assert ids_of(SEED, 2, b"w", b"x")[1:] == ids_of(SEED, 3, b"x")
    ids = {
        *ids_of(SEED, 3, b"x", b"x"),
        *ids_of(SEED, 3, b"y"),
        *ids_of(IdentitySeed("query/8/0"), 3, b"x"),
        *ids_of(IdentitySeed("query/7/1"), 3, b"x"),
    }
    assert len(ids) == 5
    assert all(len(message_id) == 32 for message_id in ids)


@pytest.mark.parametrize(
    ("text", "topic", "error", "clause"),
    [
        ("tag string", "t", SchemaIllegal, "no column 'body'"),
        ("body int", "t", SchemaIllegal, "'body' is int, not binary or string"),
        ("body string, keys string", "t", SchemaIllegal, "'keys' is string, not array<string>"),
        ("body string, queueId int", "t", SchemaIllegal, "'queueId' cannot be written"),
        ("body string", None, OptionIllegal, "and there is no column of that name"),
        ("body string, deliveryTimestamp timestamp_ntz", "t", SchemaIllegal, "not timestamp"),
    ],
)
def test_tables_that_are_no_messages_are_refused(plan, text, topic, error, clause):
    with pytest.raises(error, match=clause):
        plan(text, topic)


@pytest.mark.parametrize(
    ("text", "columns", "clause"),
    [
        ("body string", {"body": ["x", None]}, "row 1 of query/7/0 has no body; leave such"),
        ("body string, topic string", {"body": [""], "topic": [""]}, "row 0 .* has no topic"),
        (
            "body string, topic string",
            {"body": [""] * 3, "topic": ["t", "no/topic", "no/topic"]},
            "row 1 of query/7/0: topic 'no/topic': .* leave such",
        ),
    ],
)
def test_rows_that_are_no_messages_are_refused_by_number(tables, text, columns, clause):
    with pytest.raises(RowIllegal, match=clause):
        tables(text, None if "topic" in columns else "t", **columns)


def test_properties_without_a_value_are_left_out(plan):
    """A message has none; the value of a topic's message, read and written again, may be empty."""
    pairs = [[("a", None), ("b", "x")], [("c", "")], None, []]
    batch = pa.record_batch(
        {
            "body": pa.array(["x"] * 4),
            "properties": pa.array(pairs, pa.map_(pa.string(), pa.string())),
        }
    )

    (share,) = plan("body string, properties map<string,string>").tables(batch, SEED, 0)

    found = [[name for name, _ in row] for row in share.table["properties"].to_pylist()]
    assert found == [["b", "messageId"], ["messageId"], ["messageId"], ["messageId"]]


def test_a_row_is_named_once():
    error = ColumnIllegal("keys", "null inside", 2)

    refusal = row_refusal(error, np.array([4, 7, 9]), 2, "query/7/0")

    advice = "leave such rows out, or mend them, before they are written"
    assert str(refusal) == f"row 9 of query/7/0: column 'keys': null inside; {advice}"
    whole = ColumnIllegal("keys", "no list of texts")
    assert str(row_refusal(whole, np.array([4]), None, "query/7/0")) == (
        f"query/7/0: column 'keys': no list of texts; {advice}"
    )


def test_a_wrong_type_is_told_with_each_right_one_once(ddl):
    with pytest.raises(SchemaIllegal, match=r"'properties' is int, not map<string,string>$"):
        RowPlan.of(ddl("body string, properties int"), "orders")
