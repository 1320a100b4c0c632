"""Tables and streams into topics."""

import asyncio
import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from unittest.mock import MagicMock
from uuid import uuid4

import pytest
from pyspark import inheritable_thread_target
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as f

import ariane_spark
from ariane_sdk import Message, QueueReader
from ariane_spark import OptionIllegal, UnknownOption, foreach_batch_writer
from ariane_spark.calls.sink_batches import BATCH_ID_PROPERTY, QUERY_ID_PROPERTY
from ariane_spark.sink.foreach_batch import RUN_ID_PROPERTY

pytestmark = pytest.mark.spark


@pytest.fixture
def write(local_cluster):
    def write(frame, **options):
        if options.get("deliveryGuarantee") == "exactly-once":
            options["writeId"] = uuid4().hex
        (
            frame.write.format("ariane")
            .mode("append")
            .option("endpoints", local_cluster.name_servers)
            .options(**options)
            .save()
        )

    return write


def test_every_column_arrives(spark, topic, reading, write):
    frame = spark.createDataFrame(
        [
            (b"one", "created", ["k1", "k2"], "g", {"city": "Zürich"}),
            (b"", None, None, None, None),
            (bytes(range(256)), "", [], "", {}),
        ],
        "body binary, tag string, keys array<string>, messageGroup string,"
        " properties map<string,string>",
    )

    write(frame, topic=topic)

    rows = {bytes(row.body): row for row in reading(topic).load().collect()}
    assert set(rows) == {b"one", b"", bytes(range(256))}
    one = rows[b"one"]
    assert (one.tag, one["keys"], one.messageGroup) == ("created", ["k1", "k2"], "g")
    assert one.properties["city"] == "Zürich"
    for body in (b"", bytes(range(256))):
        row = rows[body]
        assert (row.tag, row["keys"], row.messageGroup) == (None, [], None)
        assert list(row.properties) == ["messageId"]
    assert len({row.properties["messageId"] for row in rows.values()}) == 3


def test_many_rows_from_many_partitions_go_to_the_topics_they_name(
    spark, new_topic, reading, write
):
    topics = [new_topic(), new_topic()]
    frame = spark.range(0, 25_000, numPartitions=3).select(
        f.col("id").cast("string").alias("body"),
        f.element_at(f.array(*map(f.lit, topics)), (f.col("id") % 2 + 1).cast("int")).alias(
            "topic"
        ),
    )

    write(frame)

    for remainder, topic in enumerate(topics):
        numbers = [int(row.body) for row in reading(topic, columns="body").load().collect()]
        assert sorted(numbers) == list(range(remainder, 25_000, 2))


def test_a_task_that_is_repeated_writes_the_same_ids_again(spark, topic, reading, write):
    @f.udf("string", useArrow=False)
    def fail_once(number):
        from pyspark import TaskContext  # noqa: PLC0415 - runs in a task.

        if number == 19_999 and TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("the first attempt fails when most of its rows are written")
        return str(number)

    numbers = spark.range(0, 20_000, numPartitions=1)

    write(numbers.select(fail_once("id").alias("body")), topic=topic)

    rows = reading(topic, columns="body,properties").load().collect()
    bodies_by_id = {}
    for row in rows:
        bodies_by_id.setdefault(row.properties["messageId"], set()).add(int(row.body))
    assert sorted(min(bodies) for bodies in bodies_by_id.values()) == list(range(20_000))
    assert all(len(bodies) == 1 for bodies in bodies_by_id.values())
    assert len(rows) > 20_000


def test_rows_are_delivered_when_they_say(spark, topic, reading, write):
    soon = datetime.now(UTC) + timedelta(seconds=3)
    rows = [("now", None), ("later", soon), ("past", datetime(2013, 1, 1, tzinfo=UTC))]

    write(spark.createDataFrame(rows, "body string, deliveryTimestamp timestamp"), topic=topic)

    def delivered():
        found = reading(topic).load().collect()
        return {row.body.decode(): row for row in found}

    first = delivered()
    if "later" in first:  # Reading took its time.
        assert datetime.now(UTC) >= soon
    deadline = time.monotonic() + 60
    while len(found := delivered()) < len(rows):
        assert time.monotonic() < deadline, sorted(found)
    assert found["later"].storeTimestamp.astimezone(UTC) >= soon - timedelta(milliseconds=1)
    assert found["now"].deliveryTimestamp is None
    late = found["later"].deliveryTimestamp.astimezone(UTC) - soon
    assert timedelta() <= late < timedelta(milliseconds=1)


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
@pytest.mark.parametrize("kind", ["lz4", "zstd", "zlib"])
def test_large_bodies_are_compressed(spark, topic, local_cluster, reading, write, kind, guarantee):
    frame = spark.range(300).selectExpr(
        "repeat(concat(id, ' '), if(id % 3 = 0, 1, 2000)) AS body", "cast(id AS string) AS tag"
    )

    write(frame, topic=topic, deliveryGuarantee=guarantee, compression=kind, compressBytesMin="900")

    rows = reading(topic, columns="tag,body").load().collect()
    assert {row.tag: row.body.decode() for row in rows} == {
        str(number): f"{number} " * (2000 if number % 3 else 1) for number in range(300)
    }
    stored = stored_records(local_cluster.name_servers, topic)
    assert sum(len(columns.compressed_positions()) for columns in stored) == 200
    assert sum(int(columns.body_length.sum()) for columns in stored) < 300 * 900
    assert sorted(body for columns in stored for body in columns.bodies()) == sorted(
        bytes(row.body) for row in rows
    )


