"""Spans and measurements by OpenTelemetry, and that they cost nothing where nobody wants them."""

import asyncio
import itertools
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.semconv._incubating.attributes import messaging_attributes
from opentelemetry.semconv._incubating.metrics import messaging_metrics
from opentelemetry.semconv.attributes import error_attributes, server_attributes
from opentelemetry.trace import SpanKind, StatusCode

from ariane_sdk import (
    ClusterClient,
    Message,
    Producer,
    ProducerSettings,
    PullConsumer,
    PullSettings,
    PushConsumer,
    PushSettings,
    ReceiveConsumer,
    errors,
)
from ariane_sdk.client import messaging_names
from ariane_sdk.client import telemetry as _telemetry
from ariane_sdk.producer.sending import append_calls

_numbers = itertools.count()


@pytest.fixture
def seen():
    """Providers, and what they have seen."""
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    meters = MeterProvider([reader])
    both = {"tracer_provider": tracers, "meter_provider": meters}

    def points(name):
        found = {}
        for resource in reader.get_metrics_data().resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    if metric.name == name:
                        for point in metric.data.data_points:
                            key = tuple(sorted(point.attributes.items()))
                            value = getattr(point, "value", None)
                            found[key] = point.count if value is None else value
        return found

    yield SimpleNamespace(
        both=both,
        producer=ProducerSettings(call_timeout_s=30.0, send_timeout_s=60.0, **both),
        consumer=PushSettings(**both),
        tracer=tracers.get_tracer("test"),
        spans=exporter.get_finished_spans,
        points=points,
    )
    meters.shutdown()


def trace_parent(span):
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


async def test_connections_are_told_by_server_also_when_they_are_closed(world, seen):
    for _ in range(2):
        async with Producer(world.name_servers, settings=seen.producer) as producer:
            await producer.send(Message("orders", b"x"))
            open_now = seen.points("ariane.client.connections")
            begun = seen.points("ariane.client.calls.begun")
    # Of the whole process: other tests have clients, too.
    key = (("server.address", world.name_servers),)
    assert open_now[key] >= 1
    assert sum(open_now.values()) >= 2
    assert {name for [(name, _)] in open_now} == {"server.address"}
    assert seen.points("ariane.client.calls.begun")[key] >= begun[key] > 0
    assert sum(seen.points("ariane.client.sent").values()) > 0


async def test_a_send_is_a_span_whose_context_travels(world, seen):
    async with Producer(world.name_servers, settings=seen.producer) as producer:
        with seen.tracer.start_as_current_span("request") as outer:
            result = await producer.send(Message("orders", b"body", properties={"a": "b"}))
    [stored] = world.brokers["broker-a"].messages
    span = next(span for span in seen.spans() if span.name == "send orders")

    assert stored.properties["traceparent"] == trace_parent(span)
    assert stored.properties["a"] == "b"
    assert "tracestate" not in stored.properties
    assert span.kind is SpanKind.PRODUCER
    assert span.parent.span_id == outer.get_span_context().span_id
    attributes = dict(span.attributes)
    assert attributes.pop("messaging.client.id")
    host, port = world.brokers["broker-a"].address.split(":")
    assert attributes == {
        "messaging.system": "arianemq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": f"broker-a#{result.message_queue.queue_id}",
        "messaging.message.id": result.unique_id,
        "messaging.message.body.size": 4,
        "server.address": host,
        "server.port": int(port),
    }


async def test_a_context_that_the_application_gave_is_kept_and_linked(world, seen):
    with seen.tracer.start_as_current_span("create") as created:
        own = {"traceparent": trace_parent(created), "tracestate": "vendor=1"}
    async with Producer(world.name_servers, settings=seen.producer) as producer:
        await producer.send(Message("orders", b"x", properties=own))
    [stored] = world.brokers["broker-a"].messages
    span = next(span for span in seen.spans() if span.name == "send orders")

    assert {name: stored.properties[name] for name in own} == own
    assert [link.context.span_id for link in span.links] == [created.get_span_context().span_id]


