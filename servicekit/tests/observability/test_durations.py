"""Histograms of durations, beside those of OpenTelemetry: a collector is told the same."""

from __future__ import annotations

import random

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client.parser import text_string_to_metric_families

from ariane_servicekit.observability.durations import DurationHistogram
from ariane_servicekit.observability.otlp_metrics import with_histograms

BOUNDS_S = (0.001, 0.01, 1)
ATTRIBUTES = ({}, {"rpc.method": "a.B/C", "code": "OK"})


def test_a_collector_is_told_what_opentelemetry_would_have_told():
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader]).get_meter("probe")
    theirs = meter.create_histogram(
        "took", unit="s", description="Text.", explicit_bucket_boundaries_advisory=BOUNDS_S
    )
    ours = DurationHistogram("took", "Text.", BOUNDS_S)
    draw = random.Random(7)
    for attributes in ATTRIBUTES:
        durations = ours.of(attributes)
        for seconds in (*BOUNDS_S, *(10 ** draw.uniform(-4, 1) for _ in range(50))):
            theirs.record(seconds, attributes)
            durations.record(seconds)
    data = reader.get_metrics_data()
    ours.of({"code": "none yet"})
    unused = DurationHistogram("unused", "", BOUNDS_S)
    unused.of({})
    told = with_histograms(data, [ours, unused], 2**61)
    [resource] = told.resource_metrics
    [scope] = resource.scope_metrics
    expected, found = scope.metrics
    assert (found.name, found.unit, found.description) == (
        expected.name,
        expected.unit,
        expected.description,
    )
    assert found.data.aggregation_temporality is expected.data.aggregation_temporality
    for theirs_told, ours_told in zip(
        expected.data.data_points, found.data.data_points, strict=True
    ):
        for name in ("attributes", "count", "sum", "min", "max", "explicit_bounds"):
            assert getattr(ours_told, name) == getattr(theirs_told, name)
        assert list(ours_told.bucket_counts) == list(theirs_told.bucket_counts)
        assert 0 < ours_told.start_time_unix_nano < ours_told.time_unix_nano
    assert len(data.resource_metrics[0].scope_metrics[0].metrics) == 1


def test_prometheus_reads_buckets_that_add_up():
    histogram = DurationHistogram("ariane.probe.duration", "How long.", BOUNDS_S)
    assert not list(histogram.lines())
    for attributes in ATTRIBUTES:
        durations = histogram.of(attributes)
        for seconds in (0.001, 0.002, 5.0):
            durations.record(seconds)
    [family] = text_string_to_metric_families("".join(histogram.lines()))
    assert (family.name, family.type) == ("ariane_probe_duration_seconds", "histogram")
    read = {
        (
            each.name.removeprefix(family.name),
            each.labels.get("rpc_method"),
            each.labels.get("le"),
        ): (each.value)
        for each in family.samples
    }
    for method in (None, "a.B/C"):
        assert [read["_bucket", method, str(bound)] for bound in (0.001, 0.01, 1.0, "+Inf")] == [
            1,
            2,
            2,
            3,
        ]
        assert read["_count", method, None] == 3
        assert read["_sum", method, None] == 5.003
