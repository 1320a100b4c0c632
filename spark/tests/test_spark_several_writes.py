"""A function of ``foreachBatch`` that writes several times: each write once, wherever it fails."""

from collections import Counter

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as f

from ariane_sdk import Message
from ariane_spark import foreach_batch_writer

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 120
FAILURES = (
    "after the first write",
    "in a task of the second",
    "after the second write",
    "after the third write",
)


@pytest.fixture
def run(local_cluster, streaming, new_topic, producer, tmp_path):
    """Runs the query to the end of its source, or until it fails where it is told to.

    In each micro-batch there are two writes to one topic, which ``sinkId`` tells apart, and between
    them one to the topics of a column.
    """
    source, target, evens, odds = (new_topic() for _ in range(4))
    producer.send_batch([Message(source, b"%d" % n) for n in range(ROWS)])

    def writer(topic, **given):
        names = local_cluster.name_servers
        return foreach_batch_writer(names, topic, delivery="exactly-once", **given)

    plain, routed, apart = writer(target), writer(None), writer(target, sinkId="apart")
    even = f.col("body").cast("string").cast("int") % 2 == 0

    def run(failure=None, batch_id=None):
        @f.udf("binary", useArrow=False)
        def stumble(body):
            if failure == "in a task of the second":
                raise RuntimeError(failure)
            return body

        def write(rows, number):
            def fail(where):
                if (where, number) == (failure, batch_id):
                    raise RuntimeError(where)

            plain(rows, number)
            fail("after the first write")
            body = stumble("body") if number == batch_id else f.col("body")
            to = f.when(even, evens).otherwise(odds)
            routed(rows.select(body.alias("body"), to.alias("topic")), number)
            fail("after the second write")
            apart(rows.where(even).withColumn("tag", f.lit("even")), number)
            fail("after the third write")

        query = (
            streaming(source, startingOffsets="earliest", maxOffsetsPerTrigger=str(ROWS // 2))
            .load()
            .select("body")
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(90)
        return target, evens, odds

    return run


@pytest.mark.timeout(300)
def test_each_of_several_writes_of_a_micro_batch_is_written_once(run, reading):
    for batch_id in (0, 1):
        for failure in FAILURES:
            with pytest.raises(StreamingQueryException, match=failure):
                run(failure, batch_id)
    topics = run()

    target, evens, odds = (
        Counter(
            (row.tag, int(row.body)) for row in reading(topic, columns="body,tag").load().collect()
        )
        for topic in topics
    )
    every_other = range(0, ROWS, 2)
    assert target == Counter(
        [*((None, n) for n in range(ROWS)), *(("even", n) for n in every_other)]
    )
    assert evens == Counter((None, n) for n in every_other)
    assert odds == Counter((None, n) for n in range(1, ROWS, 2))
