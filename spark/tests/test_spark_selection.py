"""Which messages are read: topics by pattern, certain queues, tags, times, groups."""

import json
from datetime import UTC, datetime

import pytest
from pyspark.errors import AnalysisException, PythonException

from ariane_sdk import Message
from ariane_sdk.sync import QueueReader

pytestmark = pytest.mark.spark


@pytest.fixture
def reader(local_cluster):
    with QueueReader(local_cluster.name_servers) as reader:
        yield reader


@pytest.fixture
def everything(spark, local_cluster):
    """A batch reader to which nothing has been said but where."""
    return lambda **options: (
        spark.read.format("ariane").options(endpoints=local_cluster.name_servers, **options).load()
    )


@pytest.fixture
def orders(topic, producer):
    """Some messages with tags, and where they went."""
    tags = ("created", "paid", "", "Aa", "BB")  # The last two have one hash.
    messages = [
        Message(topic, b"%d" % n, tag=tags[n % len(tags)], properties={"n": str(n)})
        for n in range(50)
    ]
    return list(zip(messages, producer.send_batch(messages), strict=True))


def test_topics_by_pattern_and_certain_queues(everything, orders, topic):
    queue = orders[0][1].message_queue
    of_queue = sum(1 for _, result in orders if result.message_queue == queue)
    nested = json.dumps({topic: {queue.broker_name: [queue.queue_id]}})
    flat = json.dumps([f"{topic}/{queue.broker_name}/{queue.queue_id}"])

    assert everything(topicsPattern=f"{topic[:-1]}[{topic[-1]}]").count() == len(orders)
    assert everything(assign=nested).count() == everything(assign=flat).count() == of_queue
    with pytest.raises((AnalysisException, PythonException), match="no topic matches"):
        everything(topicsPattern="none-.*").count()


@pytest.mark.parametrize("columns", ["queueOffset", "messageId", "body"])
def test_tags_are_filtered_in_the_broker_and_by_name(orders, reading, topic, columns):
    def count(tag):
        return reading(topic, columns=columns, tag=tag).load().count()

    assert count("created || paid") == 20
    assert count("Aa") == 10
    assert count("other") == 0


@pytest.mark.parametrize("columns", ["queueOffset", "messageId", "body"])
def test_conditions_are_judged_in_the_broker(orders, reading, topic, columns):
    def count(condition):
        return reading(topic, columns=columns, filter=condition).load().count()

    assert count("n >= 40") == 10
    assert count("n < 10 AND TAGS IN ('Aa', 'created')") == 4
    assert count("missing = 'x'") == 0


def test_times_for_each_queue(orders, reading, topic):
    queue = orders[0][1].message_queue
    behind = max(result.store_timestamp_ms for _, result in orders) + 1
    times = json.dumps({topic: {queue.broker_name: {str(queue.queue_id): behind}}})
    others = sum(1 for _, result in orders if result.message_queue != queue)
    text = datetime.fromtimestamp(behind / 1000, UTC).isoformat()
    flat = json.dumps({f"{topic}/{queue.broker_name}/{queue.queue_id}": text})

    assert reading(topic, startingOffsetsByTimestamp=times).load().count() == others
    assert reading(topic, startingOffsetsByTimestamp=flat).load().count() == others
    assert reading(topic, endingOffsetsByTimestamp=times).load().count() == len(orders)
    with pytest.raises((AnalysisException, PythonException), match="no message was stored at or"):
        reading(
            topic,
            startingOffsetsByTimestamp=times,
            startingOffsetsByTimestampStrategy="error",
        ).load().count()


def test_what_a_group_has_not_consumed_yet(orders, reading, topic, reader):
    queue = orders[0][1].message_queue
    of_queue = sum(1 for _, result in orders if result.message_queue == queue)
    reader.store_offsets("billing", {queue: of_queue - 1})

    behind = reading(topic, group="billing", startingOffsets="earliest").load()

    assert behind.count() == len(orders) - of_queue + 1


def test_the_properties_may_be_left_out(orders, reading, topic):
    frame = reading(topic, includeProperties="false").load()

    assert "properties" not in frame.columns
    assert frame.count() == len(orders)


def test_a_stream_by_pattern_and_tag_shows_its_lag_to_a_group(
    spark, local_cluster, topic, orders, reader, tmp_path
):
    seen = []
    stream = (
        spark.readStream.format("ariane")
        .options(
            endpoints=local_cluster.name_servers,
            topicsPattern=topic,
            tag="paid || Aa",
            startingOffsets="earliest",
            maxOffsetsPerTrigger="40",
            maxBytesPerTrigger="1000000",
            minOffsetsPerTrigger="5",
            maxTriggerDelay="1s",
            commitGroup="spark-lag",
        )
        .load()
    )

    query = (
        stream.writeStream.foreachBatch(
            lambda rows, _: seen.extend(int(row.body) for row in rows.collect())
        )
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )

    assert query.awaitTermination(60)
    assert sorted(seen) == [n for n in range(50) if n % 5 in {1, 3}]
    # The last micro-batch too, of which Spark itself says nothing to its source.
    assert reader.stored_offsets("spark-lag", topic) == {
        queue: end for queue, (_, end) in reader.bounds(topic).items()
    }


@pytest.mark.slow
def test_a_stream_waits_for_enough_messages_but_not_for_ever(
    streaming, topic, orders, producer, tmp_path
):
    frame = streaming(
        topic,
        startingOffsets="latest",
        offsetCacheMs="0",
        minOffsetsPerTrigger="3",
        maxTriggerDelay="2s",
    ).load()
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(processingTime="20 milliseconds")
        .start()
    )
    try:
        query.processAllAvailable()
        producer.send_batch([Message(topic, b"x") for _ in range(2)])
        while not (counts := [p.numInputRows for p in query.recentProgress if p.numInputRows]):
            assert query.isActive
        producer.send_batch([Message(topic, b"x") for _ in range(3)])
        query.processAllAvailable()
    finally:
        query.stop()

    assert counts == [2]
