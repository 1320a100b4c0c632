"""All rows of a call travel as one table, whatever their messages are; each is answered."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import grpc
import numpy as np
import pyarrow as pa
import pytest

from ariane_record.single.recall_handle import decode_recall_handle
from ariane_sdk import AcknowledgedLevel, Message, Producer, ProducerSettings, errors

ROWS = pa.table({"body": pa.array([b"x", b"y"])})
TOPICS = [f"topic-{number}" for number in range(20)]
SETTINGS = ProducerSettings(
    call_timeout_s=60.0, send_timeout_s=120.0, repeat_delay_s_min=0.01, repeat_delay_s_max=0.01
)


async def sent(producer, broker, bodies):
    """Send a message of a group to each topic, all in one call; the outcomes."""
    gate = asyncio.Event()
    broker.script.appendleft(gate)
    first = producer.send_nowait(Message("topic-0", b"first"))
    await broker.wait_called(1)
    futures = [
        producer.send_nowait(Message(topic, body, message_group=topic, keys=("k",)))
        for topic, body in zip(TOPICS, bodies, strict=True)
    ]
    gate.set()
    await first
    return await asyncio.gather(*futures, return_exceptions=True)


@pytest.fixture
async def broker(many):
    return many.brokers["broker-a"]


@pytest.fixture
async def producer(many):
    async with Producer(many.name_servers, settings=SETTINGS) as producer:
        for topic in TOPICS:
            await producer.route(topic)
        yield producer


async def test_all_rows_of_a_call_are_one_table(producer, broker):
    bodies = [b"%d" % number for number in range(20)]
    outcomes = await sent(producer, broker, bodies)
    assert len(broker.calls) == 2
    for topic, body, outcome in zip(TOPICS, bodies, outcomes, strict=True):
        queue = broker.queues[topic, outcome.message_queue.queue_id]
        assert queue[outcome.queue_offset].body == body
        assert queue[outcome.queue_offset].properties["KEYS"] == "k"


async def test_of_a_table_with_one_that_is_refused_the_others_are_stored(
    producer, broker, make_status
):
    refused = make_status(grpc.StatusCode.PERMISSION_DENIED, "ACCESS_DENIED")
    broker.script.append([refused, *[None] * 19])
    outcomes = await sent(producer, broker, [b"x"] * 20)
    failed = [outcome for outcome in outcomes if isinstance(outcome, errors.SendError)]
    assert [error.reason for error in failed] == ["ACCESS_DENIED"]
    assert len(broker.messages) == 1 + 19


@pytest.mark.parametrize("idempotent", [False, True])
async def test_rows_that_come_encoded_share_a_table_with_others(many, broker, idempotent):
    """Also those of few records, which have no checksums of their own."""
    settings = replace(SETTINGS, idempotent=idempotent)
    answer = asyncio.Event()
    async with Producer(many.name_servers, settings=settings) as producer:
        for topic in TOPICS[:4]:
            await producer.route(topic)
        broker.script.append(answer)
        first = producer.send_nowait(Message("topic-0", b"first"))
        await broker.wait_called(1)
        sends = [
            asyncio.create_task(
                producer.send_batch([Message("topic-1", b"%d" % n) for n in range(count)])
            )
            for count in (64, 400)
        ]
        sends.append(asyncio.create_task(producer.send_columns("topic-2", ROWS)))
        await asyncio.sleep(0.05)
        late = producer.send_nowait(Message("topic-3", b"late", keys=("k",)))
        answer.set()
        few, many_results, places = await asyncio.gather(*sends)
        result = await late
        await first
    stored = {each.unique_id: each for each in broker.messages}
    for number, each in [*enumerate(few), *enumerate(many_results)]:
        assert stored[each.unique_id].body == b"%d" % number
    assert [stored[each].body for each in places["messageId"].to_pylist()] == [b"x", b"y"]
    assert stored[result.unique_id].keys == ("k",)


async def test_each_row_has_its_delay_and_its_demand(producer, broker):
    answer = asyncio.Event()
    broker.script.append(answer)
    first = producer.send_nowait(Message("topic-0", b"first"))
    await broker.wait_called(1)
    safe = {"level": AcknowledgedLevel.REPLICATED, "in_sync_min": 3}
    noon = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    sends = [
        asyncio.create_task(producer.send(message, **more))
        for message, more in (
            (Message("topic-0", b"now"), {}),
            (Message("topic-0", b"level", delay_level=3), {}),
            (Message("topic-0", b"noon", deliver_at=noon), {}),
            (Message("topic-0", b"after", delay=timedelta(seconds=2)), {}),
            (Message("topic-0", b"safe"), safe),
        )
    ]
    await asyncio.sleep(0.01)
    answer.set()
    results = dict(
        zip(("now", "level", "noon", "after", "safe"), await asyncio.gather(*sends), strict=True)
    )
    await first
    said = {}
    for batch in (batch for call in broker.calls[1:] for batch in call.rows):
        (body,) = (name for name in results if name.encode() in batch.records)
        times = tuple(
            np.frombuffer(column, "<i8").tolist()
            for column in (batch.delivery_times_ms, batch.delays_ms)
        )
        said[body] = (batch.delay_level, *times, batch.required_level, batch.in_sync_min)
    noon_ms = int(noon.timestamp() * 1000)
    assert said == {
        "now": (0, [], [], 0, 0),
        "level": (3, [], [], 0, 0),
        "noon": (0, [noon_ms], [], 0, 0),
        "after": (0, [], [2000], 0, 0),
        "safe": (0, [], [], 3, 3),
    }
    assert decode_recall_handle(results["noon"].recall_handle).delivery_time_ms == noon_ms
    assert [name for name, each in results.items() if each.recall_handle] == ["noon", "after"]
