"""Spans and measurements by OpenTelemetry, after its conventions for messaging.

Without a configuration of OpenTelemetry by the application there are none: OpenTelemetry is not
loaded, and messages are sent as usual. With one, every send has a span, whose W3C trace context is
in the properties ``traceparent`` and ``tracestate``. Every call of a listener, and every poll that
returns messages, has a span that is linked to the sends of its messages.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import attrgetter
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from ariane_record.names import TRACE_PARENT
from ariane_sdk.client import messaging_names as semconv
from ariane_sdk.client.connection_metrics import observe_connections
from ariane_sdk.client.span_export import span_provider
from ariane_sdk.errors import ArianeError
from ariane_sdk.message import Message, ReceivedMessage, SendResult
from ariane_sdk.message_queue import MessageQueue

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

    from ariane_sdk.client.listener import Listener
    from ariane_sdk.settings import PushSettings

SYSTEM: Final = "arianemq"
SCOPE: Final = "ariane_sdk"

LINKS_MAX: Final = 16
"""The most links of a batch's span: each costs as much as a message."""

_Sent = TypeVar("_Sent")

Take = Callable[[Message], "asyncio.Future[SendResult]"]
TakeAll = Callable[[Sequence[Message]], Awaitable[Sequence[SendResult | ArianeError]]]
Attributes = dict[str, str | int]

_topic_of = attrgetter("topic")


