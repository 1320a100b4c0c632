"""The shared part of spans of tasks: their collector, their task, the linked spans.

A task sends its spans before it ends: a worker of Spark may be gone a moment later.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import SpanContext

LINKS_MAX: Final = 64
"""The most links of one task's span; more are only counted."""

EXPORT_TIMEOUT_MS: Final = 5000
"""How long a task waits for its collector."""

_log: Final = logging.getLogger(__name__)

_SAMPLED: Final = re.compile("00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f][13579bdf])")


class SpansMet:
    """The sampled spans of a task's messages, each once, up to the limit of links."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}

    def __bool__(self) -> bool:
        """Whether there is a span."""
        return bool(self._texts)

    def add(self, trace_parents: Iterable[str]) -> list[SpanContext]:
        """Add values of ``traceparent``; return the new ones."""
        if len(self._texts) >= LINKS_MAX:
            return []
        sampled = dict.fromkeys(filter(_SAMPLED.fullmatch, trace_parents))
        fresh = [text for text in sampled if text not in self._texts]
        fresh = list(islice(fresh, LINKS_MAX - len(self._texts)))
        self._texts |= dict.fromkeys(fresh)
        return list(map(_context_of, fresh))

    def contexts(self) -> list[SpanContext]:
        """All spans, in the order in which they were added."""
        return list(map(_context_of, self._texts))


@lru_cache(maxsize=4)
def span_provider(endpoint: str) -> TracerProvider:
    """The provider that makes spans and exports them; kept for the worker's next task."""
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415 - an extra.
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - as above.
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - as above.
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - as above.

    resource = Resource({"service.namespace": "ariane", "service.name": "spark"})
    provider = TracerProvider(resource=resource)
    exporter = OTLPSpanExporter(
        endpoint, insecure=not endpoint.startswith("https://"), timeout=EXPORT_TIMEOUT_MS / 1000
    )
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def export_spans(endpoint: str) -> None:
    """Send all ended spans to a collector."""
    try:
        span_provider(endpoint).force_flush(EXPORT_TIMEOUT_MS)
    except Exception as failure:  # noqa: BLE001 - a query does not fail for its telemetry.
        _log.warning("the span of a task was not exported: %s", failure)


def task_attributes() -> dict[str, str | int]:
    """The attributes of this task and its micro-batch, as far as Spark has them."""
    from pyspark import TaskContext  # noqa: PLC0415 - tasks have it loaded.

    task = TaskContext.get()
    if task is None:
        return {}
    attributes: dict[str, str | int] = {
        "ariane.spark.stage_id": task.stageId(),
        "ariane.spark.partition_id": task.partitionId(),
    }
    for key, name in (
        ("sql.streaming.queryId", "ariane.spark.query_id"),
        ("streaming.sql.batchId", "ariane.spark.batch_id"),
    ):
        if value := task.getLocalProperty(key):
            attributes[name] = value
    return attributes


def _context_of(trace_parent: str) -> SpanContext:
    from opentelemetry.trace import SpanContext, TraceFlags  # noqa: PLC0415 - as above.

    _, trace_id, span_id, flags = trace_parent.split("-")
    return SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16))
    )
