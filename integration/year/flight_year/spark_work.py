"""Spark's part: archive, joins, sessions, statistics written back, a day replayed.

All of it is what an application would write: functions of ``ariane_pipelines`` where there is one,
and ``format("ariane")`` for the rest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import uuid4

from flight_demo.events import EventKind
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from ariane_pipelines import (
    ArchivePlan,
    ReplayPlan,
    SessionsPlan,
    read_archive,
    replay,
    session_counts,
    start_archive,
    start_sessions,
)
from ariane_pipelines.sessions import SessionCounts
from ariane_spark import session
from flight_year.closed_form import GAP_SECONDS, WATERMARK_MINUTES, Figures
from flight_year.sources import UNKNOWN, Plane, WeatherHour

FLIGHTS, ROTATIONS, STATISTICS, STORM = "flights", "rotations", "statistics", "storm"

_MICRO_BATCH = 250_000
_TRIES = 20
_EVENT = (
    "sequence long, event_time string, tail_number string, origin string,"
    " scheduled_departure string, departure_delay int"
)
_BY_WEATHER = ("scheduled", "cancelled", "departed", "delay_minutes")
_BY_MANUFACTURER = ("departed", "seats")


@dataclass(frozen=True, slots=True)
class EventTotals:
    """What some events add up to."""

    count: int
    sequence_sum: int
    sequences: int
    """Different ones."""

    kinds: Mapping[EventKind, int]


@dataclass(frozen=True, slots=True)
class RotationTotals:
    """What the topic of the rotations holds."""

    count: int
    keys: int
    """Different ones: aircraft and begin."""

    events: int
    departures: int
    arrivals: int
    checksum: int


class SparkWork:
    """One Spark session and the cluster that it works on."""

    def __init__(self, name_servers: str, folder: Path) -> None:
        """Start Spark.

        Args:
            name_servers: Of the cluster.
            folder: Everything that Spark writes goes here.
        """
        self._name_servers = name_servers
        self._folder = folder
        self._spark = _session(folder)

    @property
    def archive_folder(self) -> str:
        """Where the archive lies."""
        return str(self._folder / "archive")

    def archive(self) -> None:
        """Write what the topic holds to Parquet, from where the archive ends."""
        plan = ArchivePlan(
            endpoints=self._name_servers,
            folder=self.archive_folder,
            topics=(FLIGHTS,),
            batch_records_max=_MICRO_BATCH,
        )
        _to_the_end(lambda: start_archive(self._spark, plan))

    def archived(self) -> EventTotals:
        """Return what the archive holds."""
        return self._totals(read_archive(self._spark, self.archive_folder))

    def rotations_plan(self) -> SessionsPlan:
        """Return how rotations are made of events."""
        return SessionsPlan(
            endpoints=self._name_servers,
            topic=FLIGHTS,
            target=ROTATIONS,
            checkpoint=str(self._folder / "rotations"),
            gap=f"{GAP_SECONDS} seconds",
            watermark=f"{WATERMARK_MINUTES} minutes",
            key="get_json_object(text, '$.tail_number')",
            time="get_json_object(text, '$.event_time')",
            where="tag IN ('departed', 'arrived', 'diverted')",
            totals={
                "departures": "count_if(tag = 'departed')",
                "arrivals": "count_if(tag = 'arrived')",
            },
            batch_records_max=_MICRO_BATCH,
        )

    def make_rotations(self) -> SessionCounts:
        """Make sessions of what aircraft do, from where the last call ended."""
        plan = self.rotations_plan()
        queries = _to_the_end(lambda: start_sessions(self._spark, plan))
        counts = [session_counts(query) for query in queries]
        return SessionCounts(
            message_count=sum(each.message_count for each in counts),
            session_count=sum(each.session_count for each in counts),
            event_count=sum(each.event_count for each in counts),
            late_count=sum(each.late_count for each in counts),
            open_count=counts[-1].open_count,
        )

    def rotations(self) -> RotationTotals:
        """Return what the topic of the rotations holds."""
        fields = "key string, begin string, end string, events long, departures int, arrivals int"
        told = self._read(ROTATIONS).select(
            f.from_json(f.col("body").cast("string"), fields).alias("told")
        )
        begin, end = (
            f.date_format(f.col(f"told.{name}").cast("timestamp"), "yyyy-MM-dd'T'HH:mm:ss'Z'")
            for name in ("begin", "end")
        )
        text = f.concat_ws("|", "told.key", begin, end, "told.departures", "told.arrivals")
        row = told.agg(
            f.count(f.lit(1)),
            f.count_distinct("told.key", "told.begin"),
            f.sum("told.events"),
            f.sum("told.departures"),
            f.sum("told.arrivals"),
            f.sum(f.crc32(text.cast("binary"))),
        ).collect()[0]
        return RotationTotals(*(number or 0 for number in row))

    def write_statistics(
        self, planes: Iterable[Plane], weather: Iterable[WeatherHour], *, times: int
    ) -> None:
        """Join the archive with aircraft and weather, and write what comes out, exactly once.

        Args:
            planes: The aircraft.
            weather: The hours of weather.
            times: How often the job is run; it writes once all the same.
        """
        events = _events(read_archive(self._spark, self.archive_folder)).persist()
        messages = self._by_weather(events, weather).unionByName(
            self._by_manufacturer(events, planes)
        )
        write_id = f"flight-statistics-{uuid4().hex}"
        for _ in range(times):
            (
                messages.write.format("ariane")
                .mode("append")
                .options(endpoints=self._name_servers, topic=STATISTICS)
                .options(deliveryGuarantee="exactly-once", writeId=write_id)
                .save()
            )
        events.unpersist()

    def statistics(self) -> tuple[dict[str, Figures], dict[str, Figures], int]:
        """Return the statistics of the topic by weather and by manufacturer, and all messages."""
        found: dict[str, dict[str, Figures]] = {"weather": {}, "manufacturer": {}}
        rows = self._read(STATISTICS).collect()
        for row in rows:
            body = json.loads(row.body)
            names = _BY_WEATHER if row.tag == "weather" else _BY_MANUFACTURER
            found[row.tag][body["of"]] = tuple(body[name] for name in names)
        return found["weather"], found["manufacturer"], len(rows)

    def replay_storm(self, since: datetime, until: datetime) -> int:
        """Send what was stored in a span of time again, from the archive; how many that were."""
        plan = ReplayPlan(
            endpoints=self._name_servers,
            source=FLIGHTS,
            target=STORM,
            since=since,
            until=until,
            archive=self.archive_folder,
        )
        return replay(self._spark, plan)

    def replayed(self) -> EventTotals:
        """Return what the topic of the replay holds."""
        return self._totals(self._read(STORM))

    def stop(self) -> None:
        """End Spark."""
        self._spark.stop()

    def _read(self, topic: str) -> DataFrame:
        reader = self._spark.read.format("ariane").schema("tag string, body binary")
        return reader.options(endpoints=self._name_servers, topic=topic).load()

    def _totals(self, messages: DataFrame) -> EventTotals:
        rows = (
            _events(messages)
            .groupBy("tag")
            .agg(
                f.count(f.lit(1)).alias("count"),
                f.sum("sequence").alias("sum"),
                f.count_distinct("sequence").alias("sequences"),
            )
            .collect()
        )
        counts = {row.tag: row["count"] for row in rows}
        return EventTotals(
            sum(counts.values()),
            sum(row["sum"] for row in rows),
            sum(row["sequences"] for row in rows),
            {kind: counts.get(kind.tag, 0) for kind in EventKind},
        )

    def _by_weather(self, events: DataFrame, weather: Iterable[WeatherHour]) -> DataFrame:
        hours = self._spark.createDataFrame(
            list(weather), "origin string, hour string, conditions string"
        )
        hour = f.concat(f.substring("scheduled_departure", 1, 13), f.lit(":00:00Z"))
        joined = events.withColumn("hour", hour).join(
            f.broadcast(hours), ["origin", "hour"], "left"
        )
        conditions = f.coalesce("conditions", f.lit(UNKNOWN))
        counted = joined.groupBy(f.concat_ws("/", "origin", conditions).alias("of")).agg(
            *(f.count_if(f.col("tag") == tag).alias(tag) for tag in _BY_WEATHER[:3]),
            f.coalesce(f.sum("departure_delay"), f.lit(0)).alias("delay_minutes"),
        )
        return _as_messages(counted, "weather")

    def _by_manufacturer(self, events: DataFrame, planes: Iterable[Plane]) -> DataFrame:
        known = self._spark.createDataFrame(
            list(planes), "tail_number string, manufacturer string, seats int"
        )
        departed = events.where(f.col("tag") == EventKind.DEPARTED.tag)
        counted = (
            departed.join(f.broadcast(known), "tail_number", "left")
            .groupBy(f.coalesce("manufacturer", f.lit(UNKNOWN)).alias("of"))
            .agg(
                f.count(f.lit(1)).alias("departed"),
                f.coalesce(f.sum("seats"), f.lit(0)).alias("seats"),
            )
        )
        return _as_messages(counted, "manufacturer")


def _to_the_end(start: Callable[[], StreamingQuery]) -> Sequence[StreamingQuery]:
    """Run a query until all is done that is there; the one that did it, behind those that died.

    On a machine with much else to do Spark's ten seconds may not be enough to start a Python
    worker. A query goes on where it died, so it is just started again.
    """
    queries: list[StreamingQuery] = []
    while True:
        queries.append(start())
        try:
            queries[-1].awaitTermination()
        except StreamingQueryException:
            if len(queries) == _TRIES:
                raise
        else:
            return queries


def _events(messages: DataFrame) -> DataFrame:
    event = f.from_json(f.col("body").cast("string"), _EVENT).alias("event")
    return messages.select("tag", event).select("tag", "event.*")


def _as_messages(statistics: DataFrame, tag: str) -> DataFrame:
    return statistics.select(
        f.to_json(f.struct("*")).alias("body"),
        f.lit(tag).alias("tag"),
        f.array(f.translate("of", " ", "_")).alias("keys"),
    )


def _session(folder: Path) -> SparkSession:
    temporary = folder / "spark"
    temporary.mkdir(parents=True)
    return session(
        "a year of flights",
        settings={
            "spark.local.dir": str(temporary),
            "spark.sql.warehouse.dir": str(temporary / "warehouse"),
            "spark.driver.extraJavaOptions": (
                f'-XX:+UseSerialGC -XX:-UsePerfData "-Djava.io.tmpdir={temporary}"'
            ),
            # One machine: a part of the state for each core is enough, 200 would take minutes.
            "spark.sql.shuffle.partitions": "4",
        },
    )
