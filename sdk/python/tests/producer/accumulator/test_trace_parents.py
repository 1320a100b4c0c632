"""Which spans a broker is told of, and that it is told of none where nobody traces."""

from types import SimpleNamespace

import pytest

from ariane_sdk import Message, ProducerSettings, errors
from ariane_sdk.client import span_export
from ariane_sdk.producer.sending.table_wire import note_span, trace_parents_of


def trace_parent(number, flags="01"):
    return f"00-{'a' * 32}-{number:016x}-{flags}"


def noted(*trace_parents):
    batch = SimpleNamespace(trace_parents=())
    for text in trace_parents:
        note_span(batch, Message("orders", b"", properties={"traceparent": text}))
    return batch


def test_a_broker_is_told_of_a_few_sampled_spans():
    first = noted(trace_parent(1), trace_parent(1), trace_parent(2, "00"), "short", "é" * 53 + "01")
    many = noted(*(trace_parent(number) for number in range(1, 40)))
    note_span(first, Message("orders", b"", properties={"colour": "red"}))

    assert first.trace_parents == (trace_parent(1),)
    assert trace_parents_of([noted(), first, many]) == [
        trace_parent(number) for number in range(1, 17)
    ]
    assert trace_parents_of([noted(), noted()]) == []


def test_an_endpoint_that_cannot_be_is_refused():
    with pytest.raises(errors.IllegalArgument, match="http://host:port"):
        span_export.span_provider("collector:4317")


def test_missing_libraries_are_named(monkeypatch):
    monkeypatch.setitem(
        __import__("sys").modules, "opentelemetry.exporter.otlp.proto.grpc.trace_exporter", None
    )
    with pytest.raises(errors.IllegalArgument, match=r"ariane-sdk\[otlp\]"):
        span_export.span_provider("http://collector:1")


def test_off_is_the_default():
    assert ProducerSettings().otlp_endpoint == ""
