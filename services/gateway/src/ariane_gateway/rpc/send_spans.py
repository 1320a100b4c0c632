"""Spans of sends: one for each call whose messages were sent in spans."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from apache.rocketmq.v2 import service_pb2 as pb
from apache.rocketmq.v2.definition_pb2 import Code
from ariane_servicekit.observability.tracing import WorkTracer


class SendSpans:
    """Makes spans of calls that send, as children of those that clients name with messages."""

    def __init__(self, tracer: WorkTracer) -> None:
        self._tracer = tracer

    @contextmanager
    def around(
        self, request: pb.SendMessageRequest, response: pb.SendMessageResponse
    ) -> Iterator[None]:
        """Make a span of a call, if a sampled span sent one of its messages.

        Args:
            request: The call.
            response: Its answer, once the block is left.
        """
        topic = request.messages[0].topic.name
        span = self._tracer.begin(
            f"send {topic}",
            [each.system_properties.trace_context for each in request.messages],
            {
                "messaging.system": "arianemq",
                "messaging.operation.name": "send",
                "messaging.destination.name": topic,
                "messaging.batch.message_count": len(request.messages),
            },
        )
        if span is None:
            yield
            return
        try:
            yield
        except BaseException as error:
            span.set_attribute("error.type", type(error).__qualname__)
            raise
        else:
            if response.status.code != Code.OK:
                span.set_attribute("error.type", Code.Name(response.status.code))
        finally:
            span.end()