async def test_failures_are_seen(world, seen, make_status):
    broker = world.brokers["broker-a"]
    settings = replace(seen.producer, call_timeout_s=0.5, send_timeout_s=1.0)
    async with Producer(world.name_servers, settings=settings) as producer:
        with pytest.raises(errors.MessageIllegal):
            await producer.send(Message("orders", b"x", tag="a||b"))
        broker.script.extend(["hang"] * 9)
        with pytest.raises(errors.SendError):
            await producer.send(Message("orders", b"x"))
        broker.script.clear()
    illegal, failed = seen.spans()

    assert illegal.status.status_code is StatusCode.ERROR
    assert illegal.attributes["error.type"] == "MESSAGE_ILLEGAL"
    assert failed.attributes["error.type"] == "DEADLINE_PASSED"


async def test_all_ways_to_send_are_seen(world, seen):
    async with Producer(world.name_servers, settings=seen.producer) as producer:
        await producer.send_nowait(Message("orders", b"1"))
        await producer.send_one_way(Message("orders", b"2"))
        await producer.send(Message("orders", b"3"), timeout_s=60)
        await producer.send_batch([Message("orders", b"4"), Message("orders", b"5")])
        cancelled = asyncio.ensure_future(producer.send(Message("orders", b"6")))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait([cancelled])
    stored = {m.body: m.properties["traceparent"] for m in world.brokers["broker-a"].messages}
    spans = {trace_parent(span): span for span in seen.spans()}

    stored.pop(b"6", None)  # It may have left before it was cancelled.
    assert len(set(stored.values())) == 4
    assert stored[b"4"] == stored[b"5"]
    assert spans[stored[b"4"]].attributes["messaging.batch.message_count"] == 2
    assert [span.attributes.get("error.type") for span in seen.spans()][-1] == "CancelledError"
    sent = seen.points("messaging.client.sent.messages")
    assert {dict(key).get("error.type"): count for key, count in sent.items()} == {
        None: 5,
        "CancelledError": 1,
    }
    assert sum(seen.points("messaging.client.operation.duration").values()) == 5


async def test_a_table_is_one_span_of_which_brokers_are_told(world, seen, monkeypatch):
    told = []
    parents_of = append_calls.trace_parents_of
    monkeypatch.setattr(
        append_calls, "trace_parents_of", lambda some: told.append(parents_of(some)) or told[-1]
    )
    table = pa.table({"body": [b"1", b"2", b"3"]})
    async with Producer(world.name_servers, settings=seen.producer) as producer:
        await producer.send_columns("orders", table)
        with pytest.raises(errors.ColumnIllegal):
            await producer.send_columns("orders", pa.table({"body": [None]}))
    sent, refused = seen.spans()
    assert (sent.name, sent.kind) == ("send orders", SpanKind.PRODUCER)
    assert sent.attributes["messaging.batch.message_count"] == 3
    assert {parent for each in told for parent in each} == {trace_parent(sent)}
    assert refused.attributes["error.type"] == "MESSAGE_ILLEGAL"
    stored = world.brokers["broker-a"].messages
    assert sorted(message.body for message in stored) == [b"1", b"2", b"3"]
    assert not any("traceparent" in message.properties for message in stored)
    counted = seen.points("messaging.client.sent.messages")
    assert {dict(key).get("error.type"): count for key, count in counted.items()} == {
        None: 3,
        "MESSAGE_ILLEGAL": 1,
    }


