"""Calls in flight to one broker: each is answered, fails and is repeated by itself."""

import asyncio
from collections import Counter

import grpc
import pytest

from ariane_sdk import Message, MessageQueue, Producer, ProducerSettings, errors

QUICK = ProducerSettings(
    call_timeout_s=1, send_timeout_s=60, repeat_delay_s_min=0.01, repeat_delay_s_max=0.05
)
PATIENT = ProducerSettings(call_timeout_s=60, send_timeout_s=60, calls_in_flight_max=4)


async def send_to(producer, queue_id, body):
    queue = MessageQueue("orders", "broker-a", queue_id)
    return await producer.send(Message("orders", body), message_queue=queue)


async def test_answers_may_overtake_one_another(world):
    broker = world.brokers["broker-a"]
    gate = asyncio.Event()
    broker.script.append(gate)
    async with Producer(world.name_servers, settings=PATIENT) as producer:
        slow = asyncio.create_task(send_to(producer, 0, b"slow"))
        await broker.wait_called(1)
        await send_to(producer, 1, b"fast")
        assert not slow.done()
        gate.set()
        await slow


@pytest.mark.parametrize("idempotent", [True, False])
async def test_of_an_ordered_queue_one_batch_is_in_flight_at_a_time(world, idempotent):
    broker = world.brokers["broker-a"]
    gate = asyncio.Event()
    broker.script.append(gate)
    settings = ProducerSettings(
        call_timeout_s=60, send_timeout_s=60, calls_in_flight_max=4, idempotent=idempotent
    )
    async with Producer(world.name_servers, settings=settings) as producer:
        first = asyncio.create_task(send_to(producer, 0, b"first"))
        await broker.wait_called(1)
        second = asyncio.create_task(send_to(producer, 0, b"second"))
        await send_to(producer, 1, b"elsewhere")
        assert len(broker.calls) == 2
        assert not second.done()
        gate.set()
        await asyncio.gather(first, second)
    assert [message.body for message in broker.queues["orders", 0]] == [b"first", b"second"]


async def test_a_call_without_an_answer_is_repeated(world):
    broker = world.brokers["broker-a"]
    broker.script.append("store and hang")
    async with Producer(world.name_servers, settings=QUICK) as producer:
        await producer.send(Message("orders", b"one"))
        await producer.send(Message("orders", b"two"))
    # The scripted broker knows no numbers: a real one stores the repeat once.
    assert set(broker.bodies) == {b"one", b"two"}


async def test_a_call_that_breaks_leaves_those_beside_it_alone(world):
    broker = world.brokers["broker-a"]
    gate = asyncio.Event()
    broker.script.extend([gate, grpc.StatusCode.UNAVAILABLE])
    async with Producer(world.name_servers, settings=PATIENT) as producer:
        held = asyncio.create_task(send_to(producer, 0, b"held"))
        await broker.wait_called(1)
        await send_to(producer, 1, b"breaks")
        gate.set()
        await held
    travels = Counter(
        (batch.queue_id, batch.sequence.first_sequence)
        for call in broker.calls
        for batch in call.rows
    )
    # The broken one was repeated under its number.
    assert travels == {(0, 0): 1, (1, 0): 2}


async def test_a_call_that_is_refused_for_good_fails_its_sends(world):
    broker = world.brokers["broker-a"]
    broker.script.append(grpc.StatusCode.PERMISSION_DENIED)
    async with Producer(world.name_servers, settings=PATIENT) as producer:
        with pytest.raises(errors.SendError) as caught:
            await producer.send(Message("orders", b"one"))
        assert not caught.value.outcome_unknown
        await producer.send(Message("orders", b"two"))
    assert broker.bodies == [b"two"]


async def test_a_call_that_is_too_large_fails_alone(world):
    broker = world.brokers["broker-a"]
    gate = asyncio.Event()
    broker.script.append(gate)
    huge = ProducerSettings(
        body_bytes_max=8 << 20,
        request_bytes_max=8 << 20,
        calls_in_flight_max=4,
        call_timeout_s=10,
    )
    async with Producer(world.name_servers, settings=huge) as producer:
        small = asyncio.create_task(send_to(producer, 0, b"small"))
        await broker.wait_called(1)
        with pytest.raises(errors.SendError) as caught:
            await send_to(producer, 1, b"x" * (5 << 20))
        assert not caught.value.outcome_unknown
        assert isinstance(caught.value.__cause__, errors.RequestTooLarge)
        gate.set()
        await small
    assert broker.bodies == [b"small"]


async def test_a_lone_send_makes_no_task_and_no_timer(world, monkeypatch):
    loop, tasks, timers = asyncio.get_running_loop(), [], []

    def make(loop, coroutine, **named):
        tasks.append(asyncio.Task(coroutine, loop=loop, **named))
        return tasks[-1]

    async with Producer(world.name_servers, settings=PATIENT) as producer:
        await producer.send(Message("orders", b"first"))
        call_at = loop.call_at
        loop.set_task_factory(make)
        monkeypatch.setattr(loop, "call_at", lambda *what: timers.append(what) or call_at(*what))
        for number in range(10):
            await producer.send(Message("orders", b"%d" % number))
        loop.set_task_factory(None)
        monkeypatch.undo()
    # The scripted broker shares the loop: its tasks are its own.
    assert {task.get_name() for task in tasks} <= {"ariane-wire-call"}
    # One for the deadlines of calls, one of the scripted broker, perhaps one of a refresh.
    assert len(timers) < 10
