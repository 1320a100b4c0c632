"""Each row once, whatever is repeated."""

import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import functions as f

from ariane_sdk import Message
from ariane_spark import foreach_batch_writer

pytestmark = pytest.mark.spark

EXACTLY_ONCE = "exactly-once"


@pytest.fixture
def write(local_cluster):
    def write(frame, **options):
        (
            frame.write.format("ariane")
            .mode("append")
            .options(endpoints=local_cluster.name_servers, deliveryGuarantee=EXACTLY_ONCE)
            .options(**{"writeId": uuid4().hex, **options})
            .save()
        )

    return write


@pytest.fixture
def numbers_of(reading):
    def numbers_of(topic):
        return sorted(int(row.body) for row in reading(topic, columns="body").load().collect())

    return numbers_of


@pytest.fixture
def source(topic, producer):
    """A topic of 600 messages in seven message groups."""
    producer.send_batch(
        [Message(topic, b"%d" % n, tag="t", message_group=f"g{n % 7}") for n in range(600)]
    )
    return topic


@pytest.fixture
def copy(local_cluster, streaming, source, tmp_path):
    """Copies the source to a topic by a stream that ends when all that is there is done."""

    def copy(target, how="format", transform=lambda rows: rows, **options):
        rows = streaming(source, startingOffsets="earliest", maxOffsetsPerTrigger="300").load()
        writer = transform(rows.select("body", "tag", "messageGroup")).writeStream
        where = {"topic": target, "endpoints": local_cluster.name_servers}
        if how == "format":
            given = {"deliveryGuarantee": EXACTLY_ONCE, **where, **options}
            writer = writer.format("ariane").options(**given)
        else:
            writer = writer.foreachBatch(foreach_batch_writer(delivery=EXACTLY_ONCE, **where))
        query = (
            writer.queryName(f"copy-{how}-{target}")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(90)
        return query

    return copy


def forget_last_commit(tmp_path):
    """Make Spark believe that it never heard of the end of its last micro-batch."""
    commits = Path(tmp_path) / "checkpoint" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for path in commits.glob(f"*{last}*"):
        path.unlink()
    return last


def numbers(spark, first, end):
    return spark.range(first, end, numPartitions=2).select(f.col("id").cast("string").alias("body"))


def test_every_column_arrives(spark, topic, reading, write):
    frame = spark.createDataFrame(
        [(b"one", "created", ["k1", "k2"], "g", {"city": "Zürich"}), (b"", None, None, None, None)],
        "body binary, tag string, keys array<string>, messageGroup string,"
        " properties map<string,string>",
    )

    write(frame, topic=topic)

    rows = {bytes(row.body): row for row in reading(topic).load().collect()}
    one, bare = rows[b"one"], rows[b""]
    assert (one.tag, one["keys"], one.messageGroup) == ("created", ["k1", "k2"], "g")
    assert one.properties["city"] == "Zürich"
    assert (bare.tag, bare["keys"], bare.messageGroup) == (None, [], None)
    assert one.messageId == one.properties["messageId"]
    assert one.messageId != bare.messageId


def test_a_task_that_is_repeated_writes_once(spark, topic, numbers_of, write):
    @f.udf("string", useArrow=False)
    def fail_once(number):
        from pyspark import TaskContext  # noqa: PLC0415 - runs in a task.

        if number == 19_999 and TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("the first attempt fails when most of its rows are staged")
        return str(number)

    many = spark.range(0, 20_000, numPartitions=1)

    write(many.select(fail_once("id").alias("body")), topic=topic, batchBytes="65536")

    assert numbers_of(topic) == list(range(20_000))


def test_a_job_that_is_repeated_writes_once(spark, new_topic, numbers_of, write):
    topics = [new_topic(), new_topic()]
    frame = spark.range(0, 5000, numPartitions=3).select(
        f.col("id").cast("string").alias("body"),
        f.element_at(f.array(*map(f.lit, topics)), (f.col("id") % 2 + 1).cast("int")).alias(
            "topic"
        ),
    )

    for _ in range(2):
        write(frame, writeId=f"job-{topics[0]}")

    for remainder, topic in enumerate(topics):
        assert numbers_of(topic) == list(range(remainder, 5000, 2))


def test_one_name_of_a_write_to_two_topics_is_two_writes(spark, new_topic, numbers_of, write):
    first, second = new_topic(), new_topic()
    name = f"job-{first}"

    write(numbers(spark, 0, 50), topic=first, writeId=name)
    write(numbers(spark, 50, 80), topic=second, writeId=name)

    assert numbers_of(first) == list(range(50))
    assert numbers_of(second) == list(range(50, 80))


def test_a_repeated_job_with_other_rows_fails_and_says_what_to_do(spark, topic, numbers_of, write):
    write(numbers(spark, 0, 50), topic=topic, writeId="job")

    for first, end, clause in ((1, 51, "50 messages"), (0, 49, "49 messages")):
        with pytest.raises(Exception, match="was committed before, with other") as refusal:
            write(numbers(spark, first, end), topic=topic, writeId="job")
        assert clause in str(refusal.value)
        assert "give this write another 'writeId'" in str(refusal.value)
    write(numbers(spark, 1, 51), topic=topic, writeId="job", onChangedBatch="skip")

    assert numbers_of(topic) == list(range(50))


@pytest.mark.slow
def test_a_restored_checkpoint_fails_where_its_rows_differ(
    copy, new_topic, numbers_of, producer, source, tmp_path
):
    target = new_topic()
    copy(target)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "backup")
    producer.send_batch([Message(source, b"%d" % n) for n in range(600, 700)])
    copy(target)
    assert numbers_of(target) == list(range(700))

    # What came in the meantime makes the next micro-batch of the old checkpoint another one.
    producer.send_batch([Message(source, b"%d" % n) for n in range(700, 750)])
    shutil.rmtree(tmp_path / "checkpoint")
    (tmp_path / "backup").rename(tmp_path / "checkpoint")
    with pytest.raises(Exception, match="was committed before, with other rows") as refusal:
        copy(target)
    assert "micro-batch 2 of " in str(refusal.value)
    assert "start the query with a new checkpoint" in str(refusal.value)
    assert numbers_of(target) == list(range(700))


