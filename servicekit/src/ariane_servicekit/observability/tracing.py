"""Spans of a service's work, as children of its callers' spans.

A service begins no trace of its own: the sender of messages decides what is sampled, and passes its
spans (W3C ``traceparent``). So even a broker with a collector does nothing for producers without
spans::

    producer    send orders ----------------+        send orders ---+
                     | trace_parents[0]                    | trace_parents[1]
    broker      append (child of the first) . . . link . . +
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext, TracerProvider

LINKS_MAX: Final = 16
"""The most contexts that one span is linked to; further ones are ignored."""

_SAMPLED: Final = 1
_TRACE_PARENT: Final = re.compile("00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")

Attributes = Mapping[str, str | int | bool]


class WorkSpan(Protocol):
    """A span that has begun."""

    def set_attribute(self, key: str, value: str | bool | int) -> None:
        """Set an attribute of the work."""
        ...

    def end(self) -> None:
        """End the span: the work is done."""
        ...


class WorkTracer:
    """Makes spans of work for callers."""

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - only if spans are exported.

        self._trace = trace
        self._tracer = provider.get_tracer("ariane")

    def begin(
        self, name: str, trace_parents: Sequence[str], attributes: Attributes
    ) -> WorkSpan | None:
        """Begin a span for work that was requested in other spans.

        Args:
            name: The span's name, such as ``append orders``.
            trace_parents: The callers' spans; illegal ``traceparent`` values are ignored.
            attributes: The span's attributes.

        Returns:
            The span, a child of the first sampled one; None if none of them is sampled.
        """
        contexts = list(self._sampled(trace_parents[:LINKS_MAX]))
        if not contexts:
            return None
        trace = self._trace
        parent = trace.set_span_in_context(trace.NonRecordingSpan(contexts[0]))
        return self._tracer.start_span(
            name,
            parent,
            trace.SpanKind.SERVER,
            attributes,
            [trace.Link(context) for context in contexts[1:]],
        )

    def _sampled(self, trace_parents: Iterable[str]) -> Iterable[SpanContext]:
        trace = self._trace
        for text in trace_parents:
            match = _TRACE_PARENT.fullmatch(text)
            if match is None:
                continue
            flags = trace.TraceFlags(int(match[3], 16))
            context = trace.SpanContext(
                int(match[1], 16), int(match[2], 16), is_remote=True, trace_flags=flags
            )
            if context.is_valid and flags & _SAMPLED:
                yield context
