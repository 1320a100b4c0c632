"""Spans of appends, as a real collector is told them."""

import asyncio

import pytest

from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.common.v1 import message_pb2 as message_pb
from ariane_testkit.append_rows import rows_request
from ariane_testkit.otlp_receiver import otlp_receiver


@pytest.fixture
def receiver():
    with otlp_receiver() as receiver:
        yield receiver


def trace_parent(trace, span, flags="01"):
    return f"00-{trace * 32}-{span * 16}-{flags}"


async def told(receiver, name):
    return await asyncio.to_thread(receiver.wait_for, lambda span: span.name == name)


async def test_a_call_is_a_child_of_the_first_span_and_linked_to_others(running, receiver):
    async with running(otlp_endpoint=receiver.endpoint, flush_mode="sync") as broker:
        await broker.create_topic("orders", 2)
        request = rows_request(
            [broker.batch("orders", [b"1", b"2"]), broker.batch("orders", [b"3"], 1)],
            trace_parents=[
                trace_parent("a", "0", "01"),  # No span has this id.
                trace_parent("b", "1", "00"),
                trace_parent("c", "2"),
                "whatever",
                trace_parent("d", "3"),
            ],
        )
        await broker.sends.AppendRecords(request)
    span = await told(receiver, "append orders")

    assert (span.service, span.trace_id, span.parent_id) == ("broker", "c" * 32, "2" * 16)
    assert span.links == ("3" * 16,)
    assert span.attributes["messaging.destination.name"] == "orders"
    assert span.attributes["ariane.batch_count"] == 2
    assert "error.type" not in span.attributes


async def test_plain_messages_say_it_in_a_property(running, receiver):
    async with running(otlp_endpoint=receiver.endpoint) as broker:
        await broker.create_topic("orders")
        messages = [
            message_pb.Message(body=b"1", properties={"traceparent": trace_parent("a", "1")}),
            message_pb.Message(body=b"2"),
        ]
        await broker.sends.SendMessages(
            send_pb.SendMessagesRequest(topic="orders", messages=messages)
        )
    span = await told(receiver, "append orders")

    assert (span.trace_id, span.parent_id) == ("a" * 32, "1" * 16)


async def test_the_span_of_a_refused_append_names_the_error(running, receiver):
    async with running(otlp_endpoint=receiver.endpoint, auto_create_topics=False) as broker:
        request = rows_request([broker.batch("nowhere", [b"1"])], [trace_parent("a", "1")])
        (row,) = (await broker.sends.AppendRecords(request)).table_result.rows
        assert row.HasField("error")
    span = await told(receiver, "append nowhere")

    assert span.attributes["error.type"] == "TOPIC_NOT_FOUND"


async def test_unsampled_spans_are_not_reported(running, receiver):
    async with running(otlp_endpoint=receiver.endpoint) as broker:
        await broker.create_topic("orders")
        for trace_parents in ([], [trace_parent("a", "1", "00")], [trace_parent("b", "2")]):
            request = rows_request([broker.batch("orders", [b"1"])], trace_parents)
            await broker.sends.AppendRecords(request)
    # The broker has told all it had when it stopped.
    assert [span.parent_id for span in receiver.spans] == ["2" * 16]
