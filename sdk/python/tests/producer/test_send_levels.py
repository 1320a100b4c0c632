"""Messages that must be safer than the broker promises by itself."""

import asyncio

import pytest

from ariane_sdk import (
    AcknowledgedLevel,
    Message,
    MessageQueue,
    Producer,
    ProducerSettings,
    errors,
)
from ariane_sdk.net.connections import Connections

SAFE = {"level": AcknowledgedLevel.FLUSHED}


def demands(broker):
    """What each batch has asked for, in the order in which they came."""
    batches = [batch for call in broker.calls for batch in call.rows]
    return [(batch.required_level, batch.in_sync_min) for batch in batches]


async def test_only_who_asks_sends_a_demand(world):
    broker = world.brokers["broker-a"]
    async with Producer(world.name_servers) as producer:
        await producer.send(Message("orders", b"plain"))
        await producer.send(Message("orders", b"flushed"), **SAFE)
        await producer.send(Message("orders", b"three"), in_sync_min=3)
        await producer.send(
            Message("orders", b"two"), level=AcknowledgedLevel.REPLICATED, timeout_s=60
        )
        await producer.send_batch([Message("orders", b"%d" % n) for n in range(5)], **SAFE)
    assert demands(broker) == [(0, 0), (2, 0), (0, 3), (3, 0), (2, 0)]


async def test_messages_of_different_levels_do_not_share_a_batch_and_keep_their_order(world):
    broker = world.brokers["broker-a"]
    patient = ProducerSettings(call_timeout_s=60, send_timeout_s=60)
    async with Producer(world.name_servers, settings=patient) as producer:
        await producer.send(Message("orders", b"warm", message_group="g"))
        answer = asyncio.Event()
        broker.script.append(answer)
        held = asyncio.ensure_future(producer.send(Message("orders", b"held", message_group="g")))
        await broker.wait_called(2)
        sends = []
        for number in range(9):
            message = Message("orders", b"%d" % number, message_group="g")
            more = SAFE if number % 3 == 1 else {}
            sends.append(asyncio.ensure_future(producer.send(message, **more)))
        await asyncio.sleep(0)
        answer.set()
        await asyncio.gather(held, *sends)
    bodies = broker.bodies
    assert [body for body in bodies if body.isdigit()] == [b"%d" % n for n in range(9)]
    assert set(demands(broker)) == {(0, 0), (2, 0)}


