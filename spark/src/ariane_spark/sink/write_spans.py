"""Spans of tasks that write: one for each task; its messages have its context.

::

    producer        send orders --------+ traceparent, in rows that were read with it
    Spark's task      write copies (child of the first of them) . . links to others
    producer of it      send copies         at least once only
    broker                append copies
    consumer              process copies    of rows that bore no context of their own

Rows are read and changed by column.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ariane_record.names import TRACE_PARENT
from ariane_spark.calls.task_spans import SpansMet, export_spans, span_provider, task_attributes
from ariane_spark.records.rows import TopicRows

if TYPE_CHECKING:
    import pyarrow as pa
    from opentelemetry.trace import Span


class WriteSpan:
    """The span of one task's write, from its first rows on."""

    def __init__(self, endpoint: str) -> None:
        """Begin the span; without a collector, ``endpoint``, there is none."""
        self._endpoint = endpoint
        self._begun_ns = time.time_ns()
        self._met = SpansMet()
        self._span: Span | None = None
        self._trace_parent = ""
        self._count = 0
        self._topics: dict[str, None] = {}

    def marked(self, share: TopicRows) -> TopicRows:
        """The same rows; rows without a context get the context of the task."""
        if not self._endpoint:
            return share
        from opentelemetry import trace  # noqa: PLC0415 - an extra, and only where it is asked for.

        properties = share.table.column("properties").combine_chunks()
        fresh = self._met.add(_trace_parents_of(properties))
        if self._span is None:
            first = trace.NonRecordingSpan(fresh.pop(0)) if fresh else trace.INVALID_SPAN
            self._span = self._begun(share.topic, trace.set_span_in_context(first))
            context = self._span.get_span_context()
            if context.trace_flags.sampled:
                self._trace_parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-01"
        for other in fresh:
            self._span.add_link(other)
        self._topics[share.topic] = None
        self._count += len(share.table)
        if not self._trace_parent:
            return share
        at = share.table.column_names.index("properties")
        table = share.table.set_column(at, "properties", _marked(properties, self._trace_parent))
        return share._replace(table=table)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make spans of calls within the block children of this one."""
        if self._span is None:
            yield
            return
        from opentelemetry import trace  # noqa: PLC0415 - as above.

        with trace.use_span(self._span, record_exception=False, set_status_on_exception=False):
            yield

    def end(self, error: BaseException | None) -> None:
        """End the span, and send it to the collector."""
        if self._span is None:
            return
        from opentelemetry import trace  # noqa: PLC0415 - as above.

        self._span.set_attribute("messaging.batch.message_count", self._count)
        if len(self._topics) > 1:
            self._span.update_name("write")
        else:
            self._span.set_attribute("messaging.destination.name", next(iter(self._topics)))
        if error is not None:
            self._span.set_attribute("error.type", type(error).__qualname__)
            self._span.set_status(trace.StatusCode.ERROR, str(error))
        self._span.end()
        export_spans(self._endpoint)

    def _begun(self, topic: str, parent: Any) -> Span:
        from opentelemetry import trace  # noqa: PLC0415 - as above.

        return (
            span_provider(self._endpoint)
            .get_tracer("ariane_spark")
            .start_span(
                f"write {topic}",
                parent,
                trace.SpanKind.PRODUCER,
                {
                    "messaging.system": "arianemq",
                    "messaging.operation.name": "write",
                    "messaging.operation.type": "send",
                    **task_attributes(),
                },
                start_time=self._begun_ns,
            )
        )


@contextmanager
def write_span(endpoint: str) -> Iterator[WriteSpan]:
    """The span of a task's write, during a block.

    Args:
        endpoint: The collector; empty for no span.
    """
    span = WriteSpan(endpoint)
    try:
        yield span
    except BaseException as error:
        span.end(error)
        raise
    span.end(None)


def _trace_parents_of(properties: pa.MapArray) -> list[str]:
    """The values of ``traceparent`` in rows, each once."""
    import pyarrow.compute as pc  # noqa: PLC0415 - tasks only: planning needs no Arrow.

    found = properties.items.filter(pc.equal(properties.keys, TRACE_PARENT))
    texts: list[str] = pc.unique(found).to_pylist()
    return texts


def _marked(properties: pa.MapArray, trace_parent: str) -> pa.MapArray:
    """The properties of rows, each with a context: its own, or this one after its other pairs."""
    import pyarrow as pa  # noqa: PLC0415 - tasks only: planning needs no Arrow.
    import pyarrow.compute as pc  # noqa: PLC0415 - the same.

    offsets = properties.offsets.to_numpy()
    names = properties.keys.slice(offsets[0], offsets[-1] - offsets[0])
    values = properties.items.slice(offsets[0], offsets[-1] - offsets[0])
    row_of_pair = np.repeat(np.arange(len(properties)), np.diff(offsets))
    has_own = np.zeros(len(properties), bool)
    has_own[row_of_pair[pc.equal(names, TRACE_PARENT).to_numpy(zero_copy_only=False)]] = True
    marked = np.flatnonzero(~has_own)
    order = np.argsort(np.concatenate((row_of_pair, marked)), kind="stable")
    bounds = np.zeros(len(properties) + 1, np.int32)
    np.cumsum(np.diff(offsets) + ~has_own, out=bounds[1:])
    more = pa.repeat(pa.scalar(TRACE_PARENT), len(marked))
    texts = pa.repeat(pa.scalar(trace_parent), len(marked))
    places = pa.array(order)
    return pa.MapArray.from_arrays(
        pa.array(bounds),
        pa.concat_arrays([names, more]).take(places),
        pa.concat_arrays([values, texts]).take(places),
    )
