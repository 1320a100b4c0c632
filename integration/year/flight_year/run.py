"""The run: the stages in their order.

::

    flights -> events -> flights --+--> archive --+--> join planes, weather --> statistics
                                   |              +--> the storm day ---------> storm
                                   +--> sessions per aircraft ----------------> rotations
    closed form  <============================ compared with all of it ============+
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from flight_demo.checks import Check
from flight_demo.events import in_event_time_order, iter_events
from flight_demo.flights import Flight, package_folder, read_flights
from flight_demo.machine import check_machine
from flight_demo.selection import Selection
from flight_demo.stages import Stage, Stages

from ariane_pipelines.sessions import SessionCounts
from ariane_sdk.sync import ClusterClient, Producer
from ariane_servicekit.running.processes import LocalCluster
from flight_year.closed_form import Expectation, Figures
from flight_year.publishing import moment_between, publish_columns
from flight_year.sources import iter_planes, iter_weather
from flight_year.spark_work import (
    FLIGHTS,
    ROTATIONS,
    STATISTICS,
    STORM,
    EventTotals,
    RotationTotals,
    SparkWork,
)

BROKERS, QUEUES_A_BROKER = 2, 4
STATISTICS_RUNS = 2
"""The job that writes the statistics is run so often, and they are there once."""

_BROKER_FLAGS = (
    # As in the demo: how full the machine's disk is, is not what is shown here.
    *("--segment-bytes", str(128 << 20)),
    *("--disk-clean-ratio", "1", "--disk-force-ratio", "1", "--disk-refuse-ratio", "1"),
)
_EVENT_BITS = 23
"""An event's minute is above its flight and kind."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What a run found."""

    acknowledged: int
    archived: EventTotals
    counts: Sequence[SessionCounts]
    rotations: RotationTotals
    by_weather: dict[str, Figures]
    by_manufacturer: dict[str, Figures]
    statistics: int
    storm_acknowledged: int
    storm_sent: int
    storm: EventTotals


def run(selection: Selection, stages: Stages, folder: Path) -> list[Check]:
    """Run all stages and return every total.

    Args:
        selection: Which part of the year.
        stages: Where progress is shown and remembered.
        folder: Everything that is written goes here.

    Raises:
        DemoError: A stage cannot go on.
        ProcessFailed: A service did not start.
        ArianeError: The cluster refused something.
    """
    check_machine(folder)
    data = package_folder()
    with stages.stage("read the flights, work out the totals", unit="flights") as stage:
        flights = selection.choose(read_flights(data))
        expected = Expectation.of(flights, iter_planes(data), iter_weather(data))
        stage.reach(len(flights))
    with ExitStack() as stack:
        with stages.stage("start name server and brokers", unit="processes", rated=False) as stage:
            cluster = stack.enter_context(
                LocalCluster(folder / "cluster", brokers=BROKERS, extra_broker_args=_BROKER_FLAGS)
            )
            with ClusterClient(cluster.name_servers) as client:
                for topic in (FLIGHTS, ROTATIONS, STATISTICS, STORM):
                    client.create_topic(topic, queue_count=QUEUES_A_BROKER)
            stage.reach(len(cluster.processes))
        with stages.stage("start Spark", unit="session", rated=False) as stage:
            spark = SparkWork(cluster.name_servers, folder)
            stack.callback(spark.stop)
            stage.reach(1)
        found = _play(flights, expected, cluster.name_servers, spark, stages)
    return all_checks(expected, found)