@pytest.mark.slow
def test_an_older_checkpoint_that_repeats_the_same_rows_catches_up(
    copy, new_topic, numbers_of, producer, source, tmp_path
):
    target = new_topic()
    copy(target)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "backup")
    for first in (600, 700):
        producer.send_batch([Message(source, b"%d" % n) for n in range(first, first + 100)])
        copy(target)
        if first == 600:
            shutil.copytree(tmp_path / "checkpoint", tmp_path / "copied")
    shutil.rmtree(tmp_path / "checkpoint")
    # A copy of the first state, which knows what the second one planned.
    (tmp_path / "copied").rename(tmp_path / "checkpoint")
    assert forget_last_commit(tmp_path) == 2

    copy(target, transform=lambda rows: rows.repartition(3))

    assert numbers_of(target) == list(range(800))


def test_a_write_that_fails_leaves_nothing_to_see(spark, topic, numbers_of, write):
    @f.udf("string", useArrow=False)
    def fail(number):
        if number == 999:
            raise RuntimeError("always")
        return str(number)

    with pytest.raises(Exception, match="always"):
        write(spark.range(0, 1000, numPartitions=2).select(fail("id").alias("body")), topic=topic)

    assert numbers_of(topic) == []


@pytest.mark.parametrize("how", ["format", pytest.param("foreachBatch", marks=pytest.mark.slow)])
def test_a_micro_batch_that_is_repeated_is_written_once(
    how, copy, new_topic, numbers_of, reading, tmp_path
):
    target = new_topic()
    copy(target, how)
    assert numbers_of(target) == list(range(600))

    assert forget_last_commit(tmp_path) == 1
    # The rows of the repeated micro-batch come from other partitions now.
    copy(target, how, lambda rows: rows.repartition(3))

    rows = reading(target).load().collect()
    assert Counter(int(row.body) for row in rows) == Counter(range(600))
    for group in range(7):
        of_group = [row for row in rows if row.messageGroup == f"g{group}"]
        assert len({(row.topic, row.queueId) for row in of_group}) == 1
        in_order = [int(row.body) for row in sorted(of_group, key=lambda row: row.queueOffset)]
        assert in_order == sorted(in_order)

    # Another checkpoint is another stream.
    shutil.rmtree(tmp_path / "checkpoint")
    copy(target, how)
    assert numbers_of(target) == sorted([*range(600), *range(600)])