class Telemetry:
    """Spans and measurements of one client."""

    def __init__(
        self, tracer_provider: TracerProvider, meter_provider: MeterProvider, *, client_id: str
    ) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - an extra; loaded when configured.
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - the same.
            TraceContextTextMapPropagator,
        )

        self._trace = trace
        self._tracer = tracer_provider.get_tracer(SCOPE)
        self._propagator = TraceContextTextMapPropagator()
        meter = meter_provider.get_meter(SCOPE)
        self._sent = meter.create_counter(semconv.SENT_MESSAGES, "{message}")
        self._consumed = meter.create_counter(semconv.CONSUMED_MESSAGES, "{message}")
        self._operation_s = meter.create_histogram(semconv.OPERATION_DURATION, "s")
        self._process_s = meter.create_histogram(semconv.PROCESS_DURATION, "s")
        self._client_id = client_id
        observe_connections(meter_provider, meter)

    @classmethod
    def configured(
        cls,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
        *,
        client_id: str,
        otlp_endpoint: str = "",
    ) -> Self | None:
        """The telemetry that the application has configured; None without a configuration.

        Args:
            tracer_provider: Instead of the application's global one.
            meter_provider: The same for measurements.
            client_id: The client.
            otlp_endpoint: A collector for spans, if there is no tracer provider.

        Raises:
            IllegalArgument: The exporter is not installed.
        """
        if otlp_endpoint and tracer_provider is None:
            tracer_provider = span_provider(otlp_endpoint)
        # An application that has configured OpenTelemetry has loaded it.
        if "opentelemetry.trace" not in sys.modules:
            return None
        from opentelemetry import metrics, trace  # noqa: PLC0415 - an extra.

        tracers = tracer_provider or trace.get_tracer_provider()
        meters = meter_provider or metrics.get_meter_provider()
        if _does_nothing(tracers) and _does_nothing(meters):
            return None
        return cls(tracers, meters, client_id=client_id)

    def send(self, message: Message, take: Take) -> asyncio.Future[SendResult]:
        """Send one message in a span that ends with its outcome."""
        started_s = perf_counter()
        attributes = self._of_send(message.topic)
        attributes[semconv.BODY_SIZE] = len(message.body)
        if conversation_id := message.properties.get("CORRELATION_ID"):
            attributes[semconv.CONVERSATION_ID] = conversation_id
        span = self._start_send(attributes, [message])
        try:
            future = take(_marked(message, self._carried(span)))
        except ArianeError as error:
            self._end_send(span, attributes, started_s, 1, error)
            raise

        def end(sent: asyncio.Future[SendResult]) -> None:
            error = asyncio.CancelledError() if sent.cancelled() else sent.exception()
            if error is None and span.is_recording():
                span.set_attributes(_of_result(sent.result()))
            self._end_send(span, attributes, started_s, 1, error)

        future.add_done_callback(end)
        return future

    def send_one_way(self, message: Message, take: Callable[[Message], None]) -> None:
        """Send one message in a span that ends when ``take`` returns."""
        started_s = perf_counter()
        attributes = self._of_send(message.topic)
        span = self._start_send(attributes, [message])
        try:
            take(_marked(message, self._carried(span)))
        except ArianeError as error:
            self._end_send(span, attributes, started_s, 1, error)
            raise
        self._end_send(span, attributes, started_s, 1, None)

    async def send_all(
        self, messages: Sequence[Message], take_all: TakeAll
    ) -> Sequence[SendResult | ArianeError]:
        """Send many messages in one span."""
        started_s = perf_counter()
        topics = set(map(_topic_of, messages))
        attributes = self._of_send(topics.pop() if len(topics) == 1 else "")
        count = attributes[semconv.BATCH_COUNT] = len(messages)
        span = self._start_send(attributes, messages)
        error: BaseException | None = None
        try:
            if span.get_span_context().trace_flags.sampled:
                context = self._carried(span)
                messages = [_marked(message, context) for message in messages]
            # Unsampled messages stay unchanged: a context that is not exported is useless.
            taking = take_all(messages)
            del messages  # So that ``take_all`` can free them early.
            outcomes = await taking
            if isinstance(outcomes, list):  # Else all are stored, and results are made on access.
                error = next((o for o in outcomes if isinstance(o, ArianeError)), None)
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._end_send(span, attributes, started_s, count, error)
        return outcomes

    async def send_columns(
        self, topic: str, row_count: int, take_all: Callable[..., Awaitable[_Sent]]
    ) -> _Sent:
        """Send the rows of a table in one span.

        Requests to brokers carry the span's context. Rows do not: they are not changed.

        Args:
            topic: The topic.
            row_count: Number of rows, if known before; else 0.
            take_all: Sends them; ``trace_parents`` has the context of a sampled span.
        """
        started_s = perf_counter()
        attributes = self._of_send(topic)
        attributes[semconv.BATCH_COUNT] = row_count
        span = self._start_send(attributes, ())
        error: BaseException | None = None
        try:
            sampled = span.get_span_context().trace_flags.sampled
            trace_parent = self._carried(span).get(TRACE_PARENT, "") if sampled else ""
            return await take_all(trace_parents=(trace_parent,) if trace_parent else ())
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._end_send(span, attributes, started_s, row_count, error)

    def traced(self, listener: Listener, group: str) -> Listener:
        """Wrap a listener: each call is a span, linked to the sends of its messages.

        Args:
            listener: A coroutine function, or a plain one; the result is of the same kind.
            group: The consumer group.
        """
        plain: Any = listener
        if inspect.iscoroutinefunction(plain) or inspect.iscoroutinefunction(
            getattr(plain, "__call__", None)  # noqa: B004 - objects with `async def __call__`.
        ):

            async def listen(messages: list[ReceivedMessage]) -> None:
                with self._processing(messages, group):
                    outcome: None = await plain(messages)
                return outcome

            return listen

        def listen_plain(messages: list[ReceivedMessage]) -> None:
            with self._processing(messages, group):
                outcome: None = plain(messages)
            return outcome

        return listen_plain

    async def polled(
        self, polling: Awaitable[list[ReceivedMessage]], group: str
    ) -> list[ReceivedMessage]:
        """Await the messages of a poll, and add a span for it.

        A poll without messages has no span.

        Args:
            polling: Returns the messages.
            group: The consumer group.
        """
        began_s = perf_counter()
        messages = await polling
        if not messages:
            return messages
        attributes = self._of_received(messages, group, "poll", "receive")
        topics = set(map(_topic_of, messages))
        if len(topics) > 1:
            del attributes[semconv.DESTINATION_NAME]
        if len({each.message_queue for each in messages}) > 1:
            del attributes[semconv.PARTITION_ID]
        self._record_poll(attributes, messages, len(messages), began_s)
        return messages

    def polled_rows(
        self, queue: MessageQueue, row_count: int, group: str, *, began_s: float
    ) -> None:
        """Add a span for polled rows of one queue, without links: their contexts are not read.

        Args:
            queue: The queue.
            row_count: Number of rows.
            group: The consumer group.
            began_s: When the poll began, by ``perf_counter``.
        """
        attributes = self._of_queue(queue.topic, queue, group, "poll", "receive")
        attributes[semconv.BATCH_COUNT] = row_count
        self._record_poll(attributes, (), row_count, began_s)

    def _record_poll(
        self,
        attributes: Attributes,
        messages: Sequence[ReceivedMessage],
        message_count: int,
        began_s: float,
    ) -> None:
        name = attributes.get(semconv.DESTINATION_NAME)
        span = self._tracer.start_span(
            f"poll {name}" if name else "poll",
            self._context_of_one(messages),
            self._trace.SpanKind.CLIENT,
            attributes,
        )
        self._link(span, messages)
        span.end()
        counted = _only(
            attributes, semconv.OPERATION_NAME, semconv.DESTINATION_NAME, semconv.CONSUMER_GROUP
        )
        self._consumed.add(message_count, counted)
        self._operation_s.record(perf_counter() - began_s, counted)

    @contextmanager
    def _processing(self, messages: Sequence[ReceivedMessage], group: str) -> Iterator[None]:
        """Measure one call of a listener: its span, its time, and its number of messages."""
        started_s = perf_counter()
        attributes = self._of_received(messages, group, "process", "process")
        counted = _only(
            attributes, semconv.OPERATION_NAME, semconv.DESTINATION_NAME, semconv.CONSUMER_GROUP
        )
        try:
            with self._tracer.start_as_current_span(
                f"process {messages[0].topic}",
                self._context_of_one(messages),
                self._trace.SpanKind.CONSUMER,
                attributes,
                record_exception=True,
                set_status_on_exception=True,
            ) as span:
                self._link(span, messages)
                try:
                    yield
                except BaseException as error:
                    counted[semconv.ERROR_TYPE] = _error_type(error)
                    span.set_attribute(semconv.ERROR_TYPE, counted[semconv.ERROR_TYPE])
                    raise
        finally:
            self._process_s.record(perf_counter() - started_s, counted)
            self._consumed.add(len(messages), counted)

    def _of_received(
        self, messages: Sequence[ReceivedMessage], group: str, name: str, kind: str
    ) -> Attributes:
        """The attributes of an operation with messages of one queue."""
        first = messages[0]
        attributes = self._of_queue(first.topic, first.message_queue, group, name, kind)
        if len(messages) == 1:
            attributes[semconv.MESSAGE_ID] = first.unique_id
            attributes[semconv.BODY_SIZE] = len(first.stored_body)
        else:
            attributes[semconv.BATCH_COUNT] = len(messages)
        return attributes

    def _of_queue(
        self, topic: str, queue: MessageQueue, group: str, name: str, kind: str
    ) -> Attributes:
        return {
            semconv.MESSAGING_SYSTEM: SYSTEM,
            semconv.OPERATION_NAME: name,
            semconv.OPERATION_TYPE: kind,
            semconv.DESTINATION_NAME: topic,
            semconv.PARTITION_ID: _partition_id(queue),
            semconv.CONSUMER_GROUP: group,
            semconv.CLIENT_ID: self._client_id,
        }

    def _of_send(self, topic: str) -> Attributes:
        attributes: Attributes = {
            semconv.MESSAGING_SYSTEM: SYSTEM,
            semconv.OPERATION_NAME: "send",
            semconv.OPERATION_TYPE: "send",
            semconv.CLIENT_ID: self._client_id,
        }
        if topic:
            attributes[semconv.DESTINATION_NAME] = topic
        return attributes

    def _start_send(self, attributes: Attributes, messages: Sequence[Message]) -> Span:
        name = attributes.get(semconv.DESTINATION_NAME)
        span = self._tracer.start_span(
            f"send {name}" if name else "send",
            kind=self._trace.SpanKind.PRODUCER,
            attributes=attributes,
        )
        self._link(span, messages)
        return span

    def _end_send(
        self,
        span: Span,
        attributes: Attributes,
        started_s: float,
        message_count: int,
        error: BaseException | None,
    ) -> None:
        counted = _only(attributes, semconv.OPERATION_NAME, semconv.DESTINATION_NAME)
        if error is not None:
            counted[semconv.ERROR_TYPE] = _error_type(error)
            if span.is_recording():
                span.set_attribute(semconv.ERROR_TYPE, counted[semconv.ERROR_TYPE])
                span.set_status(self._trace.StatusCode.ERROR, str(error))
        span.end()
        self._sent.add(message_count, counted)
        self._operation_s.record(perf_counter() - started_s, counted)

    def _carried(self, span: Span) -> dict[str, str]:
        """The context of a span as properties."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, self._trace.set_span_in_context(span))
        return {name: value for name, value in carrier.items() if value}

    def _link(self, span: Span, messages: Sequence[Message | ReceivedMessage]) -> None:
        """Link a span to the sends of its messages.

        Not for a span that is not recorded: finding contexts reads the properties of messages.
        """
        if not span.is_recording():
            return
        for message in messages[:LINKS_MAX]:
            context = self._context_of(message.properties)
            if context is not None:
                span_context = self._trace.get_current_span(context).get_span_context()
                if span_context.is_valid:
                    span.add_link(span_context)

    def _context_of_one(self, messages: Sequence[ReceivedMessage]) -> Context | None:
        """The context of a single message: the span continues its trace."""
        return self._context_of(messages[0].properties) if len(messages) == 1 else None

    def _context_of(self, properties: Mapping[str, str]) -> Context | None:
        if TRACE_PARENT not in properties:
            return None
        return self._propagator.extract(properties)


def traced_listener(
    listener: Listener, settings: PushSettings, *, group: str, client_id: str
) -> Listener:
    """The listener itself, or with a span around each call if OpenTelemetry is configured."""
    telemetry = Telemetry.configured(
        settings.tracer_provider,
        settings.meter_provider,
        client_id=client_id,
        otlp_endpoint=settings.otlp_endpoint,
    )
    return listener if telemetry is None else telemetry.traced(listener, group)


def _marked(message: Message, context: Mapping[str, str]) -> Message:
    """The message with a trace context, unless it has one of its own."""
    if TRACE_PARENT in message.properties or not context:
        return message
    return replace(message, properties={**message.properties, **context})


def _does_nothing(provider: object) -> bool:
    """Whether a provider is part of the bare interface, which measures nothing."""
    return type(provider).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics"))


def _of_result(result: SendResult) -> Attributes:
    host, _, port = result.broker_address.rpartition(":")
    return {
        semconv.MESSAGE_ID: result.unique_id,
        semconv.PARTITION_ID: f"{result.message_queue.broker_name}#{result.message_queue.queue_id}",
        semconv.SERVER_ADDRESS: host,
        semconv.SERVER_PORT: int(port),
    }


def _partition_id(queue: MessageQueue) -> str:
    return f"{queue.broker_name}#{queue.queue_id}"


def _only(attributes: Attributes, *names: str) -> Attributes:
    """The named attributes, which are few enough in value for measurements."""
    kept = {name: attributes[name] for name in names if name in attributes}
    return {semconv.MESSAGING_SYSTEM: SYSTEM, **kept}


def _error_type(error: BaseException) -> str:
    return error.reason if isinstance(error, ArianeError) else type(error).__qualname__