async def test_messages_of_one_demand_share_a_batch(world):
    """Each in a batch of its own, they would be stored one after the other."""
    broker = world.brokers["broker-a"]
    patient = ProducerSettings(call_timeout_s=60, send_timeout_s=60)
    async with Producer(world.name_servers, settings=patient) as producer:
        answer = asyncio.Event()
        broker.script.append(answer)
        held = asyncio.ensure_future(producer.send(Message("orders", b"held"), **SAFE))
        await broker.wait_called(1)
        named = MessageQueue("orders", "broker-a", 0)
        sends = [
            asyncio.ensure_future(producer.send(Message("orders", b"x"), **more, **demand))
            for _ in range(20)
            for more in ({}, {"message_queue": named})
            for demand in (SAFE, {"in_sync_min": 2})
        ]
        grouped = [
            asyncio.ensure_future(
                producer.send(Message("orders", b"x", message_group="g"), in_sync_min=2)
            )
            for _ in range(20)
        ]
        await asyncio.sleep(0)
        answer.set()
        await asyncio.gather(held, *sends, *grouped)
    batches = [batch for call in broker.calls for batch in call.rows]
    assert len(broker.messages) == 101
    # Those with a named queue change their demand each time, and so does their batch.
    assert len(batches) <= 1 + 2 + 40 + 1
    assert max(len(batch.record_sizes) // 4 for batch in batches) == 20


async def test_an_old_message_does_not_end_the_call_of_younger_ones(
    world, leaping_clock, monkeypatch
):
    broker = world.brokers["broker-a"]
    timeouts_s = []

    def append_records(connections, address, request, timeout_s):
        timeouts_s.append(timeout_s)
        return real(connections, address, request, timeout_s)

    real = Connections.append_records
    monkeypatch.setattr(Connections, "append_records", append_records)
    patient = ProducerSettings(call_timeout_s=60, send_timeout_s=60)
    async with Producer(world.name_servers, settings=patient, clock=leaping_clock) as producer:
        answer = asyncio.Event()
        broker.script.append(answer)
        held = asyncio.ensure_future(producer.send(Message("orders", b"held"), **SAFE))
        await broker.wait_called(1)
        old = asyncio.ensure_future(producer.send(Message("orders", b"old"), in_sync_min=2))
        await asyncio.sleep(0)
        leaping_clock.ahead_s += 50
        young = asyncio.ensure_future(producer.send(Message("orders", b"young"), **SAFE))
        await asyncio.sleep(0)
        answer.set()
        await asyncio.gather(held, old, young)
    assert [len(call.rows) for call in broker.calls] == [1, 2]
    assert timeouts_s[1] > 50


@pytest.mark.parametrize(
    "asked",
    [
        {"in_sync_min": 0},
        {"in_sync_min": 2, "level": AcknowledgedLevel.FLUSHED},
        {"in_sync_min": 1, "level": AcknowledgedLevel.REPLICATED},
    ],
)
async def test_an_illegal_demand_is_refused_before_sending(world, asked):
    async with Producer(world.name_servers) as producer:
        with pytest.raises(errors.IllegalArgument):
            await producer.send(Message("orders", b"x"), **asked)
        with pytest.raises(errors.IllegalArgument):
            await producer.send_batch([Message("orders", b"x")], **asked)
    assert world.brokers["broker-a"].calls == []


async def test_a_real_broker_says_what_was_reached_and_refuses_what_it_cannot(cluster):
    quick = ProducerSettings(send_timeout_s=3)
    async with Producer(cluster.name_servers, settings=quick) as producer:
        plain = await producer.send(Message("levels", b"plain"))
        safe = await producer.send(Message("levels", b"safe"), **SAFE)
        [batch] = await producer.send_batch([Message("levels", b"safe")], **SAFE)
        levels = [one.acknowledged_level for one in (plain, safe, batch)]
        assert levels == [1, 2, 2]
        with pytest.raises(errors.SendError) as caught:
            await producer.send(Message("levels", b"two"), in_sync_min=2)
        assert (caught.value.reason, caught.value.outcome_unknown) == ("TOO_FEW_IN_SYNC", False)


async def test_a_half_message_and_its_end_are_as_safe_as_is_asked(cluster):
    quick = ProducerSettings(send_timeout_s=3)
    async with Producer(cluster.name_servers, group="levels", settings=quick) as producer:
        half = await producer.send_half(Message("levels", b"half"), **SAFE)
        assert (await producer.commit(half)).acknowledged_level == AcknowledgedLevel.FLUSHED
        plain = await producer.commit(await producer.send_half(Message("levels", b"plain")))
        assert plain.acknowledged_level == AcknowledgedLevel.MEMORY
        async with producer.transaction(Message("levels", b"block"), **SAFE) as transaction:
            pass
        assert transaction.result.acknowledged_level == AcknowledgedLevel.FLUSHED
        waiting = await producer.send_half(Message("levels", b"two"))
        caught, refused = await asyncio.gather(
            producer.send_half(Message("levels", b"two"), in_sync_min=2),
            producer.commit(waiting._replace(in_sync_min=2)),
            return_exceptions=True,
        )
        assert isinstance(caught, errors.SendError), caught
        assert isinstance(refused, errors.CallError), refused
        for error in (caught, refused):
            assert (error.reason, error.outcome_unknown) == ("TOO_FEW_IN_SYNC", False)
        with pytest.raises(errors.IllegalArgument):
            await producer.send_half(Message("levels", b"none"), in_sync_min=0)
        await producer.rollback(waiting)
