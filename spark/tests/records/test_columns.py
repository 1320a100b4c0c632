"""The schema of a topic, and what a query wants of it."""

import pickle

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ariane_record.decoding.arrow import COLUMN_NAMES
from ariane_record.decoding.columns import decode_columns
from ariane_record.single.compression import Compression, body_compressor
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_sdk import MessageQueue
from ariane_spark.calls.cluster import Fetch
from ariane_spark.errors import SchemaIllegal
from ariane_spark.records.columns import Detail, Projection, header_schema, message_schema
from ariane_spark.records.joined_records import QueueRecords

QUEUE = MessageQueue("orders", "broker-a", 1)


def test_schema_is_exactly_the_documented_one():
    assert [(f.name, f.dataType.simpleString(), f.nullable) for f in message_schema()] == [
        ("topic", "string", False),
        ("queueId", "int", False),
        ("queueOffset", "bigint", False),
        ("messageId", "string", False),
        ("keys", "array<string>", False),
        ("tag", "string", True),
        ("messageGroup", "string", True),
        ("properties", "map<string,string>", False),
        ("bornTimestamp", "timestamp", False),
        ("storeTimestamp", "timestamp", False),
        ("deliveryTimestamp", "timestamp", True),
        ("reconsumeTimes", "int", False),
        ("body", "binary", True),
    ]
    assert not message_schema()["keys"].dataType.containsNull
    assert not message_schema()["properties"].dataType.valueContainsNull


def test_schema_has_every_column_that_records_give():
    assert tuple(message_schema().fieldNames()) == COLUMN_NAMES


def test_headers_are_everything_but_the_body():
    assert header_schema().fieldNames() == message_schema().fieldNames()[:-1]
    assert Projection.of(header_schema()).detail is Detail.PROPERTIES


@pytest.mark.parametrize(
    ("schema", "detail"),
    [
        ("queueId int, queueOffset long, topic string", Detail.POSITIONS),
        ("storeTimestamp timestamp, reconsumeTimes int, brokerName string", Detail.POSITIONS),
        ("queueOffset long, tag string", Detail.PROPERTIES),
        ("properties map<string,string>", Detail.PROPERTIES),
        ("messageId string, deliveryTimestamp timestamp", Detail.PROPERTIES),
        ("tag string, body binary", Detail.RECORDS),
    ],
)
def test_only_what_the_columns_need_is_fetched(ddl, schema, detail):
    assert Projection.of(ddl(schema)).detail is detail


@pytest.mark.parametrize(
    ("schema", "clause"),
    [
        ("offset long", "has no column 'offset'; its columns are topic, brokerName"),
        ("queueId long", "'queueId' is int, not bigint"),
        ("body string", "'body' is binary, not string"),
        ("keys array<binary>", "'keys' is array<string>, not array<binary>"),
        ("storeTimestamp timestamp_ntz", "is timestamp, not timestamp_ntz"),
        ("tag string not null", "'tag' may be null"),
        ("tag string, TAG string", "each once"),
    ],
)
def test_what_a_topic_does_not_have_is_refused(ddl, schema, clause):
    with pytest.raises(SchemaIllegal, match=clause):
        Projection.of(ddl(schema))


def test_an_empty_schema_is_refused():
    with pytest.raises(SchemaIllegal, match="needs columns"):
        Projection.of(StructType([]))


@pytest.mark.parametrize(
    "schema",
    [
        message_schema(),
        header_schema(),
        ("QUEUEOFFSET long, keys array<string>, Body binary not null, brokername string"),
        ("properties map<string,string>, deliveryTimestamp timestamp, bornTimestamp timestamp"),
    ],
    ids=["default", "headers", "users-own", "nested"],
)
def test_batches_are_what_spark_compares_them_with(cluster, ddl, schema):
    schema = ddl(schema) if isinstance(schema, str) else schema
    queue = cluster.add("orders", "broker-a", 1, 5)
    projection = pickle.loads(pickle.dumps(Projection.of(schema)))  # noqa: S301 - our own bytes.
    (chunk,) = cluster.read_range(*whole(cluster, queue))

    batch = projection.batch([QueueRecords(queue, chunk.records)])

    batch.validate(full=True)
    assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"))
    assert batch.num_rows == 5


def test_values(cluster):
    queue = cluster.add("orders", "broker-a", 1, 2)
    (chunk,) = cluster.read_range(*whole(cluster, queue))
    schema = message_schema([*message_schema().fieldNames(), "brokerName"])

    rows = Projection.of(schema).batch([QueueRecords(QUEUE, chunk.records)]).to_pylist()

    assert rows[1] == {
        "topic": "orders",
        "queueId": 1,
        "queueOffset": 1,
        "messageId": "7F00000100002A9F00000000000003E8",
        "keys": ["key-1"],
        "tag": "odd",
        "messageGroup": None,
        "properties": [("colour", "red")],
        "bornTimestamp": pa.scalar(1000, pa.timestamp("us", "UTC")).as_py(),
        "storeTimestamp": pa.scalar(10000, pa.timestamp("us", "UTC")).as_py(),
        "deliveryTimestamp": None,
        "reconsumeTimes": 1,
        "body": b"1:1",
        "brokerName": "broker-a",
    }


def whole(cluster, queue):
    from ariane_spark.positions.ranges import QueueRange  # noqa: PLC0415 - used here only.

    cluster.chunk_records = 100
    return QueueRange(queue, 0, len(cluster.queues[queue])), Fetch(Detail.RECORDS, 1 << 20)


def test_compressed_bodies_are_as_they_were_sent():
    encoder = BlockEncoder("orders", size_bytes_max=1 << 20)
    bodies = [b"a teapot, " * 500] * len(Compression)
    for kind, body in zip(Compression, bodies, strict=True):
        stored = body if kind is Compression.NONE else body_compressor(kind, 5)(body)
        encoder.add(stored, system_flag=kind.system_flag, born_timestamp_ms=1)
    block = encoder.finish()
    records = decode_columns(block.records, block.sizes)
    schema = message_schema(["queueOffset", "body"])

    batch = Projection.of(schema).batch([QueueRecords(QUEUE, records)])

    assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"))
    assert batch.column(1).to_pylist() == bodies
