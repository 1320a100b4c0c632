"""Half messages are rows beside all others: one call carries them, repeats store them once."""

import asyncio
from dataclasses import replace

import grpc
import pytest

from ariane_sdk import Message, Producer, ProducerSettings
from ariane_sdk.errors import MessageIllegal, SendError
from ariane_sdk.message import RelayedMessage

SETTINGS = ProducerSettings(send_timeout_s=60, repeat_delay_s_min=0.001, repeat_delay_s_max=0.002)
RELAYED = RelayedMessage(
    "orders", b"relayed", unique_id="1234", born_timestamp_ms=7, producer_group="shops"
)


def half(body, **fields):
    return Message("orders", body, **fields)


async def test_halves_and_sends_share_a_call(world):
    broker = world.brokers["broker-a"]
    async with Producer(world.name_servers, group="tills") as producer:
        await producer.route("orders")
        halves = await asyncio.gather(
            *(producer.send_half(half(b"%d" % number)) for number in range(9)),
            producer.send_half(RELAYED),
            producer.send(half(b"plain")),
        )
    plain = halves.pop()
    assert len(broker.calls) == 1
    (groups,) = broker.half_groups
    assert sorted(groups) == ["", "shops"] + ["tills"] * 9
    rows = zip(groups, broker.calls[0].rows, strict=True)
    assert all((row.sequence is not None) is (group == "") for group, row in rows)
    ids = {message.unique_id: message for message in broker.messages}
    assert {each.transaction_id for each in halves} | {plain.unique_id} == set(ids)
    assert {each.producer_group for each in halves} == {"", "shops"}
    assert {each.broker_name for each in halves} == {"broker-a"}
    assert ids["1234"].born_timestamp_ms == 7


async def test_halves_of_one_queue_do_not_wait_for_each_other(world):
    broker, answer = world.brokers["broker-a"], asyncio.Event()
    broker.script.append(answer)
    async with Producer(world.name_servers, group="tills", settings=SETTINGS) as producer:
        first = asyncio.create_task(producer.send_half(half(b"one", message_group="customer")))
        await broker.wait_called(1)
        halves = [half(b"%d" % number, message_group="customer") for number in range(3)]
        others = asyncio.gather(*map(producer.send_half, halves))
        await asyncio.sleep(0)
        answer.set()
        await asyncio.gather(first, others)
    assert [len(call.rows) for call in broker.calls] == [1, 3]


async def test_a_half_surely_not_stored_goes_to_another_broker(two_brokers, make_status):
    full = make_status(grpc.StatusCode.RESOURCE_EXHAUSTED, "STORE_FULL")
    two_brokers.brokers["broker-a"].script.extend([[full]] * 9)
    async with Producer(two_brokers.name_servers, group="tills", settings=SETTINGS) as producer:
        halves = [await producer.send_half(half(b"%d" % number)) for number in range(4)]
    assert {each.broker_name for each in halves} == {"broker-b"}
    assert not two_brokers.brokers["broker-a"].messages


@pytest.mark.parametrize("idempotent", [False, True])
async def test_a_half_that_may_be_stored_stays_at_its_broker_under_its_id(two_brokers, idempotent):
    brokers = two_brokers.brokers.values()
    for broker in brokers:
        broker.script.extend([grpc.StatusCode.UNAVAILABLE] * 9)
    settings = replace(SETTINGS, idempotent=idempotent)
    async with Producer(two_brokers.name_servers, group="tills", settings=settings) as producer:
        stored = await producer.send_half(half(b"one"))
    called = [broker for broker in brokers if broker.calls]
    assert called == [two_brokers.brokers[stored.broker_name]]
    assert len(called[0].calls) == 10
    assert len({call.rows[0].records for call in called[0].calls}) == 1
    assert called[0].half_groups == [["tills"]] * 10


async def test_a_refusal_for_good_is_raised_after_one_call(world, make_status):
    broker = world.brokers["broker-a"]
    broker.script.append([make_status(grpc.StatusCode.INVALID_ARGUMENT, "MESSAGE_ILLEGAL")])
    async with Producer(world.name_servers, group="tills", settings=SETTINGS) as producer:
        with pytest.raises(SendError) as refused:
            await producer.send_half(half(b"one"))
        with pytest.raises(MessageIllegal):
            await producer.send_half(half(b"later", delay_level=1))
    assert not refused.value.outcome_unknown
    assert len(broker.calls) == 1


async def test_a_half_that_is_cancelled_before_it_leaves_is_not_sent(world):
    broker, answer = world.brokers["broker-a"], asyncio.Event()
    broker.script.append(answer)
    async with Producer(world.name_servers, group="tills", settings=SETTINGS) as producer:
        first = asyncio.create_task(producer.send_half(half(b"first")))
        await broker.wait_called(1)
        cancelled = asyncio.create_task(producer.send_half(half(b"cancelled")))
        sent = asyncio.create_task(producer.send_half(half(b"sent", keys=("k",)), immunity_s=9))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.sleep(0)
        answer.set()
        await asyncio.gather(first, sent)
    (message,) = [each for each in broker.messages if each.body != b"first"]
    assert (message.body, message.keys) == (b"sent", ("k",))
    assert message.properties["CHECK_IMMUNITY_TIME_IN_SECONDS"] == "9"
