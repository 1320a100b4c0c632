"""Rows of a table as messages."""

import pyarrow as pa
import pytest

from ariane_spark.errors import FeatureNotAvailable, OptionIllegal, RowIllegal, SchemaIllegal
from ariane_spark.rows import IdentitySeed, RowPlan

SEED = IdentitySeed("query/7/0")


@pytest.fixture
def plan(ddl):
    return lambda text, topic="orders": RowPlan.of(ddl(text), topic)


@pytest.fixture
def messages(plan):
    def make(text, topic_option="orders", /, **columns):
        batch = pa.record_batch({name: pa.array(values) for name, values in columns.items()})
        return list(plan(text, topic_option).messages(batch, SEED, 0))

    return make


def test_every_column_has_its_place(plan):
    batch = pa.record_batch(
        {
            "Properties": pa.array([[("a", "1")], None], pa.map_(pa.string(), pa.string())),
            "BODY": pa.array([b"one", b""]),
            "tag": pa.array(["created", None]),
            "keys": pa.array([["k1", "k2"], None]),
            "messageGroup": pa.array(["g", None]),
            "topic": pa.array(["orders", "refunds"]),
        }
    )
    text = (
        "Properties map<string,string>, BODY binary, tag string, keys array<string>,"
        " messageGroup string, topic string"
    )

    first, second = plan(text, None).messages(batch, SEED, 5)

    assert (first.topic, first.body, first.tag) == ("orders", b"one", "created")
    assert (first.keys, first.message_group) == (("k1", "k2"), "g")
    assert first.properties == {"a": "1", "messageId": SEED.message_id(5, b"one")}
    assert (second.topic, second.body, second.tag) == ("refunds", b"", "")
    assert (second.keys, second.message_group) == ((), "")
    assert second.properties == {"messageId": SEED.message_id(6, b"")}


def test_a_body_may_be_text(messages):
    (message,) = messages("body string", body=["Zürich"])

    assert message.body == "Zürich".encode()


def test_the_option_counts_more_than_the_column(messages):
    (message,) = messages("body string, topic string", "orders", body=["x"], topic=["refunds"])

    assert message.topic == "orders"


def test_ids_are_the_same_for_the_same_row_and_differ_otherwise():
    assert IdentitySeed("query/7/0").message_id(3, b"x") == SEED.message_id(3, b"x")
    ids = {
        SEED.message_id(3, b"x"),
        SEED.message_id(4, b"x"),
        SEED.message_id(3, b"y"),
        IdentitySeed("query/8/0").message_id(3, b"x"),
        IdentitySeed("query/7/1").message_id(3, b"x"),
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
        ("body string, deliveryTimestamp timestamp", "t", FeatureNotAvailable, "delayed"),
    ],
)
def test_tables_that_are_no_messages_are_refused(plan, text, topic, error, clause):
    with pytest.raises(error, match=clause):
        plan(text, topic)


@pytest.mark.parametrize(
    ("text", "columns", "clause"),
    [
        ("body string", {"body": ["x", None]}, "row 1 of query/7/0 has no body"),
        ("body string, topic string", {"body": [""], "topic": [""]}, "row 0 .* has no topic"),
    ],
)
def test_rows_that_are_no_messages_are_refused_by_number(messages, text, columns, clause):
    with pytest.raises(RowIllegal, match=clause):
        messages(text, None if "topic" in columns else "t", **columns)


def test_a_property_without_a_value_is_refused(plan):
    batch = pa.record_batch(
        {
            "body": pa.array(["x"]),
            "properties": pa.array([[("a", None)]], pa.map_(pa.string(), pa.string())),
        }
    )

    with pytest.raises(RowIllegal, match="property without a value"):
        list(plan("body string, properties map<string,string>").messages(batch, SEED, 0))