@pytest.mark.parametrize("plain", [False, True])
async def test_from_the_sender_to_the_listener(cluster, seen, plain):
    topic = f"traced-{next(_numbers)}"
    inner, done = [], asyncio.Event()
    loop = asyncio.get_running_loop()

    def hear(messages):
        with seen.tracer.start_as_current_span("inner") as span:
            inner.append(span)
        if len(inner) == 1:
            raise RuntimeError("once more")
        loop.call_soon_threadsafe(done.set)

    async def listen(messages):
        hear(messages)

    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic(topic)
    async with Producer(cluster.name_servers, settings=seen.producer) as producer:
        result = await producer.send(Message(topic, b"x"))
    async with PushConsumer(
        cluster.name_servers,
        group=f"traced-{topic}",
        subscriptions={topic: "*"},
        listener=hear if plain else listen,
        ordered=True,
        start="earliest",
        settings=replace(seen.consumer, suspend_s=0.02),
    ):
        await asyncio.wait_for(done.wait(), 60)
    spans = seen.spans()
    sent = next(span for span in spans if span.name == f"send {topic}")
    failed, processed = [span for span in spans if span.name == f"process {topic}"]

    for span, child in zip((failed, processed), inner, strict=True):
        assert span.kind is SpanKind.CONSUMER
        assert span.context.trace_id == sent.context.trace_id
        assert span.parent.span_id == sent.context.span_id
        assert [link.context.span_id for link in span.links] == [sent.context.span_id]
        assert child.parent.span_id == span.context.span_id
    assert failed.attributes["error.type"] == "RuntimeError"
    assert failed.status.status_code is StatusCode.ERROR
    attributes = dict(processed.attributes)
    assert attributes.pop("messaging.client.id")
    assert attributes == {
        "messaging.system": "arianemq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": sent.attributes["messaging.destination.partition.id"],
        "messaging.consumer.group.name": f"traced-{topic}",
        "messaging.message.id": result.unique_id,
        "messaging.message.body.size": 1,
    }
    assert sum(seen.points("messaging.client.consumed.messages").values()) == 2
    assert sum(seen.points("messaging.process.duration").values()) == 2


async def test_from_the_sender_to_a_listener_that_receives(cluster, seen):
    topic, done = f"traced-{next(_numbers)}", asyncio.Event()

    async def listen(message):
        done.set()

    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic(topic)
    async with Producer(cluster.name_servers, settings=seen.producer) as producer:
        await producer.send(Message(topic, b"x"))
    async with ReceiveConsumer(
        cluster.name_servers,
        group=f"traced-{topic}",
        subscriptions={topic: "*"},
        tracer_provider=seen.consumer.tracer_provider,
        meter_provider=seen.consumer.meter_provider,
    ) as consumer:
        listening = asyncio.create_task(consumer.listen(listen))
        async with asyncio.timeout(60):
            await done.wait()
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
    sent = next(span for span in seen.spans() if span.name == f"send {topic}")
    [processed] = [span for span in seen.spans() if span.name == f"process {topic}"]
    assert processed.context.trace_id == sent.context.trace_id


async def test_from_the_sender_to_who_polls(cluster, seen):
    topic = f"traced-{next(_numbers)}"
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic(topic, queue_count=1)
    async with Producer(cluster.name_servers, settings=seen.producer) as producer:
        result = await producer.send(Message(topic, b"x"))
    async with PullConsumer(
        cluster.name_servers,
        group=f"traced-{topic}",
        subscriptions={topic: "*"},
        start="earliest",
        settings=PullSettings(**seen.both),
    ) as consumer:
        assert len(await consumer.poll(timeout_s=60)) == 1
        assert await consumer.poll(timeout_s=0) == []  # Nothing came: that is not told.
    sent = next(span for span in seen.spans() if span.name == f"send {topic}")
    [polled] = [span for span in seen.spans() if span.name.startswith("poll")]

    assert polled.name == f"poll {topic}"
    assert polled.kind is SpanKind.CLIENT
    assert polled.context.trace_id == sent.context.trace_id
    assert polled.parent.span_id == sent.context.span_id
    assert [link.context.span_id for link in polled.links] == [sent.context.span_id]
    attributes = dict(polled.attributes)
    assert attributes.pop("messaging.client.id")
    assert attributes == {
        "messaging.system": "arianemq",
        "messaging.operation.name": "poll",
        "messaging.operation.type": "receive",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": sent.attributes["messaging.destination.partition.id"],
        "messaging.consumer.group.name": f"traced-{topic}",
        "messaging.message.id": result.unique_id,
        "messaging.message.body.size": 1,
    }
    assert sum(seen.points("messaging.client.consumed.messages").values()) == 1
    operations = seen.points("messaging.client.operation.duration")
    assert [dict(key)["messaging.operation.name"] for key in operations].count("poll") == 1


