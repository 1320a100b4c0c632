"""Spark reading and writing ArianeMQ beside Apache Kafka: the same messages, in turn.

Both servers are one broker with four queues or partitions, both connectors run in one Spark, and
each read tells how many rows it read. Before any read is timed, both topics are compared by their
counts and by the sums of the checksums of all bodies; after the writes, those that they wrote to.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pyspark
from pyspark.sql import DataFrame, DataFrameReader, Observation, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import DataStreamReader

from ariane_sdk.sync import ClusterClient
from ariane_spark.records.columns import message_schema
from bench.measure import Paired, Row, paired, pairs_of
from bench.spark.session import drain

sys.path.append(str(Path(__file__).parents[1] / "peers"))

from peer_bench.contenders.kafka_server import PARTITIONS, VERSION, kafka_server
from peer_bench.errors import PeerUnavailable
from peer_bench.fetched.maven import class_path
from peer_bench.results import Row as PeerRow
from peer_bench.results import keep_rows, machine, now

CONNECTOR_VERSION = "4.2.0"
"""As ``peers/java/spark/pom.xml`` says it."""

VERSIONS = {
    "python": platform.python_version(),
    "pyspark": pyspark.__version__,
    "spark-sql-kafka": CONNECTOR_VERSION,
    "kafka": VERSION,
}
AGAINST = f"Spark's Kafka connector {CONNECTOR_VERSION}, Kafka {VERSION}"
TOPIC = "beside"
DIGEST_DIGITS = 64
BODY_BYTES = 1024
MICRO_BATCHES = 6

OUR_COLUMNS: Mapping[str, list[str] | None] = {
    "all columns": None,
    "columns both have": ["keys", "body", "topic", "queueId", "queueOffset", "storeTimestamp"],
    "bodies": ["body"],
}
THEIR_COLUMNS: Mapping[str, list[str]] = {
    "all columns": ["*"],
    "columns both have": ["key", "value", "topic", "partition", "offset", "timestamp"],
    "bodies": ["value"],
}
THEIR_OPTIONS = {"includeHeaders": "true", "kafka.max.poll.records": "4096"}
"""Headers stand for our properties. A poll of 500 records, the default, would cost it more."""
THEIR_WRITE_OPTIONS = {"kafka.batch.size": str(256 << 10)}
"""Batches of 16 KiB, the default, would cost it more."""
GUARANTEES = ("at-least-once", "exactly-once")
"""Of our writes; Kafka's sink has the first only."""


def keep_beside_peers(rows: Iterable[Row]) -> None:
    """Keep what was measured beside Kafka's connector with the rows of all other peers."""
    keep_rows(
        PeerRow(
            work=f"Spark: {row.work}",
            ours=row.ours,
            unit=row.unit,
            against=row.against,
            theirs=row.theirs,
            ratio=row.ratio,
            ratio_min=row.ratio_min,
            ratio_max=row.ratio_max,
            pairs=row.pairs,
            floor=None,
            goal=row.goal,
            # Before anything was timed, all rows were counted and compared.
            lost=0,
            when=now(),
            machine=machine(),
            versions=VERSIONS,
        )
        for row in rows
        if row.against == AGAINST
    )


def connector_jars() -> str:
    """The class path of Spark's Kafka connector.

    Raises:
        PeerUnavailable: It cannot be had, or not for this Spark.
    """
    if pyspark.__version__.partition(".")[0] != CONNECTOR_VERSION.partition(".")[0]:
        raise PeerUnavailable(f"it is for Spark {CONNECTOR_VERSION}, not {pyspark.__version__}")
    return class_path("spark")


@contextmanager
def both_topics(
    spark: SparkSession, endpoints: str, folder: Path, *, count: int, pairs: int
) -> Iterator[BesideKafka]:
    """The same messages in both servers, while the context lasts.

    Raises:
        PeerUnavailable: There is no Kafka here.
    """
    with kafka_server(folder / "kafka") as (address, _):
        yield BesideKafka(spark, endpoints, address, folder, count=count, pairs=pairs)


