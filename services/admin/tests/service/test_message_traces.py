"""The life of a message: told by clients, found by admin, the command line and the console."""

import asyncio
from datetime import timedelta

import httpx
import pytest

from ariane.admin.v1 import message_service_pb2 as message_pb
from ariane.admin.v1.message_service_pb2_grpc import MessageServiceStub
from ariane_sdk import (
    ClusterClient,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushSettings,
    ReceiveConsumer,
)

SEND = message_pb.MESSAGE_TRACE_KIND_SEND
CONSUME = message_pb.MESSAGE_TRACE_KIND_CONSUME
END = message_pb.MESSAGE_TRACE_KIND_END_TRANSACTION
RECALL = message_pb.MESSAGE_TRACE_KIND_RECALL


@pytest.fixture
def traces_of(admin):
    """Ask until so many steps of a message are told."""
    stub = MessageServiceStub(admin)

    async def ask(unique_id, count):
        request = message_pb.ListMessageTracesRequest(unique_id=unique_id)
        async with asyncio.timeout(120):
            while True:
                traces = (await stub.ListMessageTraces(request)).traces
                if len(traces) >= count:
                    return traces
                await asyncio.sleep(0.05)

    return ask


@pytest.fixture
async def producer(cluster):
    settings = ProducerSettings(message_trace=True)
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic("adm-traced", queue_count=1, exists_ok=True)
        async with Producer(cluster.name_servers, group="tracers", settings=settings) as producer:
            yield producer
        await client.delete_topic("adm-traced", missing_ok=True)


async def test_the_life_of_a_message_is_told(cluster, admin, producer, traces_of):
    trace_parent = f"00-{'a' * 32}-{'1' * 16}-00"
    message = Message("adm-traced", b"x", keys=["k"], properties={"traceparent": trace_parent})
    [sent, _] = await producer.send_batch([message, Message("adm-traced", b"y")])
    heard = []
    done = asyncio.Event()

    def listen(messages):
        heard.extend(message.unique_id for message in messages)
        if heard.count(sent.unique_id) == 1:
            raise RuntimeError("once more")
        loop.call_soon_threadsafe(done.set)

    loop = asyncio.get_running_loop()
    async with PushConsumer(
        cluster.name_servers,
        group="adm-traced-readers",
        subscriptions={"adm-traced": "*"},
        listener=listen,
        ordered=True,
        start="earliest",
        settings=PushSettings(message_trace=True, suspend_s=0.05),
    ):
        await asyncio.wait_for(done.wait(), 120)
    told = await traces_of(sent.unique_id, 3)

    assert [trace.kind for trace in told] == [SEND, CONSUME, CONSUME]
    assert [trace.successful for trace in told] == [True, False, True]
    assert [trace.group for trace in told] == ["tracers", *["adm-traced-readers"] * 2]
    assert all(trace.HasField("duration") and trace.client_id for trace in told)
    assert {trace.trace_id for trace in told} == {"a" * 32}
    async with httpx.AsyncClient(base_url=admin.console_url, timeout=60) as browser:
        page = await browser.get("/traces", params={"unique_id": sent.unique_id})
    assert page.text.count("consumed") == 2
    assert "a" * 32 in page.text


async def test_what_a_receiving_listener_gets_is_told(cluster, ariane, producer, traces_of):
    again_soon = ("group", "retry", "adm-traced-takers", "--waits", "50ms")
    await asyncio.to_thread(ariane, *again_soon)
    sent = await producer.send(Message("adm-traced", b"x"))
    heard, done = [], asyncio.Event()

    async def listen(message):
        if message.unique_id == sent.unique_id:
            heard.append(message)
            if len(heard) == 1:
                raise RuntimeError("once more")
            done.set()

    async with ReceiveConsumer(
        cluster.name_servers,
        group="adm-traced-takers",
        subscriptions={"adm-traced": "*"},
        message_trace=True,
    ) as consumer:
        listening = asyncio.create_task(consumer.listen(listen))
        async with asyncio.timeout(120):
            await done.wait()
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
    told = await traces_of(sent.unique_id, 3)
    assert [trace.kind for trace in told] == [SEND, CONSUME, CONSUME]
    assert [trace.group for trace in told][1:] == ["adm-traced-takers"] * 2
    assert told[1].successful is False


async def test_the_end_of_a_transaction_and_a_recall_are_told(producer, traces_of):
    half = await producer.send_half(Message("adm-traced", b"x"))
    await producer.rollback(half)
    waiting = await producer.send(Message("adm-traced", b"later", delay=timedelta(minutes=10)))
    assert await producer.recall(waiting.recall_handle)

    told = await traces_of(half.transaction_id, 2)
    assert [trace.kind for trace in told] == [SEND, END]
    told = await traces_of(waiting.unique_id, 2)
    assert [trace.kind for trace in told] == [SEND, RECALL]


async def test_nothing_is_told_by_default(cluster, admin, producer):
    async with Producer(cluster.name_servers) as silent:
        sent = await silent.send(Message("adm-traced", b"x"))
    request = message_pb.ListMessageTracesRequest(unique_id=sent.unique_id)
    assert not (await MessageServiceStub(admin).ListMessageTraces(request)).traces
