"""Spans of tasks that read: one for each task that reads messages of sampled spans.

::

    producer        send orders ------------+ traceparent
    broker            append orders         |
    Spark's task      read orders (child of the first that was met) . . links to others

Properties are read by column.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ariane_record.names import TRACE_PARENT
from ariane_spark.calls.task_spans import SpansMet, span_provider, task_attributes, tell

if TYPE_CHECKING:
    from ariane_record.decoding.columns import RecordColumns
    from ariane_sdk import MessageQueue


class ReadSpan:
    """The span of one task's read; ends with its ``with`` block."""

    def __init__(self, endpoint: str) -> None:
        """Begin the span; ``endpoint`` is the collector."""
        self._endpoint = endpoint
        self._begun_ns = time.time_ns()
        self._met = SpansMet()
        self._topics: dict[str, None] = {}
        self._count = 0

    def saw(self, records: RecordColumns, queue: MessageQueue) -> None:
        """Note messages that the task has read."""
        self._count += len(records)
        self._topics[queue.topic] = None
        properties = records.properties
        self._met.add(properties.texts(properties.places_of(TRACE_PARENT)))

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the span, if there is one, and send it to the collector."""
        if self._met:
            self._end(None if kind in {None, GeneratorExit} else error)
            tell(self._endpoint)

    def _end(self, error: BaseException | None) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - an extra, and only where it is asked for.

        first, *others = self._met.contexts()
        topics = list(self._topics)
        name = f"read {topics[0]}" if len(topics) == 1 else "read"
        span = (
            span_provider(self._endpoint)
            .get_tracer("ariane_spark")
            .start_span(
                name,
                trace.set_span_in_context(trace.NonRecordingSpan(first)),
                trace.SpanKind.CONSUMER,
                {
                    "messaging.system": "arianemq",
                    "messaging.operation.name": "read",
                    "messaging.operation.type": "receive",
                    "messaging.batch.message_count": self._count,
                    **({"messaging.destination.name": topics[0]} if len(topics) == 1 else {}),
                    **task_attributes(),
                },
                [trace.Link(context) for context in others],
                start_time=self._begun_ns,
            )
        )
        if error is not None:
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(trace.StatusCode.ERROR, str(error))
        span.end()
