"""Spans of sends, as a real collector is told them."""

import asyncio

import pytest

from apache.rocketmq.v2 import definition_pb2 as dp
from ariane_testkit.otlp_receiver import otlp_receiver


def trace_parent(trace, span, flags="01"):
    return f"00-{trace * 32}-{span * 16}-{flags}"


@pytest.fixture
def receiver(monkeypatch):
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    with otlp_receiver() as receiver:
        yield receiver


async def test_a_send_is_a_child_of_the_span_that_its_client_names(
    receiver, start_gateway, connect, ariane_topic
):
    address, _ = await start_gateway(otlp_endpoint=receiver.endpoint)
    client = connect(address)
    for parent in ("", trace_parent("a", "1", "00"), "whatever"):
        await client.send(ariane_topic, b"unsampled", trace_context=parent)
    await client.send(ariane_topic, b"sampled", trace_context=trace_parent("b", "2"))
    wrong = client.message(
        ariane_topic, b"refused", trace_context=trace_parent("c", "3"), tag="a|b"
    )
    refused = await client.send_messages(wrong)
    named = {"b" * 32: "2" * 16, "c" * 32: "3" * 16}
    spans = {}
    for trace_id, parent_id in named.items():
        span = await asyncio.to_thread(
            receiver.wait_for, lambda span, wanted=trace_id: span.trace_id == wanted
        )
        assert (span.service, span.name) == ("gateway", f"send {ariane_topic}")
        assert span.parent_id == parent_id
        spans[trace_id] = span.attributes
    assert "error.type" not in spans["b" * 32]
    assert spans["c" * 32]["error.type"] == dp.Code.Name(refused.status.code)
    assert not [span for span in receiver.spans if span.trace_id not in named]