def _play(
    flights: Sequence[Flight],
    expected: Expectation,
    name_servers: str,
    spark: SparkWork,
    stages: Stages,
) -> Findings:
    data = package_folder()
    total = expected.totals.events
    packed = in_event_time_order(flights)
    events = iter_events(flights, packed)
    bounds = np.array([expected.storm.begin, expected.storm.end]) << _EVENT_BITS
    storm_begin, storm_end = np.searchsorted(packed, bounds).tolist()
    storm = storm_end - storm_begin

    with Producer(name_servers, group="airports") as producer:
        with stages.stage("publish until the storm", total=storm_begin, unit="events") as stage:
            acknowledged = publish_columns(producer, FLIGHTS, events, storm_begin, stage)
        with _rotations(stages) as stage:
            counts = [spark.make_rotations()]
            stage.reach(counts[0].message_count)
        since = moment_between()
        with stages.stage("publish the storm day", total=storm, unit="events") as stage:
            of_storm = publish_columns(producer, FLIGHTS, events, storm, stage)
        until = moment_between()
        left = total - storm_end
        with stages.stage("publish the rest of the year", total=left, unit="events") as stage:
            acknowledged += of_storm + publish_columns(producer, FLIGHTS, events, left, stage)
    with _rotations(stages) as stage:
        counts.append(spark.make_rotations())
        stage.reach(counts[1].message_count)
    with stages.stage("archive", total=total, unit="events") as stage:
        spark.archive()
        archived = spark.archived()
        stage.reach(archived.count)
    with stages.stage("join planes and weather", unit="events") as stage:
        spark.write_statistics(iter_planes(data), iter_weather(data), times=STATISTICS_RUNS)
        stage.reach(archived.count * STATISTICS_RUNS)
    with stages.stage("replay the storm day", total=storm, unit="events") as stage:
        sent = _replay(spark, since, until, stage)
    with stages.stage("read what was written back", unit="messages") as stage:
        rotations = spark.rotations()
        by_weather, by_manufacturer, statistics = spark.statistics()
        replayed = spark.replayed()
        stage.reach(rotations.count + statistics + replayed.count)
    return Findings(
        acknowledged,
        archived,
        counts,
        rotations,
        by_weather,
        by_manufacturer,
        statistics,
        of_storm,
        sent,
        replayed,
    )


def all_checks(expected: Expectation, found: Findings) -> list[Check]:
    """Return every total with its closed form."""
    totals, events = expected.totals, expected.totals.events
    closed, storm = expected.closed, expected.storm
    weather, makers = expected.by_weather, expected.by_manufacturer
    last, late = found.counts[-1], sum(counts.late_count for counts in found.counts)
    return [
        Check("events acknowledged", events, found.acknowledged),
        Check("events archived", events, found.archived.count),
        Check("different events archived", events, found.archived.sequences),
        Check("sum of their numbers", events * (events - 1) // 2, found.archived.sequence_sum),
        *(
            Check(f"archived: {kind.tag}", totals.of_kind(kind), found.archived.kinds[kind])
            for kind in found.archived.kinds
        ),
        Check("rotations told", len(closed), found.rotations.count),
        Check("different rotations told", len(closed), found.rotations.keys),
        Check("events in them", sum(each.events for each in closed), found.rotations.events),
        Check("departures in them", sum(r.departures for r in closed), found.rotations.departures),
        Check("arrivals in them", sum(r.arrivals for r in closed), found.rotations.arrivals),
        Check("checksum of all", sum(each.checksum for each in closed), found.rotations.checksum),
        Check("rotations open", len(expected.open), last.open_count),
        Check("events too late for them", 0, late),
        Check("statistics written", len(weather) + len(makers), found.statistics),
        Check("by weather, as they must be", len(weather), _equal(weather, found.by_weather)),
        Check("by maker, as they must be", len(makers), _equal(makers, found.by_manufacturer)),
        Check("flights in any weather", totals.scheduled, _sum(found.by_weather, 0)),
        Check("flights left by any maker", totals.departed, _sum(found.by_manufacturer, 0)),
        Check(f"events of {storm.day}", sum(storm.events.values()), found.storm_acknowledged),
        Check("replayed", found.storm_acknowledged, found.storm_sent),
        *(
            Check(f"replayed: {kind.tag}", count, found.storm.kinds[kind])
            for kind, count in storm.events.items()
        ),
        Check("different events replayed", found.storm_acknowledged, found.storm.sequences),
    ]


@contextmanager
def _rotations(stages: Stages) -> Iterator[Stage]:
    with stages.stage("rotations of aircraft", unit="events") as stage:
        yield stage


def _replay(spark: SparkWork, since: datetime, until: datetime, stage: Stage) -> int:
    sent = spark.replay_storm(since, until)
    stage.reach(sent)
    return sent


def _equal(expected: Mapping[str, Figures], found: Mapping[str, Figures]) -> int:
    return sum(expected.get(key) == figures for key, figures in found.items())


def _sum(figures: Mapping[str, Figures], place: int) -> int:
    return sum(entry[place] for entry in figures.values())
