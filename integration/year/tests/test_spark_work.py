"""What Spark works out of events is what the flights say, without a cluster in between."""

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

DAYS = int(os.environ.get("YEAR_DAYS", "45"))

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def year(tmp_path_factory):
    """The flights' closed forms, a Spark of its own, and the events as messages."""
    # The conftest puts these on the path.
    from flight_demo.events import in_event_time_order, iter_events  # noqa: PLC0415
    from flight_demo.flights import package_folder, read_flights  # noqa: PLC0415
    from flight_demo.selection import Selection  # noqa: PLC0415
    from flight_year.closed_form import Expectation  # noqa: PLC0415
    from flight_year.sources import iter_planes, iter_weather  # noqa: PLC0415
    from flight_year.spark_work import SparkWork  # noqa: PLC0415

    folder, data = tmp_path_factory.mktemp("year"), package_folder()
    flights = Selection(days=DAYS).choose(read_flights(data))
    expected = Expectation.of(flights, iter_planes(data), iter_weather(data))
    events = iter_events(flights, in_event_time_order(flights))
    tags, _, _, bodies, _ = zip(*events, strict=True)
    messages = pa.table({"tag": tags, "body": pa.array(bodies, pa.binary())})
    pq.write_table(messages, folder / "events.parquet")
    work = SparkWork("127.0.0.1:1", folder)
    yield expected, work, work._spark.read.parquet(str(folder / "events.parquet"))
    work.stop()


def figures(messages, names):
    bodies = [json.loads(row.body) for row in messages.collect()]
    return {body["of"]: tuple(body[name] for name in names) for body in bodies}


def test_events_statistics_and_rotations_are_those_of_the_flights(year, monkeypatch):
    from flight_demo.events import EventKind  # noqa: PLC0415
    from flight_demo.flights import package_folder  # noqa: PLC0415
    from flight_year import spark_work  # noqa: PLC0415
    from flight_year.sources import iter_planes, iter_weather  # noqa: PLC0415

    from ariane_pipelines.sessions import sessions_of  # noqa: PLC0415

    expected, work, messages = year
    totals, count = expected.totals, expected.totals.events
    found = work._totals(messages)
    assert (found.count, found.sequences) == (count, count)
    assert found.sequence_sum == count * (count - 1) // 2
    assert found.kinds == {kind: totals.of_kind(kind) for kind in EventKind}

    events, data = spark_work._events(messages), package_folder()
    by_weather = work._by_weather(events, iter_weather(data))
    assert figures(by_weather, spark_work._BY_WEATHER) == expected.by_weather
    by_maker = work._by_manufacturer(events, iter_planes(data))
    assert figures(by_maker, spark_work._BY_MANUFACTURER) == expected.by_manufacturer

    # Of a table all sessions are told.
    told = sessions_of(messages, work.rotations_plan())
    monkeypatch.setattr(work, "_read", lambda topic: told.select("tag", "body"))
    rotations = [*expected.closed, *expected.open]
    assert work.rotations() == spark_work.RotationTotals(
        count=len(rotations),
        keys=len(rotations),
        events=sum(each.events for each in rotations),
        departures=sum(each.departures for each in rotations),
        arrivals=sum(each.arrivals for each in rotations),
        checksum=sum(each.checksum for each in rotations),
    )
