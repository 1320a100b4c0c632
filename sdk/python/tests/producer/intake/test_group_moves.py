"""Message groups follow their topic to fewer queues, and none of their messages is overtaken."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque

import grpc
import numpy as np
import pyarrow as pa
import pytest

from ariane_record.decoding.columns import decode_columns
from ariane_sdk import Message, MessageQueue, Producer, ProducerSettings, errors
from ariane_sdk.producer.sending.unsettled import Unsettled
from ariane_sdk.routing import routes as _routes

GROUPS = [f"g{number}" for number in range(40)]


@pytest.fixture
def broker(world, monkeypatch):
    """A broker that refuses queues which its topic has not."""
    monkeypatch.setattr(_routes, "REFRESH_GAP_S_MIN", 0.0)
    scripted = world.brokers["broker-a"]
    scripted.arrived = []
    scripted.queue_count = 8
    # What happens to the next requests: an event that each waits for, and its step.
    scripted.gates = deque()
    told = scripted._results

    async def results(request, step, context):
        if scripted.gates:
            gate, step = scripted.gates.popleft()
            await gate.wait()
        if step == "store":
            step = [
                None if batch.queue_id < scripted.queue_count else scripted.gone
                for batch in request.rows
            ]
        return await told(request, step, context)

    store = scripted._store

    def stored(batch):
        columns = decode_columns(batch.records, np.frombuffer(batch.record_sizes, "<i4"))
        for position in range(len(columns)):
            message = columns.message(position)
            scripted.arrived.append((message.message_group, int(message.body), batch.queue_id))
        return store(batch)

    scripted._results = results
    scripted._store = stored
    world.name_server.set_route("orders", {"broker-a": scripted.address}, queue_count=8)
    return scripted


@pytest.fixture
def lower(world, broker, make_status):
    """Has the topic fewer queues."""
    broker.gone = make_status(grpc.StatusCode.NOT_FOUND, "QUEUE_NOT_FOUND")

    def lower_to(count):
        broker.queue_count = count
        world.name_server.set_route("orders", {"broker-a": broker.address}, queue_count=count)

    return lower_to


def rounds(first, count):
    return [
        Message("orders", str(number).encode(), message_group=group)
        for number in range(first, first + count)
        for group in GROUPS
    ]


def check_moved(broker, first, count):
    """Every message was stored once, in a queue that is left, and each group's in order."""
    numbers = defaultdict(list)
    queues = set()
    for group, number, queue_id in broker.arrived:
        if number >= first and group:
            numbers[group].append(number)
            queues.add(queue_id)
    assert numbers == {group: list(range(first, first + count)) for group in GROUPS}
    assert queues == set(range(broker.queue_count))


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("count", [1, 3])
async def test_a_refused_row_moves_and_is_not_overtaken(world, broker, lower, idempotent, count):
    settings = ProducerSettings(idempotent=idempotent)
    async with Producer(world.name_servers, settings=settings) as producer:
        await producer.send_batch(rounds(0, 1))
        lower(count)
        sends = []
        for number in range(1, 30):
            sends += [producer.send_nowait(message) for message in rounds(number, 1)]
            await asyncio.sleep(0.001)
        results = await asyncio.gather(*sends)

    assert {result.message_queue.queue_id for result in results} == set(range(count))
    check_moved(broker, 1, 29)


async def test_a_broker_that_knows_first_is_asked_until_the_name_server_knows(world, broker, lower):
    async with Producer(world.name_servers) as producer:
        await producer.send_batch(rounds(0, 1))
        lower(1)
        world.name_server.set_route("orders", {"broker-a": broker.address}, queue_count=8)
        called = len(broker.calls)
        sends = [producer.send_nowait(message) for message in rounds(1, 3)]
        await broker.wait_called(called + 5)
        lower(1)
        await asyncio.gather(*sends)
    check_moved(broker, 1, 3)


async def test_messages_of_no_group_are_repeated_until_the_name_server_knows(world, broker, lower):
    settings = ProducerSettings(repeat_delay_s_min=0.01, repeat_delay_s_max=0.05)
    async with Producer(world.name_servers, settings=settings) as producer:
        await producer.send(Message("orders", b"0"))
        lower(0)
        world.name_server.set_route("orders", {"broker-a": broker.address}, queue_count=8)
        called = len(broker.calls)
        sends = [producer.send_nowait(Message("orders", b"1")) for _ in range(3)]
        await broker.wait_called(called + 6)
        lower(1)
        results = await asyncio.gather(*sends)
    assert {result.message_queue.queue_id for result in results} == {0}
    assert [each[1] for each in broker.arrived] == [0, 1, 1, 1]


