"""The exporter of metrics by OTLP: it adds the histograms that are counted here.

Loaded only where a collector is named: its libraries take long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from time import time_ns
from typing import Any

from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
)
from typing_extensions import override

from ariane_servicekit.observability.durations import DurationHistogram, Durations


class MeasuresExporter(OTLPMetricExporter):
    """Exports what OpenTelemetry has read, and histograms of durations beside it."""

    histograms: Callable[[], Sequence[DurationHistogram]] = tuple
    """Returns the histograms."""

    @override
    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **others: Any
    ) -> MetricExportResult:
        """Export all of it; see OpenTelemetry."""
        whole = with_histograms(metrics_data, self.histograms(), time_ns())
        return super().export(whole, timeout_millis, **others)


def with_histograms(
    data: MetricsData, histograms: Iterable[DurationHistogram], now_ns: int
) -> MetricsData:
    """Return metrics with histograms beside those of the first scope.

    Args:
        data: What OpenTelemetry has read; without any value, nothing is added.
        histograms: The histograms.
        now_ns: Nanoseconds since the epoch.
    """
    added = [metric for each in histograms if (metric := _metric(each, now_ns)).data.data_points]
    if not added or not data.resource_metrics:
        return data
    resource, *resources = data.resource_metrics
    scope, *scopes = resource.scope_metrics
    scope = replace(scope, metrics=[*scope.metrics, *added])
    resource = replace(resource, scope_metrics=[scope, *scopes])
    return replace(data, resource_metrics=[resource, *resources])


def _metric(histogram: DurationHistogram, now_ns: int) -> Metric:
    # Without a value there is no least and no largest one to tell.
    points = [_point(histogram, each, now_ns) for each in histogram.series if any(each.counts)]
    values = Histogram(points, AggregationTemporality.CUMULATIVE)
    return Metric(histogram.name, histogram.description, "s", values)


def _point(histogram: DurationHistogram, durations: Durations, now_ns: int) -> HistogramDataPoint:
    counts = durations.counts[:]
    return HistogramDataPoint(
        attributes=durations.attributes,
        start_time_unix_nano=histogram.begun_ns,
        time_unix_nano=now_ns,
        count=sum(counts),
        sum=durations.sum_s,
        bucket_counts=counts,
        explicit_bounds=histogram.bounds_s,
        min=durations.min_s,
        max=durations.max_s,
    )
