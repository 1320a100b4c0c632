"""On a cluster of Spark's own: a master and four workers, each a process."""

import json
import textwrap

import pytest

from ariane_sdk import Message

# Ten JVMs start for it: on two cores that others use too, that alone may take minutes.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

JOB = textwrap.dedent(
    """
    import json, sys
    import ariane_spark
    from pyspark.sql import functions as f

    master, options, endpoints, source, target, folder = sys.argv[1:]
    spark = ariane_spark.session(
        "standalone",
        master=master,
        settings={
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            # Tasks wait until all executors are there, however long that takes.
            "spark.cores.max": "4",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "240s",
            "spark.executor.extraJavaOptions": options,
            "spark.driver.extraJavaOptions": options,
        },
    )

    @f.udf("string", useArrow=False)
    def executor(number):
        import os
        return os.getcwd()  # A worker of Spark gives each executor a folder of its own.

    where = {"endpoints": endpoints, "minPartitions": "8"}
    rows = spark.read.format("ariane").options(topic=source, **where).load()
    executors = rows.select(executor("queueOffset").alias("place")).distinct().collect()

    stream = (
        spark.readStream.format("ariane")
        .options(topic=source, startingOffsets="earliest", **where)
        .load()
        .select("body", "tag", "messageGroup")
    )
    query = (
        stream.writeStream.format("ariane")
        .options(endpoints=endpoints, topic=target, deliveryGuarantee="exactly-once")
        .option("checkpointLocation", folder)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(240)
    copied = spark.read.format("ariane").options(endpoints=endpoints, topic=target).load()
    print(json.dumps({
        "rows": rows.count(),
        "executors": len(executors),
        "copied": sorted(int(row.body) for row in copied.select("body").collect()),
    }))
    spark.stop()
    """
)


@pytest.fixture
def worker_count():
    return 4


def test_topics_are_read_and_written_exactly_once_by_four_workers(
    master, processes, local_cluster, new_topic, producer, tmp_path
):
    source, target = new_topic(), new_topic()
    producer.send_batch(
        [Message(source, b"%d" % n, tag="t", message_group=f"g{n % 9}") for n in range(2000)]
    )

    told = json.loads(
        processes.run(
            "-c",
            JOB,
            master,
            processes.java_options,
            local_cluster.name_servers,
            source,
            target,
            str(tmp_path / "check"),
        )
    )

    assert told == {"rows": 2000, "executors": 4, "copied": list(range(2000))}
