"""Spans of tasks that read: one for each task that has met messages of sampled spans.

::

    producer        send orders ------------+ traceparent
    broker            append orders         |
    Spark's task      read orders (child of the first that was met) . . links to others

Properties are looked at by column. The span is told when the task has read everything, in the task:
a worker of Spark may be gone a moment later.
"""

from __future__ import annotations

import logging
import re
import time
from functools import lru_cache
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from ariane_record.names import TRACE_PARENT

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext, Tracer

    from ariane_record.decoding.columns import RecordColumns
    from ariane_sdk import MessageQueue

LINKS_MAX: Final = 64
"""Spans that one task's span is linked to; more are counted only."""

TELL_TIMEOUT_S: Final = 5
"""How long a task waits for its collector."""

_log: Final = logging.getLogger(__name__)

_SAMPLED: Final = re.compile("00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f][13579bdf])")


class ReadSpan:
    """The span of one task's read; ends with its ``with`` block."""

    def __init__(self, endpoint: str) -> None:
        """Begin; ``endpoint`` is the collector."""
        self._endpoint = endpoint
        self._begun_ns = time.time_ns()
        self._contexts: dict[str, None] = {}
        self._topics: dict[str, None] = {}
        self._count = 0

    def saw(self, records: RecordColumns, queue: MessageQueue) -> None:
        """Take note of messages that the task has read."""
        self._count += len(records)
        self._topics[queue.topic] = None
        if len(self._contexts) < LINKS_MAX:
            properties = records.properties
            found = filter(_SAMPLED.fullmatch, properties.texts(properties.places_of(TRACE_PARENT)))
            room = LINKS_MAX - len(self._contexts)
            self._contexts |= dict.fromkeys(islice(dict.fromkeys(found), room))

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Tell the collector, if there is something to tell."""
        if not self._contexts:
            return
        try:
            self._tell(None if kind in {None, GeneratorExit} else error)
        except Exception as failure:  # noqa: BLE001 - a query does not fail for its telemetry.
            _log.warning("the span of a task was not told: %s", failure)

    def _tell(self, error: BaseException | None) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - an extra, and only where it is asked for.

        contexts = [_context_of(text) for text in self._contexts]
        topics = list(self._topics)
        name = f"read {topics[0]}" if len(topics) == 1 else "read"
        span = _tracer(self._endpoint).start_span(
            name,
            trace.set_span_in_context(trace.NonRecordingSpan(contexts[0])),
            trace.SpanKind.CONSUMER,
            {
                "messaging.system": "arianemq",
                "messaging.operation.name": "read",
                "messaging.operation.type": "receive",
                "messaging.batch.message_count": self._count,
                **({"messaging.destination.name": topics[0]} if len(topics) == 1 else {}),
                **_task_attributes(),
            },
            [trace.Link(context) for context in contexts[1:]],
            start_time=self._begun_ns,
        )
        if error is not None:
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(trace.StatusCode.ERROR, str(error))
        span.end()


@lru_cache(maxsize=4)
def _tracer(endpoint: str) -> Tracer:
    """The exporter to a collector, for one span at a time; kept for the worker's next task."""
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415 - as above.
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - as above.
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - as above.
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: PLC0415 - as above.

    resource = Resource({"service.namespace": "ariane", "service.name": "spark"})
    provider = TracerProvider(resource=resource)
    exporter = OTLPSpanExporter(
        endpoint, insecure=not endpoint.startswith("https://"), timeout=TELL_TIMEOUT_S
    )
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("ariane_spark")


def _context_of(trace_parent: str) -> SpanContext:
    from opentelemetry.trace import SpanContext, TraceFlags  # noqa: PLC0415 - as above.

    _, trace_id, span_id, flags = trace_parent.split("-")
    return SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16))
    )


def _task_attributes() -> dict[str, str | int]:
    """Which task of which micro-batch this is, as far as Spark says."""
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