@pytest.mark.slow
@pytest.mark.parametrize("place", ["a pool", "a thread that makes a frame first"])
def test_what_threads_write_of_a_repeated_micro_batch_is_written_once(
    place, local_cluster, streaming, source, new_topic, numbers_of, tmp_path
):
    """Spark tells its own thread alone which micro-batch runs."""
    targets = [new_topic(), new_topic()]

    def run(attempt, **given):
        writers = [
            foreach_batch_writer(local_cluster.name_servers, target, delivery=EXACTLY_ONCE, **given)
            for target in targets
        ]

        def in_thread(writer, rows, batch_id):
            if place != "a pool":
                rows.sparkSession.createDataFrame([("x",)], "body string").count()
            writer(rows, batch_id)

        def write(rows, batch_id):
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(lambda writer: in_thread(writer, rows, batch_id), writers))
            if batch_id == attempt < 2:
                raise RuntimeError("after both are written")

        query = (
            streaming(source, startingOffsets="earliest", maxOffsetsPerTrigger="300")
            .load()
            .select("body")
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(90)

    with pytest.raises(StreamingQueryException, match="'query': is required"):
        run(2)
    for attempt in (0, 1):
        with pytest.raises(StreamingQueryException, match="after both are written"):
            run(attempt, query=f"copies-{source}")
    run(2, query=f"copies-{source}")

    for target in targets:
        assert numbers_of(target) == list(range(600))


@pytest.mark.slow
def test_a_micro_batch_that_is_repeated_under_spark_connect_is_written_once(
    local_cluster, source, new_topic, numbers_of, tmp_path
):
    target = new_topic()
    done = subprocess.run(
        [
            *(sys.executable, str(Path(__file__).parent / "connect_job.py")),
            *(local_cluster.name_servers, source, target, str(tmp_path)),
        ],
        env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(tmp_path / "l")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-5000:]
    assert done.stdout.splitlines()[-3:] == ["refused", "failed after its write", "done"]
    assert numbers_of(target) == list(range(600))


def test_a_stream_that_fails_in_a_task_goes_on(copy, new_topic, numbers_of, tmp_path):
    @f.udf("binary", useArrow=False)
    def stumble(body):
        if int(body) == 400 and not (tmp_path / "stumbled").exists():
            (tmp_path / "stumbled").touch()
            raise RuntimeError("once")
        return body

    def transform(rows):
        return rows.withColumn("body", stumble("body"))

    target = new_topic()

    copy(target, transform=transform)

    assert (tmp_path / "stumbled").exists()
    assert numbers_of(target) == list(range(600))


@pytest.mark.slow
def test_at_least_once_writes_streams_too(copy, new_topic, numbers_of):
    target = new_topic()

    copy(target, deliveryGuarantee="at-least-once", maxInFlight="4", batchBytes="65536")

    assert numbers_of(target) == list(range(600))


@pytest.fixture
def arrived(reading):
    """The rows of a topic, once there are so many."""

    def arrived(topic, count):
        deadline = time.monotonic() + 60
        while len(rows := reading(topic).load().collect()) < count:
            assert time.monotonic() < deadline, len(rows)
        return rows

    return arrived


def test_rows_are_delivered_when_they_say_and_once(spark, topic, reading, write, arrived):
    soon = datetime.now(UTC) + timedelta(seconds=3)
    past = datetime(2013, 1, 1, tzinfo=UTC)
    frame = spark.createDataFrame(
        [
            ("now", None, "a", ["k"], {"city": "Zürich"}, None),
            ("grouped", None, None, None, None, "g"),
            ("past", past, "b", None, None, None),
            ("later", soon, "c", ["k1", "k2"], {"city": "Bern"}, None),
        ],
        "body string, deliveryTimestamp timestamp, tag string, keys array<string>,"
        " properties map<string,string>, messageGroup string",
    )

    for _ in range(2):
        write(frame, topic=topic, writeId=f"job-{topic}")
        found = {row.body.decode() for row in reading(topic, columns="body").load().collect()}
        assert found - {"later"} == {"now", "grouped", "past"}

    rows = {row.body.decode(): row for row in arrived(topic, 4)}
    later = rows["later"]
    assert later.storeTimestamp.astimezone(UTC) >= soon - timedelta(milliseconds=1)
    assert (later.tag, later["keys"], later.properties["city"]) == ("c", ["k1", "k2"], "Bern")
    assert rows["grouped"].messageGroup == "g"
    write(frame, topic=topic, writeId=f"job-{topic}")
    assert len(arrived(topic, 4)) == 4


@pytest.mark.slow
def test_a_repeated_micro_batch_delivers_nothing_again_later(copy, new_topic, arrived, tmp_path):
    def transform(rows):
        due = f.current_timestamp() + f.expr("INTERVAL 2 SECONDS")
        timed = f.col("body").cast("string").cast("int") % 3 == 0
        says = f.create_map(f.lit("due"), f.unix_millis(due).cast("string"))
        return rows.select(
            "body",
            f.when(timed, due).alias("deliveryTimestamp"),
            f.when(timed, says).alias("properties"),
            f.when(~timed, f.col("messageGroup")).alias("messageGroup"),
        )

    target = new_topic()
    copy(target, transform=transform)
    assert forget_last_commit(tmp_path) == 1
    copy(target, transform=lambda rows: transform(rows).repartition(3))
    repeated = time.monotonic()

    arrived(target, 600)
    # What the repetition had parked would be due by now.
    time.sleep(max(0.0, repeated + 2.2 - time.monotonic()))
    rows = arrived(target, 600)
    assert Counter(int(row.body) for row in rows) == Counter(range(600))
    timed = [row for row in rows if "due" in row.properties]
    assert sorted(int(row.body) for row in timed) == list(range(0, 600, 3))
    for row in timed:
        assert row.storeTimestamp.timestamp() * 1000 >= int(row.properties["due"])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"deliveryGuarantee": "perhaps"}, "neither 'at-least-once' nor 'exactly-once'"),
        ({"maxInFlight": "4"}, "is for 'at-least-once'"),
        ({"batchBytes": "1"}, "out of range"),
        ({"writeId": "x" * 101}, "100 printable characters"),
        ({"compression": "lzma"}, "none of none, lz4, zstd, zlib"),
    ],
)
def test_what_cannot_be_obeyed_is_refused_before_anything_is_staged(spark, write, options, text):
    frame = spark.createDataFrame([("x",)], "body string")

    with pytest.raises(AnalysisException) as refusal:
        write(frame, topic="t", **options)

    assert text in str(refusal.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"topic": "nowhere"}, "no live broker has topic nowhere.* ariane topic create nowhere"),
        (
            {"onBadRow": "deadLetter", "deadLetterTopic": "nowhere"},
            "no live broker has topic nowhere",
        ),
        ({"sinkBrokers": "broker-z"}, "has no queue to write on broker-z"),
    ],
)
def test_a_write_to_a_topic_that_is_not_there_is_refused_before_tasks_start(
    spark, write, topic, options, text
):
    with pytest.raises(AnalysisException, match=text):
        write(numbers(spark, 0, 3), **{"topic": topic, **options})


@pytest.mark.slow
def test_a_stream_to_a_topic_that_is_not_there_runs_no_task(copy, tmp_path):
    @f.udf("binary", useArrow=False)
    def told(body):
        (tmp_path / "a task ran").touch()
        return body

    with pytest.raises(StreamingQueryException, match="no live broker has topic nowhere"):
        copy("nowhere", transform=lambda rows: rows.withColumn("body", told("body")))

    assert not (tmp_path / "a task ran").exists()


@pytest.mark.slow
def test_a_broker_without_the_topic_is_named(spark, write):
    frame = spark.createDataFrame([("x", "nowhere")], "body string, topic string")

    with pytest.raises(Exception, match="nowhere"):
        write(frame)
