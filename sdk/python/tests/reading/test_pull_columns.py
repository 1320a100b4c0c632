"""What is read of a queue, as Arrow record batches."""

import itertools
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from ariane.broker.v1.pull_service_pb2 import (
    RANGE_PROJECTION_HEADERS,
    RANGE_PROJECTION_POSITIONS,
    RANGE_PROJECTION_RECORDS,
    PullRangeResponse,
)
from ariane_record import RecordFields, encode_record
from ariane_record.decoding.arrow import COLUMN_NAMES, arrow_schema
from ariane_record.decoding.columns import decode_columns
from ariane_record.layout import HEADER_BYTES
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_sdk import MessageQueue, Producer, QueueReader, errors, sync
from ariane_sdk.reading.columns_out import RangeColumns

PAIRS = pa.map_(pa.string(), pa.string())
QUEUE = MessageQueue("orders", "broker-a", 3)
_numbers = itertools.count()


@pytest.fixture
async def filled(cluster):
    """A topic that a table was sent to; the table, and where its rows are."""
    topic = f"pulled-columns-{next(_numbers)}"
    count = 3000
    table = pa.table(
        {
            "body": pa.array([b"%d" % n for n in range(count)]),
            "tag": pa.array([f"t{n % 3}" if n % 2 else None for n in range(count)]),
            "keys": pa.array([[f"k{n}"] if n % 5 else [] for n in range(count)]),
            "properties": pa.array([[("n", str(n))] for n in range(count)], PAIRS),
            "messageGroup": pa.array([f"g{n % 7}" for n in range(count)]),
        }
    )
    async with Producer(cluster.name_servers) as producer:
        return topic, table, await producer.send_columns(topic, table)


async def pulled(reader, topic, **options):
    """Everything of a topic, as one table."""
    batches = [
        batch
        for queue, (begin, end) in (await reader.bounds(topic)).items()
        async for batch in reader.pull_columns(queue, begin, end, **options)
    ]
    return pa.Table.from_batches(batches)


async def test_columns_that_were_sent_come_back_as_columns(cluster, filled):
    topic, table, sent = filled

    async with QueueReader(cluster.name_servers) as reader:
        everything = await pulled(reader, topic)

    assert everything.schema == arrow_schema()
    places = everything.select(["queueId", "queueOffset", "messageId", *table.column_names])
    expected = sent.drop_columns("brokerName")
    for name in table.column_names:
        expected = expected.append_column(name, table[name])
    by_id = [("messageId", "ascending")]
    assert places.sort_by(by_id).to_pylist() == expected.sort_by(by_id).to_pylist()
    assert set(everything["topic"].to_pylist()) == {topic}
    now = datetime.now(UTC)
    for moment in everything["storeTimestamp"].to_pylist():
        assert timedelta() <= now - moment < timedelta(minutes=2)


@pytest.mark.parametrize(
    "names",
    [
        ["queueOffset", "queueId"],
        ["tag", "messageId", "properties", "queueOffset"],
        ["body", "tag", "brokerName"],
        ["topic"],
    ],
)
async def test_only_the_columns_that_are_wanted_come(cluster, filled, names):
    topic, _, _ = filled
    async with QueueReader(cluster.name_servers) as reader:
        some = await pulled(reader, topic, column_names=names, chunk_bytes=65536)
        whole = await pulled(reader, topic, column_names=[*COLUMN_NAMES, "brokerName"])

    assert some.column_names == names
    assert some.to_pylist() == whole.select(names).to_pylist()


@pytest.mark.parametrize(
    ("names", "projection"),
    [
        (None, RANGE_PROJECTION_RECORDS),
        (["body"], RANGE_PROJECTION_RECORDS),
        (["tag", "queueOffset"], RANGE_PROJECTION_HEADERS),
        (["topic", "brokerName", "storeTimestamp"], RANGE_PROJECTION_POSITIONS),
    ],
)
def test_what_no_column_needs_stays_in_the_broker(names, projection):
    assert RangeColumns(QUEUE, names).projection == projection


@pytest.mark.parametrize("names", [["bdoy"], [], ["body", "body"]])
async def test_columns_that_there_are_not_are_refused(cluster, names):
    async with QueueReader(cluster.name_servers) as reader:
        with pytest.raises(errors.IllegalArgument, match="column"):
            await anext(reader.pull_columns(QUEUE, 0, 1, column_names=names))


async def test_part_of_a_range_and_nothing_of_it(cluster, filled):
    topic, _, _ = filled
    async with QueueReader(cluster.name_servers) as reader:
        end, queue = max((end, queue) for queue, (_, end) in (await reader.bounds(topic)).items())
        some = [
            batch async for batch in reader.pull_columns(queue, 5, 8, column_names=["queueOffset"])
        ]
        none = [batch async for batch in reader.pull_columns(queue, end, end + 10)]
        async for batch in reader.pull_columns(queue, 0, end, chunk_bytes=65536):
            first = batch["queueOffset"][0].as_py()
            break

    assert [row["queueOffset"] for batch in some for row in batch.to_pylist()] == [5, 6, 7]
    assert none == []
    assert first == 0


def test_damaged_records_say_where():
    encoder = BlockEncoder("orders", size_bytes_max=1000)
    encoder.add(b"x", born_timestamp_ms=0)
    block = encoder.finish()
    chunk = PullRangeResponse(
        next_queue_offset=9,
        record_sizes=block.sizes.astype("<i4").tobytes(),
        records=bytes(block.records[:-1]),
    )

    with pytest.raises(errors.RecordDamaged, match="orders@broker-a#3 before 9"):
        RangeColumns(QUEUE, ["body"]).batches(chunk)


def test_ids_made_of_long_addresses_are_read_from_whole_records():
    fields = RecordFields(topic="orders", body=b"x", properties={}, store_host=("2001:db8::1", 1))
    record = encode_record(fields)
    sizes = np.array([len(record)], "<i4")
    whole = decode_columns(record, sizes.astype(np.int32))
    properties = bytes(record[int(whole.properties_start[0]) :])
    chunk = PullRangeResponse(
        record_sizes=sizes.tobytes(),
        headers=whole.headers.tobytes()[:HEADER_BYTES],
        properties=properties,
        property_ends=np.array([len(properties)], "<i4").tobytes(),
    )
    ids, tags = RangeColumns(QUEUE, ["messageId"]), RangeColumns(QUEUE, ["tag"])

    assert ids.batches(chunk) is None
    assert ids.projection == RANGE_PROJECTION_RECORDS
    assert next(tags.batches(chunk)).num_rows == 1
    again = PullRangeResponse(record_sizes=sizes.tobytes(), records=record)
    assert next(ids.batches(again))["messageId"].to_pylist() == [whole.offset_message_id(0)]


def test_without_a_loop(cluster):
    topic = f"pulled-columns-{next(_numbers)}"
    table = pa.table({"body": pa.array([b"%d" % n for n in range(10)])})

    with sync.Producer(cluster.name_servers) as producer:
        sent = producer.send_columns(topic, table)
    with sync.QueueReader(cluster.name_servers) as reader:
        batches = [
            batch
            for queue, (begin, end) in reader.bounds(topic).items()
            for batch in reader.pull_columns(queue, begin, end, column_names=["messageId", "body"])
        ]

    bodies = {row["messageId"]: row["body"] for batch in batches for row in batch.to_pylist()}
    assert [bodies[unique_id] for unique_id in sent["messageId"].to_pylist()] == (
        table["body"].to_pylist()
    )