async def test_each_batch_of_columns_is_a_poll(cluster, seen):
    topic = f"traced-{next(_numbers)}"
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic(topic, queue_count=1)
    async with Producer(cluster.name_servers) as producer:
        await producer.send_batch([Message(topic, b"x"), Message(topic, b"y")])
    async with PullConsumer(
        cluster.name_servers,
        group=f"traced-{topic}",
        subscriptions={topic: "*"},
        start="earliest",
        column_names=["body"],
        settings=PullSettings(**seen.both),
    ) as consumer:
        rows = 0
        async for batch in consumer.columns():
            rows += batch.num_rows
            if rows == 2:
                break
    polls = [span for span in seen.spans() if span.name == f"poll {topic}"]
    assert sum(span.attributes["messaging.batch.message_count"] for span in polls) == 2
    assert {span.kind for span in polls} == {SpanKind.CLIENT}
    assert {span.attributes["messaging.consumer.group.name"] for span in polls} == {
        f"traced-{topic}"
    }
    assert sum(seen.points("messaging.client.consumed.messages").values()) == 2


async def test_several_messages_are_linked(seen):
    telemetry = _telemetry.Telemetry.configured(
        seen.producer.tracer_provider, seen.producer.meter_provider, client_id="c"
    )
    parents = []
    for _ in range(2):
        with seen.tracer.start_as_current_span("sent") as span:
            parents.append(span)
    properties = [{"traceparent": trace_parent(span)} for span in parents]
    properties += [{}, {"traceparent": "nonsense"}]
    queue = SimpleNamespace(broker_name="b", queue_id=3)
    messages = [SimpleNamespace(topic="t", message_queue=queue, properties=p) for p in properties]

    telemetry.traced(lambda _: None, "g")(messages)
    [process] = [span for span in seen.spans() if span.name == "process t"]

    assert [link.context.span_id for link in process.links] == [
        span.get_span_context().span_id for span in parents
    ]
    assert process.parent is None
    assert process.attributes["messaging.batch.message_count"] == 4


def test_names_are_those_of_the_conventions():
    conventions = {
        value
        for module in (
            messaging_attributes,
            messaging_metrics,
            error_attributes,
            server_attributes,
        )
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str)
    }
    own = {
        value
        for name, value in vars(messaging_names).items()
        if name.isupper() and isinstance(value, str) and "." in value
    }

    assert own <= conventions
    assert len(own) == 18


async def test_nothing_is_measured_unless_configured(world):
    async with Producer(world.name_servers) as producer:
        await producer.send(Message("orders", b"x"))
        assert producer._telemetry is None
    [stored] = world.brokers["broker-a"].messages

    assert "traceparent" not in stored.properties


def test_the_library_is_not_even_loaded():
    script = """
import asyncio, sys
from ariane_sdk import Message, Producer
from ariane_sdk.client.telemetry import Telemetry

assert Telemetry.configured(None, None, client_id="c") is None
assert not any(name.startswith("opentelemetry") for name in sys.modules), "loaded"

import opentelemetry.trace
assert Telemetry.configured(None, None, client_id="c") is None, "nobody has configured it"

from opentelemetry.sdk.trace import TracerProvider
opentelemetry.trace.set_tracer_provider(TracerProvider())
assert Telemetry.configured(None, None, client_id="c") is not None
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


async def test_a_batch_that_is_not_sampled_is_sent_as_it_is(world, seen):
    tracers = TracerProvider(sampler=ALWAYS_OFF)
    settings = replace(seen.producer, tracer_provider=tracers)
    async with Producer(world.name_servers, settings=settings) as producer:
        await producer.send_batch([Message("orders", b"1"), Message("orders", b"2")])
    stored = world.brokers["broker-a"].messages

    assert sorted(message.body for message in stored) == [b"1", b"2"]
    assert not any("traceparent" in message.properties for message in stored)


def test_a_call_that_is_not_sampled_reads_no_message_but_its_first():
    class Unread(SimpleNamespace):
        @property
        def properties(self):
            raise AssertionError("decoded for nobody")

    queue = SimpleNamespace(broker_name="broker-a", queue_id=0)
    messages = [Unread(topic="orders", message_queue=queue) for _ in range(3)]
    measured = _telemetry.Telemetry(
        TracerProvider(sampler=ALWAYS_OFF), MeterProvider(), client_id="client"
    )
    heard = []

    measured.traced(heard.extend, "billing")(messages)

    assert heard == messages