async def test_later_messages_wait_for_one_that_is_in_flight(world, broker, lower):
    settings = ProducerSettings(calls_in_flight_max=4, call_timeout_s=60, send_timeout_s=60)
    async with Producer(world.name_servers, settings=settings) as producer:
        [before] = await producer.send_batch([Message("orders", b"0", message_group="g0")])
        other = next(
            result
            for result in await producer.send_batch(rounds(0, 1))
            if result.message_queue.queue_id not in (0, before.message_queue.queue_id)
        )
        broker.queues.clear()
        called = len(broker.calls)
        answer = asyncio.Event()
        broker.script.append(answer)
        first = producer.send_nowait(Message("orders", b"1", message_group="g0"))
        await broker.wait_called(called + 1)
        lower(1)
        pinned = Message("orders", b"0")
        with pytest.raises(errors.SendError, match="not stored"):
            # The route is followed by the time that this one is given up.
            await producer.send(pinned, message_queue=other.message_queue)
        second = producer.send_nowait(Message("orders", b"2", message_group="g0"))
        plain = await producer.send(Message("orders", b"100"))
        assert plain.message_queue.queue_id == 0
        assert not first.done()
        assert not second.done()
        answer.set()
        results = await asyncio.gather(first, second)

    assert [result.message_queue.queue_id for result in results] == [0, 0]
    assert broker.bodies == [b"100", b"1", b"2"]


async def test_waiting_costs_the_same_whatever_else_is_sent(world, broker, lower, monkeypatch):
    searches = []
    search = Unsettled.of_topic

    def counted(sending, topic):
        searches.append(topic)
        return search(sending, topic)

    monkeypatch.setattr(Unsettled, "of_topic", counted)
    settings = ProducerSettings(calls_in_flight_max=4, call_timeout_s=60, send_timeout_s=60)
    async with Producer(world.name_servers, settings=settings) as producer:
        before = await producer.send_batch(rounds(0, 1))
        called = len(broker.calls)
        answer = asyncio.Event()
        broker.script.append(answer)
        first = [
            producer.send_nowait(message)
            for message, result in zip(rounds(1, 1), before, strict=True)
            if result.message_queue.queue_id != 0
        ]
        await broker.wait_called(called + 1)
        lower(1)
        await producer._session.routes.refresh("orders")
        searches.clear()
        for _ in range(100):
            await producer.send(Message("orders", b"100"))
        assert len(searches) < 10
        second = [producer.send_nowait(message) for message in rounds(2, 1)]
        answer.set()
        results = await asyncio.gather(*first, *second)
    assert {result.message_queue.queue_id for result in results} == {0}
    for name in GROUPS:
        numbers = [number for group, number, _ in broker.arrived if group == name]
        assert numbers == sorted(numbers)


async def test_a_row_stored_before_its_queue_went_stays_and_later_ones_move(world, broker, lower):
    settings = ProducerSettings(calls_in_flight_max=4, call_timeout_s=60, send_timeout_s=60)
    async with Producer(world.name_servers, settings=settings) as producer:
        before = await producer.send_batch(rounds(0, 1))
        called = len(broker.calls)
        answer = asyncio.Event()
        broker.script.append(answer)
        sends = [producer.send_nowait(message) for message in rounds(1, 1)]
        await broker.wait_called(called + 1)
        world.name_server.set_route("orders", {"broker-a": broker.address}, queue_count=1)
        await producer._session.routes.refresh("orders")
        sends += [producer.send_nowait(message) for message in rounds(2, 1)]
        await asyncio.sleep(0.05)
        answer.set()
        results = await asyncio.gather(*sends)

    queues = [result.message_queue for result in results]
    assert queues[: len(GROUPS)] == [result.message_queue for result in before]
    assert {queue.queue_id for queue in queues[len(GROUPS) :]} == {0}


