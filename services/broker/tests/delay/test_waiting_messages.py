"""Which single messages wait for their time: listed by topic, page by page."""

import asyncio
import json
import time
from base64 import urlsafe_b64encode

import numpy as np

from ariane.broker.v1 import query_service_pb2 as query_pb
from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.common.v1.message_pb2 import Message
from ariane_broker.delay import waiting_messages

HOUR_MS = 3_600_000


def now_ms():
    return time.time_ns() // 1_000_000


def times(*waits_ms):
    return np.array([now_ms() + wait_ms for wait_ms in waits_ms], "<i8").tobytes()


async def send(broker, topic, due_ms, **fields):
    message = Message(body=b"later", **fields)
    message.delivery_time.FromMilliseconds(due_ms)
    request = send_pb.SendMessagesRequest(topic=topic, queue_id=0, messages=[message])
    (sent,) = (await broker.sends.SendMessages(request)).messages
    return sent


async def waiting(broker, topic, page_size=0):
    """All that waits, and in how many pages it came."""
    found, pages, token = [], 0, ""
    while token or not pages:
        request = query_pb.ListDelayedMessagesRequest(
            topic=topic, page_size=page_size, page_token=token
        )
        page = await broker.queries.ListDelayedMessages(request)
        found += page.messages
        pages, token = pages + 1, page.next_page_token
    return found, pages


async def test_a_delayed_message_is_listed_until_it_is_delivered_or_recalled(running, clock):
    async with running() as broker:
        for topic in ("orders", "others"):
            await broker.create_topic(topic)
        due_ms = now_ms() + HOUR_MS
        sent = await send(broker, "orders", due_ms, tag="eu", keys=["k1", "k2"])
        gone = await send(broker, "orders", due_ms)
        soon = await send(broker, "orders", now_ms() + 500)
        await send(broker, "others", due_ms)
        await broker.store("orders", [b"a", b"b"], delay_level=18)

        (first, _, third, *levels), _ = await waiting(broker, "orders")

        assert (first.unique_id, first.tag, first.keys) == (sent.unique_id, "eu", ["k1", "k2"])
        assert first.delivery_time.ToMilliseconds() == due_ms
        assert abs(first.store_time.ToMilliseconds() - now_ms()) < 60_000
        assert (first.body_bytes, first.delay_level) == (5, 0)
        assert first.recall_handle == sent.recall_handle
        assert third.unique_id == soon.unique_id
        assert [(each.delay_level, each.recall_handle) for each in levels] == [(18, "")] * 2
        assert all(0 < each.delivery_time.seconds - time.time() <= 7200 for each in levels)
        recall = send_pb.RecallMessageRequest(topic="orders", recall_handle=gone.recall_handle)
        await broker.sends.RecallMessage(recall)
        clock.advance(1)
        async with asyncio.timeout(60):
            while not await broker.bodies("orders"):  # noqa: ASYNC110 - it is not ours to wake us
                await asyncio.sleep(0.02)
        left, _ = await waiting(broker, "orders")
        assert [each.unique_id for each in left[:1]] == [sent.unique_id]
        assert [each.delay_level for each in left] == [0, 18, 18]
    async with running() as broker:
        assert (await waiting(broker, "orders"))[0] == left


async def test_pages_lose_nothing_wherever_they_end(running, monkeypatch):
    monkeypatch.setattr(waiting_messages, "LOOK_COUNT", 7)
    monkeypatch.setattr(waiting_messages, "SLICE_COUNT", 5)
    monkeypatch.setattr(waiting_messages, "SLICES_MAX", 2)
    async with running() as broker:
        for topic in ("orders", "others"):
            await broker.create_topic(topic)
        for topic in ("others", "orders", "others"):
            await broker.store(topic, [b"x"] * 30, delivery_times_ms=times(*[HOUR_MS] * 30))
        await broker.store("orders", [b"y"] * 12, delay_level=17)
        for page_size in (1, 3, 5, 1000):
            found, pages = await waiting(broker, "orders", page_size)
            assert [each.delay_level for each in found] == [0] * 30 + [17] * 12
            assert pages >= max(9, 42 // page_size)
        assert await waiting(broker, "orders", 3) != await waiting(broker, "others", 3)


def token(*place):
    return urlsafe_b64encode(json.dumps(["delayed:orders", *place]).encode()).decode()


async def test_topics_and_tokens_that_make_no_sense(running, refused):
    async with running() as broker:
        await broker.create_topic("orders")
        for reason, fields in (
            ("TOPIC_NOT_FOUND", {"topic": "none"}),
            ("TOPIC_RESERVED", {"topic": "SCHEDULE_TOPIC_XXXX"}),
            ("PAGE_TOKEN_INVALID", {"topic": "orders", "page_token": "x"}),
            ("FIELD_INVALID", {"topic": "orders", "page_size": 1001}),
        ):
            request = query_pb.ListDelayedMessagesRequest(**fields)
            assert (await refused(broker.queries.ListDelayedMessages(request))).reason == reason
        await broker.store("orders", [b"x"], delivery_times_ms=times(HOUR_MS))
        # Tokens of one's own making lead nowhere, or to what waits.
        for place, count in (((0, -1), 1), ((-1, 9), 1), ((0, 1 << 80), 0), ((1 << 80, 0), 0)):
            request = query_pb.ListDelayedMessagesRequest(topic="orders", page_token=token(*place))
            assert len((await broker.queries.ListDelayedMessages(request)).messages) == count
