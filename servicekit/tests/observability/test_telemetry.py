from __future__ import annotations

import grpc
from opentelemetry.metrics import NoOpMeter
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from ariane_servicekit.observability.telemetry import CallMetrics, Telemetry


def points(reader):
    [resource] = reader.get_metrics_data().resource_metrics
    [scope] = resource.scope_metrics
    [metric] = scope.metrics
    assert metric.name == "rpc.server.call.duration"
    assert metric.unit == "s"
    return resource.resource.attributes, {
        (point.attributes["rpc.method"], point.attributes["rpc.response.status_code"]): point.count
        for point in metric.data.data_points
    }


def test_calls_are_counted_by_method_and_code():
    reader = InMemoryMetricReader()
    telemetry = Telemetry("probe", [reader])
    metrics = CallMetrics(telemetry.meter("test"))
    for method, code in (
        ("/a.B/C", grpc.StatusCode.OK),
        ("/a.B/C", grpc.StatusCode.OK),
        ("/a.B/C", grpc.StatusCode.NOT_FOUND),
        ("/made.up/Name", grpc.StatusCode.UNIMPLEMENTED),
        ("/made.up/Name2", grpc.StatusCode.UNIMPLEMENTED),
    ):
        metrics.end(metrics.begin(), method, code)
    attributes, counts = points(reader)
    assert attributes["service.name"] == "probe"
    assert counts == {
        ("a.B/C", "OK"): 2,
        ("a.B/C", "NOT_FOUND"): 1,
        ("_OTHER", "UNIMPLEMENTED"): 2,
    }
    telemetry.close()


def test_without_readers_nothing_is_kept():
    telemetry = Telemetry("probe")
    meter = telemetry.meter("test")
    assert isinstance(meter, NoOpMeter)
    metrics = CallMetrics(meter)
    metrics.end(metrics.begin(), "/a.B/C", grpc.StatusCode.OK)
    telemetry.close()