async def test_results_of_a_batch_are_in_order_wherever_each_moves(world, broker, lower):
    async with Producer(world.name_servers) as producer:
        await producer.send_batch(rounds(0, 1))
        lower(3)
        messages = [*rounds(1, 5), Message("orders", b"100")]
        results = await producer.send_batch(messages)
        await producer.send_one_way(Message("orders", b"6", message_group="g0"))
    for message, result in zip(messages, results, strict=True):
        queue = broker.queues["orders", result.message_queue.queue_id]
        assert queue[result.queue_offset].body == message.body
        assert queue[result.queue_offset].message_group == message.message_group
    assert b"6" in broker.bodies


async def test_messages_for_a_named_queue_do_not_move(world, broker, lower):
    async with Producer(world.name_servers) as producer:
        [before] = await producer.send_batch([Message("orders", b"0", message_group="g0")])
        gone = before.message_queue
        assert gone == MessageQueue("orders", "broker-a", gone.queue_id)
        assert gone.queue_id != 0
        lower(1)
        message = Message("orders", b"1", message_group="g0")
        pinned = producer.send_nowait(message, message_queue=gone)
        selected = producer.send_nowait(message, selector=lambda queues, _: gone)
        moved = producer.send_nowait(message)
        assert (await moved).message_queue.queue_id == 0
        for refused in (pinned, selected):
            with pytest.raises(errors.SendError) as caught:
                await refused
            assert caught.value.reason == "QUEUE_NOT_FOUND"
            assert not caught.value.outcome_unknown


async def test_an_order_of_queues_that_nobody_changed_is_kept(world, broker, lower):
    route = world.name_server.routes["orders"]
    route.queue_order = "broker-a:8"
    async with Producer(world.name_servers) as producer:
        await producer.send_batch(rounds(0, 1))
        lower(1)
        world.name_server.routes["orders"].queue_order = "broker-a:8"
        with pytest.raises(errors.BatchSendError) as caught:
            await producer.send_batch(rounds(1, 1))
        refused = [each for each in caught.value.outcomes if isinstance(each, errors.SendError)]
        assert {error.reason for error in refused} == {"QUEUE_NOT_FOUND"}
        world.name_server.routes["orders"].queue_order = "broker-a:1"
        await producer._session.routes.refresh("orders")
        await producer.send_batch(rounds(2, 1))
    check_moved(broker, 2, 1)


async def test_closing_settles_what_is_being_moved(world, broker, lower):
    producer = Producer(world.name_servers)
    await producer.start()
    await producer.send_batch(rounds(0, 1))
    lower(3)
    sends = [producer.send_nowait(message) for message in rounds(1, 3)]
    await producer.close()
    assert all(send.done() for send in sends)
    assert producer._unsettled.size_bytes == 0
    check_moved(broker, 1, 3)


async def two_groups(producer):
    """Groups whose queues are two different ones, neither of them the first."""
    found = {}
    for message, result in zip(rounds(0, 1), await producer.send_batch(rounds(0, 1)), strict=True):
        found.setdefault(result.message_queue.queue_id, message.message_group)
    found.pop(0, None)
    return list(found.values())[:2]


async def follow(world, broker, producer, count):
    """Have the route say how many queues there are, whatever the broker takes."""
    world.name_server.set_route("orders", {"broker-a": broker.address}, queue_count=count)
    await producer._session.routes.refresh("orders")


def sent(group, number):
    return Message("orders", str(number).encode(), message_group=group)


async def in_flight(broker, producer, group):
    """A send of a group that the broker has, and the event that its answer waits for."""
    answer = asyncio.Event()
    broker.gates.append((answer, "store"))
    called = len(broker.calls)
    first = producer.send_nowait(sent(group, 1))
    await broker.wait_called(called + 1)
    return first, answer


async def pass_by(producer):
    """Whatever the producer was about to do when this came is done when this is over."""
    await producer.send(Message("orders", b"100"))


def numbers_of(broker, group):
    """The numbers of a group's messages, without the first, in the order in which they came."""
    return [number for each, number, _ in broker.arrived if each == group and number]


