from __future__ import annotations

from time import perf_counter

import grpc
from opentelemetry.metrics import NoOpMeter

from ariane_servicekit.observability.telemetry import CallMetrics, Telemetry


def counts(metrics):
    return {
        (each.attributes["rpc.method"], each.attributes["rpc.response.status_code"]): sum(
            each.counts
        )
        for each in metrics.histogram.series
    }


def test_calls_are_counted_by_method_and_code():
    metrics = CallMetrics(is_read=True)
    for method, code in (
        ("/a.B/C", grpc.StatusCode.OK),
        ("/a.B/C", grpc.StatusCode.OK),
        ("/a.B/C", grpc.StatusCode.NOT_FOUND),
        ("_OTHER", grpc.StatusCode.UNIMPLEMENTED),
        ("_OTHER", grpc.StatusCode.UNIMPLEMENTED),
    ):
        metrics.end(perf_counter(), method, code)
    assert counts(metrics) == {
        ("a.B/C", "OK"): 2,
        ("a.B/C", "NOT_FOUND"): 1,
        ("_OTHER", "UNIMPLEMENTED"): 2,
    }


def test_without_readers_nothing_is_kept():
    telemetry = Telemetry("probe")
    assert isinstance(telemetry.meter("test"), NoOpMeter)
    metrics = CallMetrics(is_read=False)
    metrics.end(perf_counter(), "/a.B/C", grpc.StatusCode.OK)
    assert not counts(metrics)
    telemetry.close()
