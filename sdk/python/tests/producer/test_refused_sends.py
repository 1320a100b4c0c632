import asyncio
from dataclasses import replace
from datetime import timedelta

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo

from ariane_sdk import Message, MessageQueue, Producer, ProducerSettings, errors
from ariane_sdk.runtime.clock import SystemClock

QUICK = ProducerSettings(
    call_timeout_s=1, send_timeout_s=60, repeat_delay_s_min=0.01, repeat_delay_s_max=0.05
)

PATIENT = replace(QUICK, call_timeout_s=60.0, send_timeout_s=90.0)

AT_LEAST_ONCE = replace(QUICK, idempotent=False)


def orders(*bodies, **fields):
    return [Message("orders", body.encode(), **fields) for body in bodies]


async def test_a_batch_goes_to_another_broker_when_one_fails(two_brokers, make_status):
    refused = make_status(grpc.StatusCode.UNAVAILABLE, "SERVICE_DRAINING")
    broken, sound = two_brokers.brokers["broker-a"], two_brokers.brokers["broker-b"]
    broken.script.extend([refused] * 50)
    async with Producer(two_brokers.name_servers) as producer:
        results = await asyncio.gather(*map(producer.send, orders(*map(str, range(10)))))
        results += await producer.send_batch(orders("x", "y"))

    assert {result.message_queue.broker_name for result in results} == {"broker-b"}
    assert len(sound.messages) == 12
    assert not broken.messages


async def test_a_broker_that_refuses_one_topic_still_gets_others(two_brokers, make_status):
    refused = make_status(grpc.StatusCode.PERMISSION_DENIED, "TOPIC_NOT_WRITABLE")
    for _ in range(5):
        two_brokers.brokers["broker-a"].script.append([refused])
    async with Producer(two_brokers.name_servers, settings=QUICK) as producer:
        for body in "abcd":
            result = await producer.send(*orders(body))

            assert result.message_queue.broker_name == "broker-b"


async def test_a_row_surely_not_stored_is_repeated_until_it_is_stored(world, make_status):
    refused = make_status(grpc.StatusCode.UNAVAILABLE, "SERVICE_STARTING")
    world.brokers["broker-a"].script.extend([refused] * 6)
    async with Producer(world.name_servers, settings=QUICK) as producer:
        await producer.send(*orders("one"))

    assert len(world.brokers["broker-a"].calls) == 7
    assert world.brokers["broker-a"].bodies == [b"one"]


def refusal(make_status, reason, retry_after_s=0.0):
    """A refusal that says when to come again."""
    refused = make_status(grpc.StatusCode.UNAVAILABLE, reason)
    if retry_after_s:
        retry = RetryInfo()
        retry.retry_delay.FromTimedelta(timedelta(seconds=retry_after_s))
        refused.details.add().Pack(retry)
    return refused


@pytest.mark.parametrize("per_batch", [False, True])
@pytest.mark.parametrize("reason", ["STORE_FULL", "SERVICE_DRAINING"])
async def test_two_brokers_that_refuse_are_not_asked_in_a_hurry(
    two_brokers, make_status, leaping_clock, reason, per_batch
):
    refused = refusal(make_status, reason)
    brokers = two_brokers.brokers.values()
    for broker in brokers:
        broker.script.extend([[refused] if per_batch else refused] * 5000)
    async with Producer(
        two_brokers.name_servers, settings=PATIENT, clock=leaping_clock
    ) as producer:
        begun_s = leaping_clock.monotonic_s()
        send = producer.send_nowait(*orders("one"))
        for broker in brokers:
            await broker.wait_called(20)
        passed_s = leaping_clock.monotonic_s() - begun_s
        rounds = max(len(broker.calls) for broker in brokers)
        leaping_clock.ahead_s += PATIENT.send_timeout_s
        with pytest.raises(errors.SendError) as caught:
            await send

    assert caught.value.reason == reason
    assert not caught.value.outcome_unknown
    assert "it was not stored" in str(caught.value)
    # Both are asked in every round, and rounds are 25 ms apart at least once the delay has grown.
    assert rounds <= 21
    assert passed_s > 0.025 * (rounds - 4)


async def test_any_number_of_refusals_is_no_overflow(world, make_status):
    refused = refusal(make_status, "STORE_FULL")
    settings = replace(PATIENT, repeat_delay_s_min=1e-9, repeat_delay_s_max=1e-6)
    world.brokers["broker-a"].script.extend([refused] * 1100)
    async with Producer(world.name_servers, settings=settings) as producer:
        await producer.send(*orders("one", message_group="pinned"))

    assert len(world.brokers["broker-a"].calls) == 1101


async def test_all_brokers_wish_for_a_pause_and_get_it(two_brokers, make_status):
    for broker, pause_s in zip(two_brokers.brokers.values(), (0.3, 60.0), strict=True):
        broker.script.append(refusal(make_status, "STORE_FULL", pause_s))
    clock = SystemClock()
    async with Producer(two_brokers.name_servers, settings=QUICK) as producer:
        begun_s = clock.monotonic_s()
        result = await producer.send(*orders("one"))
        passed_s = clock.monotonic_s() - begun_s

    assert passed_s >= 0.3
    assert result.message_queue.broker_name == "broker-a"
    assert [len(broker.calls) for broker in two_brokers.brokers.values()] == [2, 1]