@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_row_that_moved_is_not_repeated_in_its_old_queue(
    world, broker, lower, make_status, idempotent
):
    settings = ProducerSettings(
        idempotent=idempotent, repeat_delay_s_min=0.01, repeat_delay_s_max=0.02
    )
    async with Producer(world.name_servers, settings=settings) as producer:
        one, other = await two_groups(producer)
        lower(8)
        full = make_status(grpc.StatusCode.UNAVAILABLE, "STORE_FULL")
        answer, moved = asyncio.Event(), asyncio.Event()
        broker.gates += [(answer, [full, broker.gone]), (moved, "store")]
        called = len(broker.calls)
        sends = [producer.send_nowait(sent(group, 1)) for group in (one, other)]
        await broker.wait_called(called + 1)
        await follow(world, broker, producer, 1)
        answer.set()
        await broker.wait_called(called + 2)
        await asyncio.sleep(0.1)  # Longer than a repeat would wait.
        moved.set()
        results = await asyncio.gather(*sends)
    assert {result.message_queue.queue_id for result in results} == {0}
    assert sorted(each for each in broker.arrived if each[1] == 1) == sorted(
        [(one, 1, 0), (other, 1, 0)]
    )


async def test_rows_that_wait_to_move_stay_when_the_queues_come_back(world, broker, lower):
    settings = ProducerSettings(calls_in_flight_max=4, send_timeout_s=60)
    async with Producer(world.name_servers, settings=settings) as producer:
        one, other = await two_groups(producer)
        first, answer = await in_flight(broker, producer, one)
        lower(1)
        await follow(world, broker, producer, 1)
        waits = producer.send_nowait(sent(other, 1))
        async with asyncio.timeout(60):
            while not producer._unsettled.held:  # noqa: ASYNC110 - tells nobody.
                await asyncio.sleep(0)
        assert not waits.done()
        broker.queue_count = 8
        await follow(world, broker, producer, 8)
        async with asyncio.timeout(60):
            assert (await waits).message_queue.queue_id != 0
        answer.set()
        await first
    assert [each[0] for each in broker.arrived if each[1] == 1] == [other, one]


async def test_rows_of_columns_do_not_overtake_what_waits_to_move(world, broker, lower):
    settings = ProducerSettings(calls_in_flight_max=4, call_timeout_s=60, send_timeout_s=60)
    async with Producer(world.name_servers, settings=settings) as producer:
        group, _ = await two_groups(producer)
        first, answer = await in_flight(broker, producer, group)
        lower(8)
        await follow(world, broker, producer, 1)
        table = pa.table({"body": [b"2"], "messageGroup": [group]})
        second = asyncio.ensure_future(producer.send_columns("orders", table))
        await pass_by(producer)
        answer.set()
        queue = (await first).message_queue
        await second
    assert [each for each in broker.arrived if each[0] == group and each[1]] == [
        (group, 1, queue.queue_id),
        (group, 2, queue.queue_id),
    ]


async def test_later_messages_wait_for_one_that_may_be_stored(world, broker, lower):
    settings = ProducerSettings(
        calls_in_flight_max=4, repeat_delay_s_min=0.01, repeat_delay_s_max=0.02
    )
    async with Producer(world.name_servers, settings=settings) as producer:
        group, _ = await two_groups(producer)
        now, answer = asyncio.Event(), asyncio.Event()
        now.set()
        broker.gates += [(now, grpc.StatusCode.UNAVAILABLE), (answer, "store")]
        called = len(broker.calls)
        first = producer.send_nowait(sent(group, 1))
        await broker.wait_called(called + 2)
        lower(8)
        await follow(world, broker, producer, 1)
        second = producer.send_nowait(sent(group, 2))
        await pass_by(producer)
        assert not second.done()
        answer.set()
        results = await asyncio.gather(first, second)
    assert numbers_of(broker, group) == [1, 2]
    assert [result.message_queue.queue_id == 0 for result in results] == [False, True]


async def test_groups_keep_their_queues_while_a_topic_has_none_for_a_moment(world, broker, lower):
    settings = ProducerSettings(calls_in_flight_max=4, call_timeout_s=60, send_timeout_s=60)
    async with Producer(world.name_servers, settings=settings) as producer:
        group, _ = await two_groups(producer)
        first, answer = await in_flight(broker, producer, group)
        lower(8)
        await follow(world, broker, producer, 0)
        await follow(world, broker, producer, 1)
        second = producer.send_nowait(sent(group, 2))
        await pass_by(producer)
        answer.set()
        results = await asyncio.gather(first, second)
    assert results[1].message_queue.queue_id == 0
    assert numbers_of(broker, group) == [1, 2]
