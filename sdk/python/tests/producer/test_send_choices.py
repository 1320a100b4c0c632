"""One-way sends, deadlines and cancellation, relayed messages, and compressed bodies."""

import asyncio
import random
from dataclasses import replace

import grpc
import pytest

from ariane_record.single.compression import original_body
from ariane_sdk import (
    ClusterClient,
    Compression,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    errors,
)
from ariane_sdk.message import RelayedMessage

QUICK = ProducerSettings(
    call_timeout_s=1, send_timeout_s=60, repeat_delay_s_min=0.01, repeat_delay_s_max=0.05
)
PATIENT = ProducerSettings(call_timeout_s=60, send_timeout_s=60)


@pytest.mark.parametrize("count", [2, 20])
async def test_a_relayed_message_stays_who_it_is_beside_others_in_its_call(world, count):
    messages = [
        RelayedMessage("orders", b"%d" % n, unique_id=f"id-{n}", born_timestamp_ms=n + 1)
        if n % 2
        else Message("orders", b"%d" % n)
        for n in range(count)
    ]
    settings = replace(PATIENT, spread_count=0)
    async with Producer(world.name_servers, settings=settings) as producer:
        await producer.route("orders")
        results = await asyncio.gather(*map(producer.send, messages))
    ids = {int(each.body): each.unique_id for each in world.brokers["broker-a"].messages}

    assert len(world.brokers["broker-a"].calls) == 1
    assert [each.unique_id for each in results] == [ids[n] for n in range(count)]
    assert [each.unique_id for each in results[1::2]] == [f"id-{n}" for n in range(1, count, 2)]
    assert len(set(ids.values())) == count


async def test_one_way_does_not_wait_for_the_outcome(world):
    broker = world.brokers["broker-a"]
    answer = asyncio.Event()
    broker.script.append(answer)
    async with Producer(world.name_servers, settings=PATIENT) as producer:
        await producer.send_one_way(Message("orders", b"first"))  # Its route is not known yet.
        await broker.wait_called(1)
        assert await producer.send_one_way(Message("orders", b"second")) is None
        assert broker.bodies == []
        answer.set()
        await producer.flush()
        assert sorted(broker.bodies) == [b"first", b"second"]
        await producer.send_one_way(Message("orders", b"third"))

    assert sorted(broker.bodies) == [b"first", b"second", b"third"]


async def test_one_way_is_checked_and_repeated_but_never_fails(world, make_status):
    broker = world.brokers["broker-a"]
    async with Producer(world.name_servers, settings=QUICK) as producer:
        with pytest.raises(errors.MessageIllegal):
            await producer.send_one_way(Message("orders", b"x", tag="a||b"))
        broker.script.append("hang")
        await producer.send_one_way(Message("orders", b"again"))
        await producer.send_one_way(Message("nowhere", b"lost"))
        await producer.flush()

    assert b"again" in broker.bodies
    with pytest.raises(errors.ClientNotRunning):
        await producer.send_one_way(Message("orders", b"late"))


async def sender_behind_a_call(world, producer):
    """Have one call in flight, so that what is sent now waits; returns what lets the call end."""
    broker = world.brokers["broker-a"]
    answer = asyncio.Event()
    await producer.send(Message("orders", b"warm"))
    broker.script.append(answer)
    first = producer.send_nowait(Message("orders", b"first"))
    await broker.wait_called(2)
    return answer, first


async def test_a_message_cancelled_before_its_call_is_never_sent(world):
    async with Producer(world.name_servers, settings=PATIENT) as producer:
        answer, first = await sender_behind_a_call(world, producer)
        sends = [
            asyncio.ensure_future(producer.send(Message("orders", f"{number}".encode())))
            for number in range(5)
        ]
        batch = asyncio.ensure_future(
            producer.send_batch([Message("orders", b"b0"), Message("orders", b"b1")])
        )
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for position in (0, 3):
            sends[position].cancel()
        outcomes = await asyncio.gather(sends[0], sends[3], return_exceptions=True)
        answer.set()
        kept = await asyncio.gather(first, *(sends[position] for position in (1, 2, 4)))
        batch_results = await batch

    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
    stored = world.brokers["broker-a"].messages
    assert {m.body for m in stored} == {b"warm", b"first", b"1", b"2", b"4", b"b0", b"b1"}
    # Everybody has the result of their own message, also those behind the gaps.
    ids = {message.body: message.unique_id for message in stored}
    assert [r.unique_id for r in kept] == [ids[b] for b in (b"first", b"1", b"2", b"4")]
    assert [r.unique_id for r in batch_results] == [ids[b"b0"], ids[b"b1"]]


async def test_a_batch_of_which_nothing_is_left_does_not_travel(world):
    broker = world.brokers["broker-a"]
    async with Producer(world.name_servers, settings=PATIENT) as producer:
        answer, first = await sender_behind_a_call(world, producer)
        sends = [asyncio.ensure_future(producer.send(Message("orders", b"x"))) for _ in range(3)]
        await asyncio.sleep(0)
        for send in sends:
            send.cancel()
        await asyncio.wait(sends)
        answer.set()
        await first
        await producer.flush()
        assert producer._unsettled.size_bytes == 0
        await producer.send(Message("orders", b"last"))

    assert sorted(broker.bodies) == [b"first", b"last", b"warm"]
    assert len(broker.calls) == 3


async def late_with_cause(producer):
    """What a late send waited for; on a slow machine the first trouble takes its time."""
    for timeout_s in (0.1, 1.0, 10.0, 60.0):
        with pytest.raises(errors.SendError) as late:
            await producer.send(Message("orders", b"late"), timeout_s=timeout_s)
        assert late.value.reason == "DEADLINE_PASSED"
        if late.value.__cause__ is not None:
            break
    assert str(late.value).endswith(f"; before: {late.value.__cause__}")
    return late.value.__cause__


