"""Metrics and spans by OpenTelemetry. Nothing is exported unless a reader or processor is given."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Final

import grpc
from opentelemetry.metrics import Meter, MeterProvider, NoOpMeterProvider

from ariane_servicekit.observability.durations import DurationHistogram, Durations
from ariane_servicekit.observability.tracing import WorkTracer

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider as SdkMeterProvider
    from opentelemetry.sdk.metrics.export import MetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider

_BUCKETS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 30)
"""Upper bounds of the histogram of durations: an append takes a millisecond, a held pull 15 s."""


class Telemetry:
    """The instruments of a service, whose values readers export.

    Without readers the instruments do nothing: recording a value would cost each call as much as
    all the rest of it.
    """

    def __init__(
        self,
        service_name: str,
        readers: Sequence[MetricReader] = (),
        processors: Sequence[SpanProcessor] = (),
    ) -> None:
        self._exporting = _exporting(service_name, readers) if readers else None
        self._provider: MeterProvider = self._exporting or NoOpMeterProvider()
        self._tracing = _tracing(service_name, processors) if processors else None
        self.tracer = WorkTracer(self._tracing) if self._tracing is not None else None
        """Makes spans; None without processors."""

    def meter(self, name: str) -> Meter:
        """Return the meter of a package, which makes instruments."""
        return self._provider.get_meter(name)

    def close(self) -> None:
        """Export the rest, and stop readers and processors."""
        if self._tracing is not None:
            self._tracing.shutdown()
        if self._exporting is not None:
            self._exporting.shutdown()


def _exporting(service_name: str, readers: Sequence[MetricReader]) -> SdkMeterProvider:
    # The SDK takes a tenth of the time that a service needs to start.
    from opentelemetry.sdk.metrics import MeterProvider as SdkMeterProvider  # noqa: PLC0415 - see above.

    return SdkMeterProvider(
        metric_readers=readers, resource=_resource(service_name), shutdown_on_exit=False
    )


def _tracing(service_name: str, processors: Sequence[SpanProcessor]) -> SdkTracerProvider:
    from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider  # noqa: PLC0415 - above

    provider = SdkTracerProvider(resource=_resource(service_name), shutdown_on_exit=False)
    for processor in processors:
        provider.add_span_processor(processor)
    return provider


def _resource(service_name: str) -> Resource:
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - as above.

    return Resource({"service.namespace": "ariane", "service.name": service_name})


class CallMetrics:
    """Count and duration of calls by method and code: the histogram ``rpc.server.call.duration``.

    The attributes follow OpenTelemetry's conventions for RPC. Durations are in real time, not of
    the injected clock: they measure the speed of this machine.
    """

    def __init__(self, *, is_read: bool) -> None:
        """Count nothing unless somebody reads it."""
        self.histogram = DurationHistogram(
            "rpc.server.call.duration",
            "How long calls took, streams and held calls included.",
            _BUCKETS_S,
        )
        """The durations."""
        self._is_read = is_read
        self._durations: dict[tuple[str, grpc.StatusCode], Durations] = {}

    def end(self, begun_s: float, method: str, code: grpc.StatusCode) -> None:
        """Record a call that has ended now.

        Args:
            begun_s: When it began, by ``perf_counter``.
            method: One of a bounded number.
            code: Its status.
        """
        if not self._is_read:
            return
        durations = self._durations.get((method, code))
        if durations is None:
            attributes = {
                "rpc.method": method.removeprefix("/"),
                "rpc.response.status_code": code.name,
                "rpc.system.name": "grpc",
            }
            durations = self._durations[method, code] = self.histogram.of(attributes)
        durations.record(perf_counter() - begun_s)
