"""What a collector is told of a name server by OTLP: a real receiver, over gRPC."""

import asyncio

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as collector_pb
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as collector_grpc

from ariane_namesrv.app import NamesrvApp
from ariane_namesrv.settings import NamesrvSettings
from ariane_servicekit import StartRefused
from ariane_servicekit.running.lifecycle import serving
from ariane_testkit.free_ports import free_port


class Collector(collector_grpc.MetricsServiceServicer):
    """Keeps what it is told."""

    def __init__(self):
        self.told = asyncio.Event()
        self.values = {}
        self.services = set()

    async def Export(self, request, context):  # noqa: N802 - as in the contract
        for resource in request.resource_metrics:
            for attribute in resource.resource.attributes:
                if attribute.key == "service.name":
                    self.services.add(attribute.value.string_value)
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.gauge.data_points:
                        self.values[metric.name] = point.as_int or point.as_double
        self.told.set()
        return collector_pb.ExportMetricsServiceResponse()


@pytest.fixture
async def collector():
    server = grpc.aio.server()
    servicer = Collector()
    collector_grpc.add_MetricsServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield servicer, f"http://127.0.0.1:{port}"
    await server.stop(None)


async def test_a_collector_is_told_by_otlp(tmp_path, collector):
    servicer, endpoint = collector
    settings = NamesrvSettings(
        listen="127.0.0.1:0", data_path=tmp_path, otlp_endpoint=endpoint, otlp_interval_s=1
    )
    async with serving(settings, NamesrvApp), asyncio.timeout(60):
        await servicer.told.wait()
    assert servicer.services == {"namesrv"}
    assert servicer.values["ariane.namesrv.brokers"] == 0
    assert servicer.values["ariane.namesrv.warming_up"] in {0, 1}


async def test_a_collector_that_is_away_harms_nobody(tmp_path, monkeypatch):
    # The last export is tried again, but not until the ten seconds are over that it may take.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1.5")
    endpoint = f"http://127.0.0.1:{free_port()}"
    settings = NamesrvSettings(
        listen="127.0.0.1:0", data_path=tmp_path, otlp_endpoint=endpoint, otlp_interval_s=1
    )
    async with (
        asyncio.timeout(60),
        serving(settings, NamesrvApp) as address,
        grpc.aio.insecure_channel(str(address)) as channel,
    ):
        await channel.channel_ready()


async def test_a_taken_port_is_one_line(tmp_path):
    address = f"127.0.0.1:{free_port()}"
    first = NamesrvSettings(listen="127.0.0.1:0", data_path=tmp_path / "a", metrics_listen=address)
    second = NamesrvSettings(listen="127.0.0.1:0", data_path=tmp_path / "b", metrics_listen=address)
    async with serving(first, NamesrvApp):
        with pytest.raises(StartRefused, match=f"cannot serve metrics on {address}"):
            async with serving(second, NamesrvApp):
                pass