def stored_records(name_servers, topic):
    async def read():
        async with QueueReader(name_servers) as reader:
            return [
                columns
                for queue, (begin, end) in (await reader.bounds(topic)).items()
                async for columns in reader.read_range(queue, begin, end)
            ]

    return asyncio.run(read())


@pytest.fixture
def copied(local_cluster, streaming, new_topic, tmp_path):
    """Copies a topic by a stream until everything is done; the topic that it was copied to."""

    def copy(source):
        target = new_topic()
        query = (
            streaming(source, startingOffsets="earliest", maxOffsetsPerTrigger="300")
            .load()
            .select("body", "tag", "messageGroup")
            .writeStream.foreachBatch(foreach_batch_writer(local_cluster.name_servers, target))
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)
        return target

    return copy


def test_a_stream_is_copied_message_by_message(copied, topic, producer, reading):
    producer.send_batch(
        [Message(topic, b"%d" % n, tag="t", message_group=f"g{n % 5}") for n in range(500)]
    )

    rows = reading(copied(topic)).load().collect()

    assert Counter(int(row.body) for row in rows) == Counter(range(500))
    assert len({row.properties["messageId"] for row in rows}) == 500
    for group in range(5):
        numbers = [int(row.body) for row in rows if row.messageGroup == f"g{group}"]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize(
    ("columns", "options", "text"),
    [
        ("body", {"topic": "t", "writeId": "w"}, "only with deliveryGuarantee='exactly-once'"),
        ("body", {}, "option 'topic': is missing"),
        ("body", {"topic": "t", "tpic": "u"}, "did you mean 'topic'?"),
        ("body AS text", {"topic": "t"}, "column 'text' cannot be written"),
        ("1 AS body", {"topic": "t"}, "column 'body' is int, not binary or string"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_sent(
    spark, write, columns, options, text
):
    frame = spark.createDataFrame([("x",)], "body string").selectExpr(columns)

    with pytest.raises(AnalysisException) as refusal:
        write(frame, **options)

    assert text in str(refusal.value)


@pytest.mark.parametrize(
    ("name_server", "said"),
    [
        pytest.param("127.0.0.1:1", "no name server answered", marks=pytest.mark.slow),
        ("a broker", "name server 127.0.0.1:"),
    ],
)
@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_write_to_no_name_server_is_refused_before_tasks_start(
    spark, write, local_cluster, name_server, said, guarantee
):
    if name_server == "a broker":
        name_server = local_cluster.brokers[0].address

    with pytest.raises(AnalysisException, match=said):
        write(
            spark.range(3).selectExpr("cast(id AS string) AS body"),
            endpoints=name_server,
            topic="t",
            deliveryGuarantee=guarantee,
        )


def test_a_topic_is_never_overwritten(spark, topic, local_cluster):
    writer = spark.createDataFrame([("x",)], "body string").write.format("ariane")

    with pytest.raises(AnalysisException, match="only appended to"):
        writer.mode("overwrite").options(endpoints=local_cluster.name_servers, topic=topic).save()


def test_a_bad_sink_is_refused_before_the_query_starts():
    with pytest.raises(UnknownOption, match="did you mean 'deliveryGuarantee'"):
        foreach_batch_writer("127.0.0.1:9876", "t", deliveryGuarante="at-least-once")
    with pytest.raises(OptionIllegal, match="streams are told apart by 'sinkId'"):
        foreach_batch_writer("127.0.0.1:9876", "t", delivery="exactly-once", writeId="w")
    with pytest.raises(OptionIllegal, match="host:port"):
        foreach_batch_writer("localhost", "t")


def test_values_of_options_need_not_be_texts():
    foreach_batch_writer("127.0.0.1:9876", "t", maxInFlight=4)
    with pytest.raises(OptionIllegal, match="1 to 64"):
        foreach_batch_writer("127.0.0.1:9876", "t", maxInFlight=400)


@pytest.mark.parametrize("inherits", [False, True])
def test_a_thread_can_write_once_its_session_is_active(spark, topic, reading, write, inherits):
    def work():
        ariane_spark.activate(spark)
        write(spark.range(3).selectExpr("cast(id AS string) AS body"), topic=topic)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(inheritable_thread_target(spark)(work) if inherits else work).result()

    assert reading(topic).load().count() == 3


def running_batch():
    """The rows of micro-batch 0, and the properties of the thread that Spark calls."""
    rows = MagicMock()
    properties = {
        RUN_ID_PROPERTY: str(uuid4()),
        QUERY_ID_PROPERTY: str(uuid4()),
        BATCH_ID_PROPERTY: "0",
    }
    rows.sparkSession.sparkContext.getLocalProperty.side_effect = properties.get
    return rows, properties


def test_a_writer_passes_on_which_micro_batch_it_was_given():
    rows, properties = running_batch()
    given = rows.write.format().mode().options

    def passed(batch_id=0, **options):
        foreach_batch_writer("127.0.0.1:9876", "t", **options)(rows, batch_id)
        return {name: given.call_args.kwargs.get(name) for name in ("query", "batchId")}

    exactly = {"delivery": "exactly-once"}
    own = {"query": properties[QUERY_ID_PROPERTY], "batchId": "0"}
    assert passed() == passed(**exactly) == own
    assert passed(7, query="copies", **exactly) == {"query": "copies", "batchId": "7"}
    # A thread of a pool, which knows nothing; one that still knows an earlier micro-batch; and a
    # remote session.
    for forget in (
        properties.clear,
        lambda: properties.update(own),
        lambda: rows.sparkSession.mock_add_spec(["createDataFrame"]),
    ):
        forget()
        assert passed(1) == {"query": None, "batchId": None}
        with pytest.raises(OptionIllegal, match="does not tell it to threads"):
            passed(1, **exactly)
        assert passed(1, query="copies", **exactly) == {"query": "copies", "batchId": "1"}


def test_two_writes_of_a_micro_batch_under_one_name_are_refused():
    rows, properties = running_batch()
    where = {"endpoints": "127.0.0.1:9876", "topic": "t", "delivery": "exactly-once"}
    first, second = foreach_batch_writer(**where), foreach_batch_writer(**where)
    apart = foreach_batch_writer(**where, sinkId="apart")

    save = rows.write.format().mode().options().save
    save.side_effect = ConnectionError
    with pytest.raises(ConnectionError):
        first(rows, 0)
    save.side_effect = None
    first(rows, 0)  # What failed may be tried again.
    apart(rows, 0)
    with pytest.raises(OptionIllegal, match="give the second one a 'sinkId' of its own"):
        second(rows, 0)
    properties[BATCH_ID_PROPERTY] = "1"
    first(rows, 1)
    # Another run repeats what the first left undone.
    properties[RUN_ID_PROPERTY] = str(uuid4())
    second(rows, 1)

    properties |= {BATCH_ID_PROPERTY: "2", RUN_ID_PROPERTY: "a job group of the application"}
    first(rows, 2)
    second(rows, 2)
    often = foreach_batch_writer("127.0.0.1:9876", "t")
    often(rows, 1)
    often(rows, 1)


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_bad_row_is_one_line_or_goes_aside(spark, new_topic, reading, write, guarantee):
    topic, aside = new_topic(), new_topic()
    rows = spark.createDataFrame([("a",), (None,), ("b",)], "body string")
    given = {"topic": topic, "deliveryGuarantee": guarantee}

    with pytest.raises(PySparkException) as refusal:
        write(rows.coalesce(1), **given)
    lines = [line for line in str(refusal.value).splitlines() if "errors.RowIllegal" in line]
    assert len(lines) == 1
    assert "row 1 of" in lines[0]
    assert "has no body" in lines[0]
    assert "Job aborted" not in str(refusal.value), "no task failed"

    write(rows, **given, onBadRow="deadLetter", deadLetterTopic=aside)
    bodies = {row.body for row in reading(topic).load().collect()}
    assert bodies == {b"a", b"b"}
    (letter,) = reading(aside).load().collect()
    assert json.loads(letter.body) == {"body": None}
    assert "has no body" in letter.properties["refusedBecause"]