async def test_a_pause_beyond_the_deadline_is_the_refusal_at_once(two_brokers, make_status):
    for broker in two_brokers.brokers.values():
        broker.script.append(refusal(make_status, "STORE_FULL", 60.0))
    async with Producer(two_brokers.name_servers, settings=QUICK) as producer:
        with pytest.raises(errors.SendError) as caught:
            await producer.send(*orders("one"))

    assert caught.value.reason == "STORE_FULL"
    assert caught.value.retry_after_s == 60.0
    assert not caught.value.outcome_unknown


async def test_a_row_that_may_be_stored_is_repeated_twice_and_reported_as_unknown(world):
    world.brokers["broker-a"].script.extend([grpc.StatusCode.UNAVAILABLE] * 10)
    async with Producer(world.name_servers, settings=AT_LEAST_ONCE) as producer:
        with pytest.raises(errors.SendError) as caught:
            await producer.send(*orders("one"))

    assert caught.value.outcome_unknown
    assert "may have been stored" in str(caught.value)
    assert isinstance(caught.value.__cause__, errors.ServiceUnavailable)
    assert len(world.brokers["broker-a"].calls) == 3


async def test_a_refusal_after_an_unknown_outcome_leaves_it_unknown(world, make_status):
    refused = make_status(grpc.StatusCode.INVALID_ARGUMENT, "BLOCK_CORRUPTED")
    world.brokers["broker-a"].script.extend([grpc.StatusCode.UNAVAILABLE, refused])
    async with Producer(world.name_servers, settings=QUICK) as producer:
        with pytest.raises(errors.SendError) as caught:
            await producer.send(*orders("one"))

    assert caught.value.reason == "BLOCK_CORRUPTED"
    assert caught.value.outcome_unknown


async def test_a_plain_refusal_is_not_repeated_and_known(world, make_status):
    refused = make_status(
        grpc.StatusCode.INVALID_ARGUMENT, "MESSAGE_TOO_LARGE", size_bytes="9", limit_bytes="5"
    )
    world.brokers["broker-a"].script.append([refused])
    async with Producer(world.name_servers) as producer:
        with pytest.raises(errors.SendError) as caught:
            await producer.send(*orders("one"))

    assert caught.value.reason == "MESSAGE_TOO_LARGE"
    assert caught.value.metadata == {"size_bytes": "9", "limit_bytes": "5"}
    assert not caught.value.outcome_unknown
    assert len(world.brokers["broker-a"].calls) == 1


async def test_stored_but_not_flushed_is_unknown_and_never_repeated(world, make_status):
    unconfirmed = make_status(grpc.StatusCode.DEADLINE_EXCEEDED, "FLUSH_UNCONFIRMED")
    world.brokers["broker-a"].script.append([unconfirmed])
    async with Producer(world.name_servers, settings=AT_LEAST_ONCE) as producer:
        with pytest.raises(errors.SendError) as caught:
            await producer.send(*orders("one"))

    assert caught.value.outcome_unknown
    assert len(world.brokers["broker-a"].calls) == 1


async def test_a_batch_error_fails_its_messages_only(world, make_status):
    async with Producer(world.name_servers) as producer:
        await producer.send(*orders("warm-up"))
        refused = make_status(grpc.StatusCode.INVALID_ARGUMENT, "BLOCK_CORRUPTED")
        world.brokers["broker-a"].script.append([None, refused])
        zero, one = (MessageQueue("orders", "broker-a", queue_id) for queue_id in (0, 1))
        [message] = orders("x")
        good = producer.send_nowait(message, message_queue=zero)
        bad = producer.send_nowait(message, message_queue=one)

        assert (await good).message_queue == zero
        with pytest.raises(errors.SendError):
            await bad


async def test_a_group_keeps_its_order_over_repeats(world, make_status):
    refused = make_status(grpc.StatusCode.UNAVAILABLE, "SERVICE_BUSY")
    broker = world.brokers["broker-a"]
    bodies = [str(number) for number in range(60)]
    settings = ProducerSettings(
        calls_in_flight_max=3, repeat_delay_s_min=0.01, repeat_delay_s_max=0.02
    )
    async with Producer(world.name_servers, settings=settings) as producer:
        await producer.send(*orders("x"))
        sends = []
        for number, body in enumerate(bodies):
            if number % 10 == 0:
                broker.script.extend([refused, "store"])
            sends.append(producer.send_nowait(*orders(body, message_group="g")))
            await asyncio.sleep(0.002)
        await asyncio.gather(*sends)

    stored = [message.body.decode() for message in broker.messages if message.message_group]
    assert stored == bodies


async def test_a_broker_that_hangs_costs_the_call_timeout_only(two_brokers):
    hanging = two_brokers.brokers["broker-a"]
    hanging.script.extend(["store and hang"] * 20)
    async with Producer(two_brokers.name_servers, settings=AT_LEAST_ONCE) as producer:
        for body in "abcd":
            result = await producer.send(*orders(body))

            assert result.message_queue.broker_name == "broker-b"
    # What the hanging broker stored nevertheless is there twice: at least once, as promised.
    assert set(two_brokers.brokers["broker-b"].bodies) == {b"a", b"b", b"c", b"d"}


async def test_time_is_up_at_last(world):
    world.brokers["broker-a"].script.extend(["hang"] * 20)
    settings = ProducerSettings(call_timeout_s=0.2, send_timeout_s=0.3, repeats_max=50)
    async with Producer(world.name_servers, settings=settings) as producer:
        async with asyncio.timeout(60):
            with pytest.raises(errors.SendError) as caught:
                await producer.send(*orders("one"))

    assert caught.value.outcome_unknown
