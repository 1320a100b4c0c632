"""Values that are read on the loop when somebody asks."""

import asyncio
import threading

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from ariane_servicekit.observability.measures import OTHER, SERIES_MAX, Measures, bounded, one
from ariane_servicekit.observability.telemetry import Telemetry


def points(reader):
    data = reader.get_metrics_data()
    return {
        metric.name: [(point.value, dict(point.attributes)) for point in metric.data.data_points]
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


@pytest.fixture
def reader():
    return InMemoryMetricReader()


@pytest.fixture
async def measures(reader):
    telemetry = Telemetry("probe", [reader])
    yield Measures(telemetry.meter("ariane"))
    await asyncio.to_thread(telemetry.close)


async def test_a_value_is_read_on_the_loop_whoever_asks(measures, reader):
    loop_thread, threads = threading.get_ident(), []

    def read():
        threads.append(threading.get_ident())
        return one(7)

    measures.gauge("g", "1", "", read)
    assert (await asyncio.to_thread(points, reader))["g"] == [(7, {})]
    assert points(reader)["g"] == [(7, {})]
    assert threads == [loop_thread, loop_thread]


async def test_one_instrument_that_fails_leaves_the_others_alone(measures, reader):
    def fail():
        raise RuntimeError("of the service")

    measures.gauge("broken", "1", "", fail)
    measures.counter("sound", "{message}", "", lambda: [(3, {"topic": "orders"})])
    found = await asyncio.to_thread(points, reader)
    assert found["sound"] == [(3, {"topic": "orders"})]
    assert not found.get("broken")


def test_more_values_than_anybody_reads_are_summed_up():
    values = bounded((1, {"topic": f"t{number}"}) for number in range(SERIES_MAX + 500))
    assert len(values) == SERIES_MAX
    assert values[-1] == (501, {"topic": OTHER})
    assert sum(value for value, _ in values) == SERIES_MAX + 500
    assert bounded([]) == []
