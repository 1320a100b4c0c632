"""Topics as tables: every column and option against real brokers."""

import json
from collections import Counter
from datetime import UTC, datetime

import pytest
from pyspark.errors import AnalysisException, PythonException

from ariane_sdk import Message
from ariane_spark import header_schema, message_schema

pytestmark = pytest.mark.spark


@pytest.fixture
def orders(topic, producer):
    """Some messages of all kinds, and where they went."""
    messages = [
        Message(
            topic,
            f"body {number}".encode() if number else b"",
            tag=f"tag-{number % 3}" if number % 3 else "",
            keys=(f"key-{number}", "shared") if number % 2 else (),
            message_group=f"group-{number % 4}" if number % 5 else "",
            properties={"number": str(number), "city": "Zürich"} if number % 7 else {},
        )
        for number in range(40)
    ]
    return list(zip(messages, producer.send_batch(messages), strict=True))


def test_every_column_says_what_was_sent(orders, reading, topic):
    columns = [*message_schema().fieldNames(), "brokerName"]

    frame = reading(topic, columns=",".join(columns)).load()

    rows = {(row.brokerName, row.queueId, row.queueOffset): row for row in frame.collect()}
    assert frame.columns == columns
    assert len(rows) == len(orders)
    for message, result in orders:
        row = rows[(*result.message_queue[1:], result.queue_offset)]
        assert (row.topic, bytes(row.body)) == (topic, message.body)
        assert (row.tag, row["keys"]) == (message.tag or None, list(message.keys))
        assert row.messageGroup == (message.message_group or None)
        assert row.properties == message.properties
        assert (row.messageId, row.reconsumeTimes) == (result.unique_id, 0)
        assert row.deliveryTimestamp is None
        assert milliseconds(row.storeTimestamp) == result.store_timestamp_ms
        assert abs(milliseconds(row.bornTimestamp) - result.store_timestamp_ms) < 60_000


def test_schema_is_the_documented_one_not_null_and_all(orders, reading, topic):
    frame = reading(topic).load()

    assert frame.schema == message_schema()
    assert frame.count() == len(orders)


def test_a_frame_is_planned_at_its_first_action_and_load_makes_a_fresh_one(
    spark, orders, reading, topic, producer
):
    """Spark keeps the plan of a source in Python; the README begins with it."""
    reader = reading(topic, columns="queueOffset")
    held = reader.load()
    held.createOrReplaceTempView("held")
    assert held.count() == len(orders)

    producer.send(Message(topic, b"later"))

    assert held.count() == spark.table("held").count() == len(orders)
    assert reader.load().count() == len(orders) + 1


def test_the_schema_of_the_user_is_the_projection(orders, reading, topic):
    positions = reading(topic).schema("QUEUEOFFSET long, queueid int, brokerName string").load()
    headers = reading(topic).schema(header_schema()).load()

    assert positions.columns == ["QUEUEOFFSET", "queueid", "brokerName"]
    assert Counter(map(tuple, positions.collect())) == Counter(
        (result.queue_offset, result.message_queue.queue_id, result.message_queue.broker_name)
        for _, result in orders
    )
    assert {row.messageId for row in headers.collect()} == {r.unique_id for _, r in orders}


def test_messages_of_a_group_keep_their_order(reading, topic, producer):
    producer.send_batch([Message(topic, b"%d" % n, message_group=f"g{n % 3}") for n in range(300)])

    rows = reading(topic, columns="messageGroup,body").load().collect()

    for group in ("g0", "g1", "g2"):
        numbers = [int(row.body) for row in rows if row.messageGroup == group]
        assert numbers == sorted(numbers)
        assert len(numbers) == 100


