"""Writes and reads in every way by the Python and Spark that run it, and counts every row.

Made for the table of versions in Spark's README: run it in an environment that has nothing but our
wheels, a Spark and pyarrow, beside a cluster::

    python spark/tests/version_job.py NAME_SERVERS PREFIX FOLDER

The topics are named by the prefix, and files are in the folder. It prints what it has run by.
"""

from __future__ import annotations

import json
import platform
import sys
from collections import Counter

import pyspark
from pyspark.sql import functions as f

import ariane_spark
from ariane_sdk.sync import ClusterClient

ROWS = 600
EXACTLY_ONCE = {"deliveryGuarantee": "exactly-once"}


class Job:
    """The steps, each of which leaves all rows in a topic, once each."""

    def __init__(self, endpoints, prefix, folder):
        self._where = {"endpoints": endpoints}
        self._prefix = prefix
        self._folder = folder
        self._spark = ariane_spark.session(
            "versions",
            master="local[2,2]",
            settings={
                "spark.local.dir": f"{folder}/local",
                "spark.sql.warehouse.dir": f"{folder}/warehouse",
                "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            },
        )

    def run(self):
        """All steps."""
        for name in ("once", "named", "available", "triggered", "each", "sent"):
            with ClusterClient(self._where["endpoints"]) as client:
                client.create_topic(self._topic(name), queue_count=2)
        numbers = self._spark.range(0, ROWS, numPartitions=3)
        rows = numbers.select(
            f.col("id").cast("string").alias("body"),
            f.lit("tag").alias("tag"),
            f.array(f.concat(f.lit("k"), "id")).alias("keys"),
            f.when(f.col("id") % 2 == 0, f.concat(f.lit("g"), f.col("id") % 7)).alias(
                "messageGroup"
            ),
            f.create_map(f.lit("city"), f.lit("Zürich")).alias("properties"),
            f.when(f.col("id") % 2 == 1, f.timestamp_seconds(f.lit(1_000_000_000))).alias(
                "deliveryTimestamp"
            ),
        )
        rows.write.format("ariane").mode("append").options(**self._to("once")).save()
        self._check("once")
        for _ in range(2):
            named = self._to("named") | EXACTLY_ONCE | {"writeId": self._prefix}
            rows.write.format("ariane").mode("append").options(**named).save()
        self._check("named")
        copied = self._stream().writeStream.format("ariane")
        self._finish(copied.options(**self._to("available"), **EXACTLY_ONCE), "available")
        copied = self._stream().writeStream.format("ariane")
        self._finish(copied.options(**self._to("triggered"), **EXACTLY_ONCE), "triggered")
        copied = self._stream().writeStream.format("ariane")
        self._finish(copied.options(**self._to("sent")), "sent")
        write = ariane_spark.foreach_batch_writer(
            self._where["endpoints"], self._topic("each"), delivery="exactly-once"
        )
        self._finish(self._stream().writeStream.foreachBatch(write), "each")
        self._spark.stop()

    def _topic(self, name):
        return f"{self._prefix}-{name}"

    def _to(self, name):
        return self._where | {"topic": self._topic(name)}

    def _stream(self):
        stream = self._spark.readStream.format("ariane").options(**self._to("once"))
        columns = ("body", "tag", "keys", "messageGroup", "properties", "deliveryTimestamp")
        return stream.options(startingOffsets="earliest").load().select(*columns)

    def _finish(self, writer, name):
        """Run a stream until it has all rows."""
        writer = writer.option("checkpointLocation", f"{self._folder}/{name}")
        if name != "triggered":
            query = writer.trigger(availableNow=True).start()
            if not query.awaitTermination(120):
                raise TimeoutError(name)
        else:
            query = writer.trigger(processingTime="500 milliseconds").start()
            query.processAllAvailable()
            query.stop()
        self._check(name)

    def _check(self, name):
        """See that a topic has each row once, with what it was written with."""
        read = self._spark.read.format("ariane").options(**self._to(name)).load()
        found = read.collect()
        numbers = Counter(int(row.body) for row in found)
        if numbers != Counter(range(ROWS)):
            raise AssertionError(f"{name}: {len(found)} rows, {len(numbers)} different ones")
        for row in found:
            number = int(row.body)
            group = f"g{number % 7}" if number % 2 == 0 else None
            written = (row.tag, list(row["keys"]), row.messageGroup, row.properties["city"])
            if written != ("tag", [f"k{number}"], group, "Zürich"):
                raise AssertionError(f"{name}: {row}")


def main(*arguments):
    """Run all steps and say by what."""
    Job(*arguments).run()
    versions = {"python": platform.python_version(), "spark": pyspark.__version__, "rows": ROWS}
    sys.stdout.write(json.dumps(versions) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