async def test_a_deadline_says_what_the_message_waited_for(world, make_status):
    refused = make_status(grpc.StatusCode.UNAVAILABLE, "SERVICE_DRAINING")
    world.brokers["broker-a"].script.extend([refused] * 10_000)
    async with Producer(world.name_servers, settings=QUICK) as producer:
        assert (await late_with_cause(producer)).reason == "SERVICE_DRAINING"
        world.brokers["broker-a"].script.clear()  # For those that are tried on.
    async with Producer("file:/no/such/list", settings=QUICK) as producer:
        cause = await late_with_cause(producer)
        assert isinstance(cause, errors.NameServersUnreachable)
        assert "/no/such/list" in str(cause)


async def test_a_deadline_says_whether_the_message_had_left(world):
    broker = world.brokers["broker-a"]
    async with Producer(world.name_servers, settings=PATIENT) as producer:
        answer, first = await sender_behind_a_call(world, producer)
        with pytest.raises(errors.SendError, match="was not stored") as caught:
            await producer.send(Message("orders", b"withdrawn"), timeout_s=0.05)
        assert not caught.value.outcome_unknown
        assert caught.value.retriable
        assert caught.value.reason == "DEADLINE_PASSED"
        answer.set()
        await first

        broker.script.append(answer := asyncio.Event())
        with pytest.raises(errors.SendError, match="may have been stored") as caught:
            await producer.send(Message("orders", b"left"), timeout_s=0.05)
        assert caught.value.outcome_unknown
        answer.set()
        await producer.flush()
        in_time = await producer.send(Message("orders", b"in time"), timeout_s=60)

    assert sorted(broker.bodies) == [b"first", b"in time", b"left", b"warm"]
    assert in_time.queue_offset >= 0


async def test_a_deadline_also_holds_before_the_route_is_known(world):
    world.name_server.refusal = __import__("grpc").StatusCode.UNAVAILABLE
    async with Producer(world.name_servers, settings=QUICK) as producer:
        with pytest.raises(errors.SendError, match="was not stored"):
            await producer.send(Message("orders", b"parked"), timeout_s=0.05)
        world.name_server.refusal = None
        await producer.flush()

    assert world.brokers["broker-a"].bodies == []


async def test_a_cancelled_send_with_a_deadline_is_cancelled(world):
    async with Producer(world.name_servers, settings=PATIENT) as producer:
        answer, first = await sender_behind_a_call(world, producer)
        send = asyncio.ensure_future(producer.send(Message("orders", b"x"), timeout_s=30))
        await asyncio.sleep(0)
        send.cancel()
        with pytest.raises(asyncio.CancelledError):
            await send
        answer.set()
        await first

    assert sorted(world.brokers["broker-a"].bodies) == [b"first", b"warm"]


@pytest.mark.parametrize("kind", [Compression.LZ4, Compression.ZSTD, Compression.ZLIB])
async def test_large_bodies_are_compressed(world, kind):
    settings = ProducerSettings(compression=kind)
    small, large, noise = b"s" * 4095, b"l" * 4096, random.Random(1).randbytes(5000)
    async with Producer(world.name_servers, settings=settings) as producer:
        await producer.send(Message("orders", small, tag="0"))
        await producer.send(Message("orders", memoryview(large), tag="1"))
        await producer.send_batch(
            [Message("orders", large, tag="2"), Message("orders", noise, tag="3")]
        )
    stored = sorted(world.brokers["broker-a"].messages, key=lambda message: message.tag)

    assert [bool(message.system_flag) for message in stored] == [False, True, True, False]
    assert [original_body(m.body, m.system_flag) for m in stored] == [small, large, large, noise]
    assert len(stored[1].body) < 100


async def test_limits_hold_for_the_body_as_it_was_given(world):
    settings = ProducerSettings(compression=Compression.ZSTD)
    async with Producer(world.name_servers, settings=settings) as producer:
        with pytest.raises(errors.MessageTooLarge):
            await producer.send(Message("orders", bytes((4 << 20) + 1)))
        with pytest.raises(errors.MessageTooLarge, match="properties of"):
            await producer.send(Message("orders", b"x", properties={"a": "b" * 40_000}))


async def test_consumers_see_bodies_as_they_were(cluster):
    got = {}
    done = asyncio.Event()
    bodies = {kind.value: f"{kind.value} ".encode() * 5000 for kind in Compression}

    async def listen(messages):
        for message in messages:
            got[message.tag] = message.body
            assert message.stored_body == message.body or len(message.stored_body) < 3000
        if len(got) == len(bodies):
            done.set()

    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic("compressed", exists_ok=True)
    for kind in Compression:
        settings = ProducerSettings(compression=kind)
        async with Producer(cluster.name_servers, settings=settings) as producer:
            await producer.send(Message("compressed", bodies[kind.value], tag=kind.value))
    async with PushConsumer(
        cluster.name_servers,
        group="decompress",
        subscriptions={"compressed": "*"},
        listener=listen,
        start="earliest",
    ):
        await asyncio.wait_for(done.wait(), 60)

    assert got == bodies


async def test_brokers_check_the_limit_too(cluster):
    settings = ProducerSettings(body_bytes_max=8 << 20)
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic("limits", exists_ok=True)
    async with Producer(cluster.name_servers, settings=settings) as producer:
        with pytest.raises(errors.SendError) as caught:
            await producer.send(Message("limits", bytes((4 << 20) + 70_000)))

    assert caught.value.reason == "MESSAGE_TOO_LARGE"
    assert not caught.value.outcome_unknown
    assert not caught.value.retriable