def test_offsets_and_times_cut_half_open_ranges(orders, reading, topic):
    _, result = orders[20]
    queue = result.message_queue
    first = {topic: {queue.broker_name: {str(queue.queue_id): result.queue_offset}}}
    others_at_the_end = {
        f"{topic}/{r.message_queue.broker_name}/{r.message_queue.queue_id}": -1 for _, r in orders
    }
    flat = f"{topic}/{queue.broker_name}/{queue.queue_id}"

    from_it = json.dumps({**others_at_the_end, flat: result.queue_offset})
    before_it = reading(topic, endingOffsets=json.dumps(first)).load()
    assert messages_of(reading(topic, startingOffsets=from_it).load())[0] == result.unique_id
    assert result.unique_id not in messages_of(before_it)

    last_ms = max(r.store_timestamp_ms for _, r in orders)
    assert reading(topic, startingTimestamp=str(last_ms + 1)).load().count() == 0
    assert reading(topic, endingTimestamp=str(last_ms + 1)).load().count() == len(orders)
    since_1970 = datetime.fromtimestamp(0, UTC).isoformat()
    assert reading(topic, startingTimestamp=since_1970).load().count() == len(orders)


@pytest.mark.parametrize(
    ("options", "partition_count"),
    [
        ({"maxPartitions": "1"}, 1),
        ({"minPartitions": "3"}, 3),
        ({"minPartitions": "10"}, 10),
        ({"maxRecordsPerPartition": "8"}, 5),
    ],
    ids=str,
)
def test_ranges_are_packed_and_split(orders, reading, topic, options, partition_count):
    frame = reading(topic, columns="messageId", **options).load()

    assert frame.rdd.getNumPartitions() == partition_count
    assert sorted(messages_of(frame)) == sorted(result.unique_id for _, result in orders)


def test_a_topic_without_messages_is_an_empty_table(reading, topic):
    assert reading(topic).load().collect() == []


def test_several_topics_are_one_table(new_topic, reading, producer, spark, local_cluster):
    topics = [new_topic(), new_topic()]
    producer.send_batch([Message(topic, b"x") for topic in topics for _ in range(3)])

    frame = (
        spark.read.format("ariane")
        .options(endpoints=local_cluster.name_servers, topics=",".join(topics))
        .load()
    )

    assert {tuple(row) for row in frame.groupBy("topic").count().collect()} == {
        (topic, 3) for topic in topics
    }


def test_more_bytes_than_one_chunk_and_a_limit_that_stops_early(reading, topic, producer):
    bodies = [bytes([number % 251]) * 10_000 for number in range(300)]
    producer.send_batch([Message(topic, body) for body in bodies])
    frame = reading(topic, columns="body", fetchMaxBytes="65536").load()

    assert len(frame.limit(3).collect()) == 3
    assert Counter(bytes(row.body) for row in frame.collect()) == Counter(bodies)


def test_sql_reads_by_a_temporary_view(orders, spark, local_cluster, topic):
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW orders USING ariane OPTIONS"
        f" (endpoints '{local_cluster.name_servers}', topic '{topic}')"
    )

    counted = spark.sql("SELECT count(*) FROM orders WHERE tag = 'tag-1'").first()

    assert counted[0] == sum(1 for message, _ in orders if message.tag == "tag-1")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"startingOffset": "earliest"}, "did you mean 'startingOffsets'?"),
        ({"pushdown": "true"}, "option 'pushdown': is known, but not available yet"),
        ({"filter": "a LIKE 'b'"}, "character 3: 'LIKE' was not expected here"),
        ({"columns": "offset"}, "a topic has no column 'offset'"),
        ({"startingOffsets": '{"TOPIC/broker-a/0": 999}'}, "'failOnDataLoss'"),
        ({"startingOffsets": '{"TOPIC/broker-z/0": 0}'}, "which no broker carries"),
        ({"topic": "no-such-topic"}, "no-such-topic"),
    ],
    ids=str,
)
def test_what_cannot_be_read_is_said_in_plain_words(reading, topic, options, text):
    given = {name: value.replace("TOPIC", topic) for name, value in options.items()}

    with pytest.raises((AnalysisException, PythonException)) as refusal:
        reading(topic, **given).load().collect()

    assert text in str(refusal.value)


def milliseconds(moment):
    return round(moment.astimezone(UTC).timestamp() * 1000)


def messages_of(frame):
    return [row.messageId for row in frame.select("messageId").collect()]
