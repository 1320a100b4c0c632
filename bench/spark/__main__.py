"""Spark: rows a second read and written, and what a micro-batch costs, beside having no queue.

    .venv/bin/python -m bench.spark [--pairs 5] [--quick] [--only brokers]

The limit of a read is a source that yields one record batch again and again that was built before:
Spark's socket and JVM without brokers, network and decoding. The limit of the sink is one that
takes the same batches and drops them. All processes share the machine: with two cores, brokers take
from Spark what they use.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

from ariane_sdk.sync import ClusterClient, Producer
from ariane_servicekit.running.processes import LocalCluster
from ariane_spark.calls.cluster import Fetch
from ariane_spark.calls.queue_client import QueueClient
from ariane_spark.options.option_table import Use
from ariane_spark.options.options import read_options
from ariane_spark.positions.ranges import QueueRange
from ariane_spark.records.columns import Projection, header_schema, message_schema
from ariane_spark.records.joined_records import QueueRecords
from bench.measure import Paired, Row, paired, pairs_of, table_of, write_results
from bench.pages.benchmarks import write_page
from bench.spark.kafka import (
    GUARANTEES,
    OUR_COLUMNS,
    PeerUnavailable,
    both_topics,
    connector_jars,
    keep_beside_peers,
)
from bench.spark.prebuilt import Prebuilt, register
from bench.spark.processor_time import ROLES, ProcessorTime, seconds_by_role
from bench.spark.session import drain, session

BODY_BYTES = 1024
QUEUES = 2
"""On each of two brokers: as many ranges as two tasks share."""

MANY_QUEUES = 16
"""On each of two brokers, for a topic of which a micro-batch reads little of each queue."""

WIDE_COUNT = 20_000
"""Messages in that topic."""

WARM_BATCHES = 5
OVERHEAD_BATCHES = 30
SOURCE_PARTS = ("latestOffset", "getBatch", "queryPlanning", "addBatch")
"""What of a micro-batch has to do with its source; the rest is Spark writing its checkpoint."""

SMALL_STORE = ("--segment-bytes", str(256 << 20), "--disk-refuse-ratio", "0.99")


class Bench:
    """A topic full of messages, and what reads it."""

    def __init__(self, spark: SparkSession, cluster: LocalCluster, count: int, pairs: int) -> None:
        self._spark = spark
        self._endpoints = endpoints = cluster.name_servers
        self._brokers = [broker.pid for broker in cluster.brokers]
        self._pairs = pairs
        self.count = count
        """Messages in the topic."""
        with ClusterClient(endpoints) as client:
            for topic, queues in (("full", QUEUES), ("sink", QUEUES), ("wide", MANY_QUEUES)):
                client.create_topic(topic, queue_count=queues)
        body = bytes(range(256)) * (BODY_BYTES // 256)
        table = pa.table({"body": [body] * 1000, "tag": ["created"] * 1000})
        with Producer(endpoints) as producer:
            for topic, messages in (("full", count), ("wide", WIDE_COUNT)):
                for _ in range(messages // 1000):
                    producer.send_columns(topic, table)

    def read(self, name: str, schema: StructType) -> Row:
        """One read of everything, beside as many rows that were built before."""
        frame = (
            self._spark.read.schema(schema)
            .format("ariane")
            .options(endpoints=self._endpoints, topic="full", maxPartitions="2")
        )
        limit_name = f"prebuilt_{name.rsplit(maxsplit=1)[-1]}"
        prebuilt = self._prebuilt(schema)
        register(self._spark, limit_name, prebuilt)
        limit_count = prebuilt.batch.num_rows * prebuilt.times * prebuilt.partitions
        ours = ProcessorTime(self._brokers, self.count)
        limit = ProcessorTime(self._brokers, limit_count)
        seconds = paired(
            ours.of(lambda: drain(frame.load())),
            limit.of(lambda: drain(self._spark.read.format(limit_name).load())),
            pairs=self._pairs,
        )
        row = self._rates(name, seconds, limit_count, "prebuilt batches", goal=0.85)
        more = {
            f"more µs a row of {role}": ours.row_microseconds(role) - limit.row_microseconds(role)
            for role in ROLES
        }
        return replace(row, extra=more)

    def sink(self) -> Row:
        """Rows of the JVM into a topic, beside a sink that drops them."""
        register(self._spark, "dropping", self._prebuilt(message_schema()))
        rows = self._spark.range(0, self.count, numPartitions=2).select(
            f.lit("x" * BODY_BYTES).alias("body"), f.lit("created").alias("tag")
        )
        ours = rows.write.mode("append").format("ariane")
        ours = ours.options(endpoints=self._endpoints, topic="sink")
        seconds = paired(
            ours.save,
            lambda: rows.write.mode("append").format("dropping").save(),
            pairs=self._pairs,
        )
        return self._rates("sink, 1 KiB", seconds, self.count, "a sink that drops", goal=None)

    def first(self) -> Row:
        """Milliseconds until a first row, with which Spark ends its worker."""
        register(self._spark, "one", self._prebuilt(message_schema()))
        ours = self._spark.read.format("ariane")
        ours = ours.options(endpoints=self._endpoints, topic="full", maxPartitions="2")
        limit = self._spark.read.format("one")
        found = paired(
            lambda: ours.load().first(), lambda: limit.load().first(), pairs=2 * self._pairs
        )
        return _milliseconds("first row", found)

    def overhead(self, name: str, topic: str, folder: Path, *, tasks: int = 2) -> Row:
        """Milliseconds of a small micro-batch, beside the same of some tasks without a queue."""
        schema = message_schema()
        whole = self._prebuilt(schema)
        limit_name = f"small_{tasks}"
        register(self._spark, limit_name, Prebuilt(schema, whole.batch.slice(0, 10), 1, tasks))
        ours = (
            self._spark.readStream.format("ariane")
            .options(endpoints=self._endpoints, topic=topic, startingOffsets="earliest")
            .options(maxOffsetsPerTrigger="20", maxPartitions="2")
        )
        limit = self._spark.readStream.format(limit_name)
        measured, more = [], []
        for pair in range(self._pairs):
            found, at_best = (
                self._batch_milliseconds(reader.load(), folder / f"{topic}-{tasks}-{pair}-{side}")
                for side, reader in (("ours", ours), ("limit", limit))
            )
            measured.append((found.pop("all") / 1000, at_best.pop("all") / 1000))
            more.append({part: found[part] - at_best[part] for part in found})
        row = _milliseconds(name, pairs_of(measured))
        parts = {part: statistics.median(each[part] for each in more) for part in more[0]}
        return replace(row, extra=row.extra | parts)

    def _batch_milliseconds(self, frame: DataFrame, checkpoint: Path) -> dict[str, float]:
        """What a micro-batch takes, the first few left out: median milliseconds of each part, and
        of all parts that are not its checkpoint; and the processor's, by who used it, in mean."""
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        query = writer.trigger(processingTime="0 seconds").start()
        try:
            first = _wait_for_batch(query, WARM_BATCHES)
            before = seconds_by_role(self._brokers)
            last = _wait_for_batch(query, OVERHEAD_BATCHES)
            after = seconds_by_role(self._brokers)
            durations = [dict(p["durationMs"]) for p in query.recentProgress[WARM_BATCHES:]]
        finally:
            query.stop()
        spent = [{part: found.get(part, 0) for part in SOURCE_PARTS} for found in durations]
        return {
            "all": statistics.median(sum(each.values()) for each in spent),
            **{f"in {part}": statistics.median(x[part] for x in spent) for part in SOURCE_PARTS},
            **{
                f"processor ms of {role}": 1000 * (after[role] - before[role]) / (last - first)
                for role in ROLES
            },
        }

    def _prebuilt(self, schema: StructType) -> Prebuilt:
        """One chunk of the topic as the connector builds it, often enough to be all of it."""
        given = {"endpoints": self._endpoints, "topic": "full"}
        options = read_options(given, Use.BATCH_READ)
        client = QueueClient(self._endpoints, options.requests)
        queue, kept = max(client.bounds(["full"]).items(), key=lambda found: found[1].latest)
        projection = Projection.of(schema)
        fetch = Fetch.of(projection.detail, options)
        chunk = next(client.read_range(QueueRange(queue, kept.earliest, kept.latest), fetch))
        batch = projection.batch([QueueRecords(queue, chunk.records)])
        times = max(1, round(self.count / 2 / batch.num_rows))
        return Prebuilt(schema, batch, times, 2)

    def _rates(
        self, name: str, seconds: Paired, limit_count: int, against: str, goal: float | None
    ) -> Row:
        """Rows a second; the limit may have moved a few more or fewer."""
        part = self.count / limit_count
        return Row(
            name, self.count / seconds.seconds, "rows/s", against,
            limit_count / seconds.limit_seconds, seconds.ratio * part, seconds.ratio_min * part,
            seconds.ratio_max * part, seconds.pairs, goal,
        )  # fmt: skip


def _wait_for_batch(query: StreamingQuery, number: int) -> int:
    """Wait until a query has done so many micro-batches; return the number of its last."""
    while not (last := query.lastProgress) or last["batchId"] < number:
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        time.sleep(0.05)  # Asking is work for the driver, too.
    return int(last["batchId"])


def _milliseconds(name: str, found: Paired) -> Row:
    return Row(
        name, found.seconds * 1000, "ms", "without a queue", found.limit_seconds * 1000,
        found.ratio, found.ratio_min, found.ratio_max, found.pairs,
        extra={"more ms": (found.seconds - found.limit_seconds) * 1000},
    )  # fmt: skip


def rows_beside_limits(
    spark: SparkSession, folder: Path, *, count: int, pairs: int, only: str | None
) -> list[Row]:
    """Ourselves beside having no queue: all of it, or only reads or micro-batches."""
    with LocalCluster(folder / "two", brokers=2, extra_broker_args=SMALL_STORE) as cluster:
        bench = Bench(spark, cluster, count, pairs)
        reads: list[Callable[[], Row]] = [
            lambda: bench.read("batch read, 1 KiB, all", message_schema()),
            lambda: bench.read("batch read, headers", header_schema()),
            lambda: bench.read("batch read, body", message_schema(["body"])),
        ]
        batches: list[Callable[[], Row]] = [
            lambda: bench.overhead("micro-batch of 20, no checkpoint", "full", folder / "few"),
            lambda: bench.overhead(
                "micro-batch of 20, beside one task", "full", folder / "one", tasks=1
            ),
            lambda: bench.overhead("micro-batch of 32, of 32 queues", "wide", folder / "many"),
        ]
        parts = {"reads": reads, "micro-batches": batches}
        measured = parts.get(only or "", [*reads, bench.sink, bench.first, *batches])
        return [measure() for measure in measured]


