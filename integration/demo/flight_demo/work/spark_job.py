"""Spark's part, a process of its own (``python -m flight_demo.work.spark_job``).

It starts a session, which takes some seconds, and waits for the line ``go``. Then it reads the
topic ``flights`` once, works out how late each carrier's flights left, in each month and in the
whole time, and writes one message for each of these to the topic ``delays``. It tells the demo
where it stands: ``session``, ``tasks`` (again and again), ``read``, ``written``.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from ariane_spark import session
from flight_demo.children import perform, say

_EVENT = "flight string, carrier string, departure_delay int"
_SECONDS_BETWEEN_REPORTS = 0.5

_CARRIER_AND_MONTH = 3
"""What a rollup's row over everything has left out, one bit a column."""


@dataclass(frozen=True, slots=True)
class SparkOrders:
    """What the job is told on its command line."""

    name_servers: str
    source_topic: str
    target_topic: str

    folder: Path
    """Where Spark may write its own files."""

    def to_arguments(self) -> list[str]:
        """Return the command line."""
        return [
            f"--name-servers={self.name_servers}",
            f"--source-topic={self.source_topic}",
            f"--target-topic={self.target_topic}",
            f"--folder={self.folder}",
        ]

    @classmethod
    def parse(cls, arguments: Sequence[str] | None = None) -> SparkOrders:
        """Read the command line."""
        parser = argparse.ArgumentParser()
        parser.add_argument("--name-servers", required=True)
        parser.add_argument("--source-topic", required=True)
        parser.add_argument("--target-topic", required=True)
        parser.add_argument("--folder", type=Path, required=True)
        return cls(**vars(parser.parse_args(arguments)))


def delay_statistics(events: DataFrame) -> DataFrame:
    """Return one row a carrier and month, one a carrier (month null), and one for everything.

    Events that are alike are counted first, a job for generated code; what is left for the rollup
    and its percentiles are some thousand rows.

    Args:
        events: Rows with ``tag`` and ``body`` as the topic holds them.
    """
    # The local month is in the flight's id; the event's own time is UTC.
    month = f.substring("event.flight", 6, 2).cast("int").alias("month")
    alike = (
        events.select("tag", f.from_json(f.col("body").cast("string"), _EVENT).alias("event"))
        .groupBy("tag", "event.carrier", month, "event.departure_delay")
        .agg(f.count("*").alias("events"))
    )
    # Only departures have a delay, so that its nulls leave out all other events.
    delay, events_alike = f.col("departure_delay"), f.col("events")
    delays_alike = f.when(delay.isNotNull(), events_alike)
    return alike.rollup("carrier", "month").agg(
        f.grouping_id().alias("left_out"),
        f.sum(events_alike).alias("events"),
        f.sum(f.when(f.col("carrier").isNull(), events_alike).otherwise(0)).alias("illegible"),
        _count_of("scheduled").alias("flights"),
        _count_of("departed").alias("departed"),
        _count_of("cancelled").alias("cancelled"),
        (f.sum(delay * events_alike) / f.sum(delays_alike)).alias("mean_departure_delay"),
        f.percentile(delay, f.lit(0.9), events_alike).alias("p90_departure_delay"),
    )


def _count_of(tag: str) -> Column:
    return f.sum(f.when(f.col("tag") == tag, f.col("events")).otherwise(0))


def as_messages(statistics: DataFrame) -> DataFrame:
    """Return the rows of `statistics` that name a carrier as rows of the sink."""
    statistics = statistics.where(
        (f.col("left_out") != _CARRIER_AND_MONTH) & f.col("carrier").isNotNull()
    )
    key = f.when(f.col("month").isNull(), f.col("carrier")).otherwise(
        f.format_string("%s-%02d", "carrier", "month")
    )
    body = f.to_json(
        f.struct(
            "carrier",
            "month",
            "flights",
            "departed",
            "cancelled",
            "mean_departure_delay",
            "p90_departure_delay",
        )
    )
    return statistics.select(
        f.encode(body, "UTF-8").alias("body"),
        f.when(f.col("month").isNull(), "carrier").otherwise("month").alias("tag"),
        f.array(key).alias("keys"),
        f.col("carrier").alias("messageGroup"),
    )


def run(orders: SparkOrders, go: threading.Event) -> None:
    """Start a session; when told to go: read, work out, write."""
    spark = _session(orders.folder)
    say("session")
    go.wait()
    with _reports_of(spark):
        stored = (
            spark.read.format("ariane")
            .schema("tag string, body binary")
            .option("endpoints", orders.name_servers)
            .option("topic", orders.source_topic)
            .load()
        )
        # Kept, so that the topic is read once although two actions follow.
        statistics = delay_statistics(stored).persist()
        everything = statistics.where(f.col("left_out") == _CARRIER_AND_MONTH).first()
        events, illegible = (
            (everything["events"], everything["illegible"]) if everything else (0, 0)
        )
        say("read", events=events or 0, illegible=illegible or 0)
        messages = as_messages(statistics)
        count = messages.count()
        (
            messages.write.format("ariane")
            .mode("append")
            .option("endpoints", orders.name_servers)
            .option("topic", orders.target_topic)
            .save()
        )
        say("written", rows=count)
    spark.stop()


def _session(folder: Path) -> SparkSession:
    return session(
        "flight delays",
        settings={
            "spark.local.dir": str(folder),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.driver.extraJavaOptions": " ".join(_java_options(folder)),
            # 201 groups come out: two tasks are one too many already, 200 would take seconds.
            "spark.sql.shuffle.partitions": "2",
            # Beyond 128 groups percentiles would be sorted for, which pays for millions of groups.
            "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "1024",
        },
    )


def _java_options(folder: Path) -> Sequence[str]:
    return (
        # Half a minute of work does not pay for the optimising compiler: without it the whole job
        # takes a third less of the processors.
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        # Java would leave native libraries and folders in /tmp, above all when it is killed.
        f'"-Djava.io.tmpdir={folder}"',
        "-XX:-UsePerfData",
    )


@contextmanager
def _reports_of(spark: SparkSession) -> Iterator[None]:
    """Tell how many tasks are done while the block runs."""
    tracker = spark.sparkContext.statusTracker()
    ended = threading.Event()

    def report() -> None:
        while not ended.wait(_SECONDS_BETWEEN_REPORTS):
            for stage_id in tracker.getActiveStageIds():
                stage = tracker.getStageInfo(stage_id)
                if stage is not None:
                    say("tasks", done=stage.numCompletedTasks, total=stage.numTasks)

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        ended.set()
        reporter.join()


def _obey_input(go: threading.Event) -> None:
    """Set `go` at the first word, the only one that comes.

    At the end of the input whoever started this is gone: end, and the Java machine with it.
    """

    def watch() -> None:
        # Past Python's own buffer: its lock must be free when the interpreter ends.
        while os.read(sys.stdin.fileno(), 1):
            go.set()
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    told_to_go = threading.Event()
    _obey_input(told_to_go)
    perform(lambda: run(SparkOrders.parse(), told_to_go))
