"""Taking delayed messages back: delivered or recalled, never both, whatever happens."""

import asyncio
import time

import pytest

from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.common.v1.message_pb2 import Message
from ariane_record.single.recall_handle import RecallHandle, decode_recall_handle


def now_ms():
    return time.time_ns() // 1_000_000


async def send(broker, body, time_ms, **fields):
    message = Message(body=body, **fields)
    message.delivery_time.FromMilliseconds(time_ms)
    request = send_pb.SendMessagesRequest(topic="orders", queue_id=0, messages=[message])
    (sent,) = (await broker.sends.SendMessages(request)).messages
    return sent


def recall_call(broker, handle, topic="orders"):
    request = send_pb.RecallMessageRequest(topic=topic, recall_handle=handle)
    return broker.sends.RecallMessage(request)


async def arrived(broker, count):
    async with asyncio.timeout(60):
        while True:
            bodies = await broker.bodies("orders")
            if len(bodies) >= count:
                return bodies
            await asyncio.sleep(0.02)


@pytest.fixture(params=["async", "sync"])
async def orders(clock, running, request):
    async with running(flush_mode=request.param) as broker:
        await broker.create_topic("orders")
        yield broker


async def test_a_recalled_message_does_not_come(orders, clock, crashed):
    due = now_ms() + 60_000
    kept, gone = [await send(orders, body, due) for body in (b"kept", b"gone")]
    answer = await recall_call(orders, gone.recall_handle)
    assert answer.unique_id == gone.unique_id != kept.unique_id
    async with crashed() as survivor:
        clock.advance(60)
        assert await arrived(survivor, 1) == [b"kept"]
        await asyncio.sleep(0.2)
        assert await survivor.bodies("orders") == [b"kept"]
        assert (await recall_call(survivor, gone.recall_handle)).unique_id == gone.unique_id
    assert await arrived(orders, 1) == [b"kept"]


async def test_a_message_is_recalled_as_often_as_one_likes(orders):
    sent = await send(orders, b"a", now_ms() + 60_000)
    for _ in range(3):
        assert (await recall_call(orders, sent.recall_handle)).unique_id == sent.unique_id


async def test_a_delivered_message_stays_so(orders, refused):
    sent = await send(orders, b"a", now_ms())
    await arrived(orders, 1)
    for _ in range(2):
        failure = await refused(recall_call(orders, sent.recall_handle))
        assert failure.reason == "RECEIPT_HANDLE_EXPIRED"


async def test_recall_and_delivery_at_once_agree(orders, refused):
    # The first surely not yet, the last surely already.
    waits = [60_000, *[300] * 38, 0]
    sent = [await send(orders, b"%d" % n, now_ms() + wait) for n, wait in enumerate(waits)]
    await arrived(orders, 1)
    recalled = set()
    for number, message in enumerate(sent):
        await asyncio.sleep(0.012)
        try:
            await recall_call(orders, message.recall_handle)
            recalled.add(b"%d" % number)
        except Exception as error:  # noqa: BLE001 - the other of the two answers.
            assert "delivered" in str(error)  # noqa: PT017 - either is right.
    delivered = await arrived(orders, 40 - len(recalled))
    assert recalled
    assert delivered
    assert recalled.isdisjoint(delivered)
    assert len(recalled) + len(delivered) == 40


@pytest.mark.parametrize("stop", ["clean", "killed"])
async def test_a_recall_holds_over_a_restart(running, crashed, clock, stop):
    async with running(producer_save_s=1000) as broker:
        await broker.create_topic("orders")
        gone = await send(broker, b"gone", now_ms() + 60_000)
        await send(broker, b"kept", now_ms() + 60_001)
        await recall_call(broker, gone.recall_handle)
        if stop == "killed":
            async with crashed() as survivor:
                clock.advance(61)
                assert await arrived(survivor, 1) == [b"kept"]
            return
    clock.advance(61)
    async with running() as broker:
        assert await arrived(broker, 1) == [b"kept"]


async def test_the_time_in_a_handle_is_for_people(orders, clock):
    """A producer that asks for a delay only knows about when the message is due."""
    kept, gone = [await send(orders, body, now_ms() + 60_000) for body in (b"kept", b"gone")]
    handle = decode_recall_handle(gone.recall_handle)._replace(delivery_time_ms=5).encode()
    assert (await recall_call(orders, handle)).unique_id == gone.unique_id != kept.unique_id
    clock.advance(61)
    assert await arrived(orders, 1) == [b"kept"]


async def test_handles_that_name_nothing(orders, refused):
    sent = await send(orders, b"a", now_ms() + 60_000)
    named = decode_recall_handle(sent.recall_handle)
    for changed, reason in (
        ({"unique_id": "other"}, "MESSAGE_NOT_FOUND"),
        ({"broker_name": "other"}, "FIELD_INVALID"),
        ({"topic": "other"}, "FIELD_INVALID"),
    ):
        handle = RecallHandle(**(named._asdict() | changed)).encode()
        assert (await refused(recall_call(orders, handle))).reason == reason
    for handle in ("", "x", "\N{SNOWMAN}", "djIgYSBiIDEgYw==", "a" * 5000):
        assert (await refused(recall_call(orders, handle))).reason == "FIELD_INVALID"
