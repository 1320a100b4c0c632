"""Export of spans by OTLP, for applications that do not configure OpenTelemetry themselves."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ariane_sdk.errors import IllegalArgument

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

INSTALL_HINT: Final = "pip install 'ariane-sdk[otlp]'"


@lru_cache(maxsize=8)
def span_provider(endpoint: str) -> TracerProvider:
    """The tracer provider that exports spans to a collector; one for all clients of a process.

    The service name and the sampling are set by OpenTelemetry's own variables,
    ``OTEL_SERVICE_NAME`` and ``OTEL_TRACES_SAMPLER``. Remaining spans are exported when the process
    ends.

    Args:
        endpoint: The collector: ``http://host:4317``, or ``https://``.

    Raises:
        IllegalArgument: It is not an address, or the libraries are not installed.
    """
    if not endpoint.startswith(("http://", "https://")):
        raise IllegalArgument(f"otlp_endpoint {endpoint!r}: http://host:port is expected")
    try:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415 - extra
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.trace import TracerProvider as SdkProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError as error:
        raise IllegalArgument(
            f"otlp_endpoint needs {error.name}, which is not installed: {INSTALL_HINT}"
        ) from error
    provider = SdkProvider()
    exporter = OTLPSpanExporter(endpoint, insecure=not endpoint.startswith("https://"))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider
