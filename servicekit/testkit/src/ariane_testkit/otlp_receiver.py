"""A collector of spans for tests: a real gRPC server that speaks OpenTelemetry's own contract."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as collector_pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as collector_grpc

WAIT_S = 120.0


@dataclass(frozen=True)
class ReceivedSpan:
    """One span as a collector received it."""

    service: str
    """Who sent it."""
    name: str
    """Its name."""
    trace_id: str
    """Of its trace, 32 hex digits."""
    span_id: str
    """Its own, 16 hex digits."""
    parent_id: str
    """Its parent's; empty without one."""
    links: tuple[str, ...] = ()
    """Ids of the spans that it is linked to."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """What is said of it."""
    seconds: float = 0.0
    """How long it took."""


class OtlpReceiver(collector_grpc.TraceServiceServicer):
    """Keeps the spans that it receives."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        """Where it listens, as settings spell it."""
        self.spans: list[ReceivedSpan] = []
        """All of them so far."""

    def Export(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 - of the contract.
        """Take some."""
        for resource in request.resource_spans:
            service = _values(resource.resource.attributes).get("service.name", "")
            for scope in resource.scope_spans:
                self.spans += [_received(service, span) for span in scope.spans]
        return collector_pb.ExportTraceServiceResponse()

    def wait_for(self, wanted: Callable[[ReceivedSpan], bool]) -> ReceivedSpan:
        """The first span that is wanted, as soon as it has come.

        Raises:
            TimeoutError: It never was.
        """
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            for span in list(self.spans):
                if wanted(span):
                    return span
            time.sleep(0.02)
        raise TimeoutError(f"not among {self.spans}")


@contextmanager
def otlp_receiver() -> Iterator[OtlpReceiver]:
    """A collector for the length of a block."""
    server = grpc.server(ThreadPoolExecutor(4))
    port = server.add_insecure_port("127.0.0.1:0")
    receiver = OtlpReceiver(f"http://127.0.0.1:{port}")
    add: Callable[..., None] = collector_grpc.add_TraceServiceServicer_to_server
    add(receiver, server)
    server.start()
    try:
        yield receiver
    finally:
        server.stop(None).wait()


def _received(service: str, span: Any) -> ReceivedSpan:
    return ReceivedSpan(
        service=service,
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        links=tuple(link.span_id.hex() for link in span.links),
        attributes=_values(span.attributes),
        seconds=(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
    )


def _values(attributes: Any) -> dict[str, Any]:
    found = {}
    for attribute in attributes:
        kind = attribute.value.WhichOneof("value")
        found[attribute.key] = getattr(attribute.value, kind) if kind else None
    return found