class BesideKafka:
    """Two topics of the same messages, and who reads them."""

    def __init__(
        self,
        spark: SparkSession,
        endpoints: str,
        kafka_address: str,
        folder: Path,
        *,
        count: int,
        pairs: int,
    ) -> None:
        self._spark = spark
        self._ours = {"endpoints": endpoints}
        self._kafka_address = kafka_address
        self._theirs = {
            "kafka.bootstrap.servers": kafka_address,
            **THEIR_OPTIONS,
        }
        self._folder = folder
        self._count = count
        self._pairs = pairs
        self._runs = 0
        self._fill()

    def batch(self, columns: str) -> Row:
        """One read of everything."""
        ours = self._our_columns(self._spark.read, columns).load()
        theirs = self._their_columns(self._spark.read, columns)
        seconds = paired(lambda: self._drain(ours), lambda: self._drain(theirs), pairs=self._pairs)
        return self._row(f"batch read, 1 KiB, {columns}", seconds)

    def stream(self, columns: str) -> Row:
        """The same as some micro-batches, by the time of all but the first."""
        limit = str(-(-self._count // MICRO_BATCHES))
        options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": limit}
        reader = self._spark.readStream.options(**options)
        ours = self._our_columns(reader, columns).load()
        theirs = self._their_columns(self._spark.readStream.options(**options), columns)
        measured = [
            (self._stream_seconds(ours), self._stream_seconds(theirs))
            for _ in range(self._pairs + 1)
        ]
        return self._row(f"stream read, 1 KiB, {columns}", pairs_of(measured[1:]))

    def write(self, guarantee: str) -> Row:
        """All rows into a topic, each time behind those of the time before."""
        topic = f"written-{guarantee}"
        with ClusterClient(self._ours["endpoints"]) as client:
            client.create_topic(topic, queue_count=PARTITIONS)
        # Nothing but a constant, so that both sides write for most of the time.
        rows = self._spark.range(0, self._count, numPartitions=2).select(
            f.lit("x" * BODY_BYTES).alias("body"), f.col("id").cast("string").alias("key")
        )
        seconds = paired(
            lambda: self._write_ours(rows, topic, guarantee),
            lambda: self._write_theirs(rows, topic),
            pairs=self._pairs,
        )
        runs = self._pairs + 1
        count, total = _sums(rows, "body")
        self._compare(topic, (runs * count, runs * total))
        return self._row(f"write, 1 KiB, {guarantee}", seconds)

    def _fill(self) -> None:
        """Write the same messages to both, and see that they are there."""
        digest = f.sha2(f.col("id").cast("string"), 256)
        rows = self._spark.range(0, self._count, numPartitions=PARTITIONS).select(
            f.repeat(digest, BODY_BYTES // DIGEST_DIGITS).alias("body"),
            f.col("id").cast("string").alias("key"),
        )
        with ClusterClient(self._ours["endpoints"]) as client:
            client.create_topic(TOPIC, queue_count=PARTITIONS)
        self._write_ours(rows, TOPIC, "at-least-once")
        self._write_theirs(rows, TOPIC)
        self._compare(TOPIC, _sums(rows, "body"))

    def _write_ours(self, rows: DataFrame, topic: str, guarantee: str) -> None:
        options = self._ours | {"topic": topic, "deliveryGuarantee": guarantee}
        if guarantee == "exactly-once":
            options["writeId"] = uuid4().hex
        ours = rows.select(f.array("key").alias("keys"), "body")
        ours.write.format("ariane").mode("append").options(**options).save()

    def _write_theirs(self, rows: DataFrame, topic: str) -> None:
        theirs = rows.select("key", f.col("body").alias("value"))
        writer = theirs.write.format("kafka").options(**THEIR_WRITE_OPTIONS)
        writer.options(topic=topic).option("kafka.bootstrap.servers", self._kafka_address).save()

    def _compare(self, topic: str, wanted: tuple[int, int]) -> None:
        """See that both topics have the same messages."""
        ours = self._our_columns(self._spark.read, "bodies", topic).load()
        theirs = self._their_columns(self._spark.read, "bodies", topic)
        for name, found in ("ours", _sums(ours, "body")), ("Kafka", _sums(theirs, "value")):
            if found != wanted:
                raise AssertionError(f"{name}: count and sum are {found}, not {wanted}")

    def _our_columns(
        self, reader: DataFrameReader | DataStreamReader, columns: str, topic: str = TOPIC
    ) -> DataFrameReader | DataStreamReader:
        schema = message_schema(OUR_COLUMNS[columns])
        return reader.format("ariane").options(**self._ours | {"topic": topic}).schema(schema)

    def _their_columns(
        self, reader: DataFrameReader | DataStreamReader, columns: str, topic: str = TOPIC
    ) -> DataFrame:
        frame = reader.format("kafka").options(**self._theirs | {"subscribe": topic}).load()
        return frame.select(*THEIR_COLUMNS[columns])

    def _drain(self, frame: DataFrame) -> None:
        seen = Observation()
        drain(frame.observe(seen, f.count(f.lit(1)).alias("rows")))
        self._check(seen.get["rows"])

    def _stream_seconds(self, frame: DataFrame) -> float:
        """Seconds that all rows would take at the speed of all micro-batches but the first."""
        self._runs += 1
        writer = frame.writeStream.format("noop").trigger(availableNow=True)
        checkpoint = self._folder / "checkpoints" / f"beside-{self._runs}"
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        query.awaitTermination()
        batches = [progress for progress in query.recentProgress if progress["numInputRows"]]
        self._check(sum(batch["numInputRows"] for batch in batches))
        warm = batches[1:]
        seconds = sum(batch["durationMs"]["triggerExecution"] for batch in warm) / 1000
        return seconds * self._count / sum(batch["numInputRows"] for batch in warm)

    def _check(self, count: int) -> None:
        if count != self._count:
            raise AssertionError(f"{count} rows were read, not {self._count}")

    def _row(self, work: str, seconds: Paired) -> Row:
        return Row(
            work, self._count / seconds.seconds, "rows/s", AGAINST,
            self._count / seconds.limit_seconds, seconds.ratio, seconds.ratio_min,
            seconds.ratio_max, seconds.pairs, 1.0, extra={"rows, each time": self._count},
        )  # fmt: skip


def _sums(frame: DataFrame, body: str) -> tuple[int, int]:
    """How many rows, and the sum of the checksums of their bodies."""
    checksum = f.crc32(f.col(body).cast("binary"))
    (found,) = frame.agg(f.count(f.lit(1)), f.sum(checksum)).collect()
    return found[0], found[1]
