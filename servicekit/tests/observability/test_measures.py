"""Values that are read on the loop when somebody asks."""

import asyncio
import gzip
import socket
import threading
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress

import grpc
import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from ariane_servicekit import Address
from ariane_servicekit.observability import measures as measuring
from ariane_servicekit.observability import metrics_page
from ariane_servicekit.observability.measures import OTHER, SERIES_MAX, Measures, bounded, one
from ariane_servicekit.observability.metrics_page import MetricsPage
from ariane_servicekit.observability.telemetry import CallMetrics, Telemetry


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
    told = (None, *((1, {"topic": f"t{number}"}) for number in range(SERIES_MAX + 500)))
    examined = list(bounded(told))
    values = [each for each in examined if each is not None]
    assert len(values) == SERIES_MAX
    assert values[-1] == (501, {"topic": OTHER})
    assert sum(value for value, _ in values) == SERIES_MAX + 500
    # Those of the rest are examined, too, and a turn of the loop ends among them.
    assert len(examined) > SERIES_MAX + 500
    assert list(bounded([])) == []


async def read_page(page, **headers):
    request = urllib.request.Request(f"http://{page.address}/metrics", headers=headers)

    def read():
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - our own
            content = answer.read()
        compressed = answer.headers.get("Content-Encoding") == "gzip"
        return (gzip.decompress(content) if compressed else content).decode(), compressed

    return await asyncio.to_thread(read)


@pytest.fixture
async def page():
    registry = CollectorRegistry()
    reader = PrometheusMetricReader(scope_info_enabled=False, registry=registry)
    telemetry = Telemetry("probe", [reader])
    served = MetricsPage(Address("127.0.0.1", 0), registry)
    measures = Measures(telemetry.meter("ariane"))
    calls = CallMetrics(is_read=True)
    calls.end(0.0, "/a.Service/Call", grpc.StatusCode.OK)
    measures.add(calls.histogram)
    served.serve(measures)
    yield served, measures
    await asyncio.to_thread(telemetry.close)
    await asyncio.to_thread(served.close)


def test_a_host_has_no_more_threads_of_the_metrics_page_than_its_share(monkeypatch):
    """Each connection has a thread, also of strangers whose handshake never ends."""
    monkeypatch.setattr(metrics_page, "CONNECTIONS_OF_HOST_MAX", 3)
    served = MetricsPage(Address("127.0.0.1", 0), CollectorRegistry())
    with ExitStack() as opened:
        opened.callback(served.close)

        def connect():
            link = socket.create_connection((served.address.host, served.address.port), 60)
            return opened.enter_context(link)

        def is_answered(link):
            with suppress(ConnectionError):
                link.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                return link.recv(9) == b"HTTP/1.0 "
            return False

        held = [connect() for _ in range(3)]
        assert not is_answered(connect())
        assert not is_answered(connect())
        assert is_answered(held[0])
        for each in held[:2]:
            each.close()
        while not is_answered(connect()):
            pass


async def test_prometheus_reads_each_value_once(page):
    served, measures = page
    odd = 'a\\b"c\nd'

    def fail():
        yield 1, {"topic": "half"}
        raise RuntimeError("of the service")

    measures.counter("ariane.told", "By", "Told.", lambda: [None, (3, {"topic.name": odd})])
    measures.gauge("ariane.broken", "1", "Broken.", fail)
    measures.gauge("ariane.age", "s", "Age.", lambda: one(0.00001))
    text, _ = await read_page(served)
    families = list(text_string_to_metric_families(text))
    samples = [each for family in families for each in family.samples]
    values = {(each.name, *each.labels.values()): each.value for each in samples}
    assert values["ariane_told_bytes_total", odd] == 3
    assert values["ariane_age_seconds",] == 0.00001
    assert values["rpc_server_call_duration_seconds_count", "a.Service/Call", "OK", "grpc"] == 1
    names = [family.name for family in families]
    assert len(names) == len(set(names))
    assert not [name for name in names if "broken" in name]
    assert {family.name: family.type for family in families}["ariane_told_bytes"] == "counter"
    assert await read_page(served, **{"Accept-Encoding": "gzip"}) == (text, True)


async def test_a_page_that_nobody_waits_for_is_read_no_further(page, monkeypatch):
    served, measures = page
    monkeypatch.setattr(measuring, "READ_S_MAX", 0.2)
    ended = asyncio.Event()

    def endless():
        try:
            while True:
                yield None
        finally:
            ended.set()

    measures.gauge("ariane.endless", "1", "Endless.", endless)
    measures.gauge("ariane.sound", "1", "Sound.", lambda: one(5))
    text, _ = await read_page(served)
    assert "ariane_sound 5\n" in text
    assert "endless" not in text
    async with asyncio.timeout(60):
        await ended.wait()


async def test_a_page_of_another_name_is_not_there(page):
    served, _ = page
    with pytest.raises(urllib.error.HTTPError, match="404"):
        await asyncio.to_thread(urllib.request.urlopen, f"http://{served.address}/secrets")