def rows_of_brokers(spark: SparkSession, folder: Path, *, count: int, pairs: int) -> list[Row]:
    """Exactly once to three brokers, beside one of them: what the agreement costs."""
    with LocalCluster(folder / "three", brokers=3, extra_broker_args=SMALL_STORE) as cluster:
        with ClusterClient(cluster.name_servers) as client:
            client.create_topic("exact", queue_count=QUEUES)
        rows = spark.range(0, count, numPartitions=2).select(
            f.lit("x" * BODY_BYTES).alias("body"), f.lit("created").alias("tag")
        )

        def write(**options: str) -> None:
            writer = rows.write.mode("append").format("ariane").options(**options)
            writer = writer.options(endpoints=cluster.name_servers, topic="exact")
            exact = {"deliveryGuarantee": "exactly-once", "writeId": uuid4().hex}
            writer.options(**exact).save()

        seconds = paired(write, lambda: write(sinkBrokers="broker-a"), pairs=pairs)
        return [
            Row(
                "exactly once, three brokers", count / seconds.seconds, "rows/s", "one broker",
                count / seconds.limit_seconds, seconds.ratio, seconds.ratio_min, seconds.ratio_max,
                seconds.pairs,
            )
        ]  # fmt: skip


def rows_beside_kafka(spark: SparkSession, folder: Path, *, count: int, pairs: int) -> list[Row]:
    """Ourselves beside Spark's connector to Kafka.

    Raises:
        PeerUnavailable: There is no Kafka here.
    """
    with (
        LocalCluster(folder / "one", brokers=1, extra_broker_args=SMALL_STORE) as cluster,
        both_topics(spark, cluster.name_servers, folder, count=count, pairs=pairs) as beside,
    ):
        batches = [beside.batch(columns) for columns in OUR_COLUMNS]
        streams = [beside.stream(columns) for columns in OUR_COLUMNS]
        return [*batches, *streams, *(beside.write(guarantee) for guarantee in GUARANTEES)]


def run(*, pairs: int, quick: bool, only: str | None) -> tuple[list[Row], list[str]]:
    """All rows of this benchmark, and a word on what was skipped."""
    count = 20_000 if quick else 300_000
    jars, skipped = None, []
    measured = []
    if only in {None, "kafka"}:
        try:
            jars = connector_jars()
        except PeerUnavailable as error:
            skipped.append(f"Spark's Kafka connector: {error}")
    with tempfile.TemporaryDirectory(prefix="ariane-bench-") as name:
        folder = Path(name)
        with session(folder, jars) as spark:
            if only not in {"brokers", "kafka"}:
                measured += rows_beside_limits(spark, folder, count=count, pairs=pairs, only=only)
            if only in {None, "brokers"}:
                measured += rows_of_brokers(spark, folder, count=count, pairs=pairs)
            if only in {None, "kafka"} and jars is not None:
                try:
                    measured += rows_beside_kafka(spark, folder, count=count, pairs=pairs)
                except PeerUnavailable as error:
                    skipped.append(f"Kafka: {error}")
    return measured, skipped


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs (default 5)")
    parser.add_argument("--quick", action="store_true", help="few messages, nothing kept")
    parser.add_argument(
        "--only",
        choices=("limits", "reads", "micro-batches", "brokers", "kafka"),
        help="a part; nothing kept",
    )
    arguments = parser.parse_args()
    measured, skipped = run(pairs=arguments.pairs, quick=arguments.quick, only=arguments.only)
    print(table_of(measured))
    for word in skipped:
        print(f"skipped: {word}")
    if not arguments.quick and arguments.only is None:
        keep_beside_peers(measured)
        print(f"\nkept in {write_results('spark', measured, skipped)}, shown in {write_page()}")


if __name__ == "__main__":
    main()
