"""Export of metrics and spans: a page for Prometheus, and a collector by OTLP.

Both are off unless a setting names an address; only then their libraries are loaded::

    metrics_listen   127.0.0.1:9464     GET /metrics
    otlp_endpoint    http://otel:4317   metrics every ``otlp_interval_s``, and spans
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from ariane_servicekit.addresses import Address
from ariane_servicekit.errors import StartRefused
from ariane_servicekit.observability.durations import DurationHistogram
from ariane_servicekit.observability.measures import SERIES_MAX, Measures
from ariane_servicekit.observability.metrics_page import MetricsPage

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricReader
    from opentelemetry.sdk.trace import SpanProcessor
    from prometheus_client import CollectorRegistry

    from ariane_servicekit.security.tls.service_tls import ServiceTls

INSTALL_HINT: Final = "pip install 'ariane-servicekit[telemetry]'"


class ExportSettings(Protocol):
    """A service's settings for metrics."""

    @property
    def metrics_listen(self) -> Address | None:
        """The address of the page for Prometheus; None for none."""
        ...

    @property
    def otlp_endpoint(self) -> str:
        """The collector; empty for none."""
        ...

    @property
    def otlp_interval_s(self) -> float:
        """Interval of exports to the collector."""
        ...


class Exports:
    """The exports of one service."""

    def __init__(self, settings: ExportSettings) -> None:
        """Make the readers, and open nothing yet.

        Raises:
            StartRefused: A library is missing.
        """
        self.readers: Sequence[MetricReader] = ()
        """Metric readers of OpenTelemetry; none if metrics are off."""
        self.processors: Sequence[SpanProcessor] = ()
        """Span processors of OpenTelemetry; none without a collector."""
        self.address: Address | None = None
        """Address of the page for Prometheus; None until ``open``, and if it is off."""
        self._listen = settings.metrics_listen
        self._registry: CollectorRegistry | None = None
        self._page: MetricsPage | None = None
        self._measures: Measures | None = None
        try:
            if self._listen is not None:
                self.readers = (*self.readers, self._prometheus())
            if settings.otlp_endpoint:
                self.readers = (*self.readers, _otlp(settings, self._histograms))
                self.processors = (_spans_by_otlp(settings),)
        except ImportError as error:
            raise StartRefused(
                f"telemetry needs {error.name}, which is not installed: {INSTALL_HINT}"
            ) from error

    def open(self, tls: ServiceTls | None = None) -> None:
        """Serve the page for Prometheus.

        Args:
            tls: What the process shows; None for plain text.

        Raises:
            StartRefused: The port is in use.
        """
        if self._listen is None or self._registry is None:
            return
        shown = None if tls is None or self._listen.is_loopback else tls.page_context
        self._page = MetricsPage(self._listen, self._registry, shown)
        self.address = self._page.address

    def serve(self, measures: Measures) -> None:
        """Serve these values on the page for Prometheus, and their histograms to the collector."""
        self._measures = measures
        if self._page is not None:
            self._page.serve(measures)

    def close(self) -> None:
        """Stop serving the page."""
        if self._page is not None:
            self._page.close()

    def _histograms(self) -> Sequence[DurationHistogram]:
        return () if self._measures is None else self._measures.histograms

    def _prometheus(self) -> MetricReader:
        from opentelemetry.exporter.prometheus import (  # noqa: PLC0415 - see the module
            PrometheusMetricReader,
        )
        from prometheus_client import CollectorRegistry  # noqa: PLC0415
        from prometheus_client.gc_collector import GCCollector  # noqa: PLC0415
        from prometheus_client.process_collector import ProcessCollector  # noqa: PLC0415

        # A registry of its own: several services may live in one process of a test.
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        return PrometheusMetricReader(scope_info_enabled=False, registry=self._registry)


def _otlp(
    settings: ExportSettings, histograms: Callable[[], Sequence[DurationHistogram]]
) -> MetricReader:
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415

    from ariane_servicekit.observability.otlp_metrics import (  # noqa: PLC0415 - as above
        MeasuresExporter,
    )

    exporter = MeasuresExporter(settings.otlp_endpoint, insecure=_is_plain(settings))
    exporter.histograms = histograms
    return PeriodicExportingMetricReader(
        exporter,
        export_interval_millis=settings.otlp_interval_s * 1000,
        cardinality_limits=_cardinality_limits(),
    )


def _spans_by_otlp(settings: ExportSettings) -> SpanProcessor:
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415 - as above
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    return BatchSpanProcessor(
        OTLPSpanExporter(settings.otlp_endpoint, insecure=_is_plain(settings))
    )


def _is_plain(settings: ExportSettings) -> bool:
    return not settings.otlp_endpoint.startswith("https://")


def _cardinality_limits() -> dict[type, int]:
    from opentelemetry.sdk.metrics import (  # noqa: PLC0415 - see the module
        ObservableCounter,
        ObservableGauge,
    )

    # One more than our own limit, whose last value sums up the rest.
    return {ObservableCounter: SERIES_MAX + 1, ObservableGauge: SERIES_MAX + 1}
