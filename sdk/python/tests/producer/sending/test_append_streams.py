"""All sends to one broker share a stream."""

import asyncio
from collections import Counter

import grpc
import pytest

from ariane_sdk import Message, MessageQueue, Producer, ProducerSettings, errors

QUICK = ProducerSettings(
    call_timeout_s=1, send_timeout_s=60, repeat_delay_s_min=0.01, repeat_delay_s_max=0.05
)
PATIENT = ProducerSettings(call_timeout_s=60, send_timeout_s=60, calls_in_flight_max=4)


def to(queue_id, body):
    return Message("orders", body), MessageQueue("orders", "broker-a", queue_id)


async def send_to(producer, queue_id, body):
    message, queue = to(queue_id, body)
    return await producer.send(message, message_queue=queue)


async def test_all_sends_share_one_stream(world):
    broker = world.brokers["broker-a"]
    async with Producer(world.name_servers) as producer:
        for number in range(5):
            await producer.send(Message("orders", b"%d" % number))
        await asyncio.gather(*(producer.send(Message("orders", b"x")) for _ in range(50)))
    assert broker.stream_count == 1
    assert len(broker.messages) == 55


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
    assert broker.stream_count == 1


async def test_a_request_without_an_answer_retires_its_stream(world):
    broker = world.brokers["broker-a"]
    broker.script.append("store and hang")
    async with Producer(world.name_servers, settings=QUICK) as producer:
        await producer.send(Message("orders", b"one"))
        await producer.send(Message("orders", b"two"))
    assert broker.stream_count == 2
    # The scripted broker knows no numbers: a real one stores the repeat once.
    assert set(broker.bodies) == {b"one", b"two"}


async def test_a_broken_stream_is_a_broken_call_for_all_that_are_on_it(world):
    broker = world.brokers["broker-a"]
    gate = asyncio.Event()
    broker.script.extend([gate, grpc.StatusCode.UNAVAILABLE])
    async with Producer(world.name_servers, settings=PATIENT) as producer:
        held = asyncio.create_task(send_to(producer, 0, b"held"))
        await broker.wait_called(1)
        await send_to(producer, 1, b"breaks")
        await held
    travels = Counter(
        (batch.queue_id, batch.sequence.first_sequence)
        for call in broker.calls
        for batch in call.batches
    )
    # Both were repeated under their numbers, perhaps in one request.
    assert set(travels) == {(0, 0), (1, 0)}
    assert min(travels.values()) >= 2


async def test_a_stream_that_is_refused_for_good_fails_sends(world):
    broker = world.brokers["broker-a"]
    broker.script.append(grpc.StatusCode.PERMISSION_DENIED)
    async with Producer(world.name_servers, settings=PATIENT) as producer:
        with pytest.raises(errors.SendError) as caught:
            await producer.send(Message("orders", b"one"))
        assert not caught.value.outcome_unknown
        await producer.send(Message("orders", b"two"))
    assert broker.bodies == [b"two"]


async def test_a_request_that_is_too_large_fails_alone(world):
    broker = world.brokers["broker-a"]
    broker.script.append(asyncio.Event())
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
        await small
    assert broker.bodies == [b"small"]


LOOKS_AWAKE = 30
"""A loop that sleeps looks a few times a send; one that stays awake, hundreds of times."""


class Naps:
    """Counts how often the loop looks for news, and how often it sleeps until there are some."""

    def __init__(self, monkeypatch):
        selector = asyncio.get_running_loop()._selector
        select = selector.select
        self.looks = self.naps = 0

        def counted(timeout=None):
            if timeout is not None and timeout <= 0:
                self.looks += 1
            else:
                self.naps += 1
            return select(timeout)

        monkeypatch.setattr(selector, "select", counted)


@pytest.mark.parametrize("message_count", [1, 2])
@pytest.mark.parametrize("busy_wait_s", [0.0, 0.01])
async def test_the_loop_stays_awake_for_a_lone_message_for_so_long(
    world, monkeypatch, busy_wait_s, message_count
):
    broker = world.brokers["broker-a"]
    settings = ProducerSettings(busy_wait_s=busy_wait_s, call_timeout_s=60, send_timeout_s=60)
    awake = busy_wait_s > 0 and message_count == 1
    async with Producer(world.name_servers, settings=settings) as producer:
        await producer.send(Message("orders", b"first"))
        # A machine with other things to do may give the loop nothing for as long: once is enough.
        for attempt in range(20):
            gate = asyncio.Event()
            broker.script.append(gate)
            with monkeypatch.context() as patch:
                naps = Naps(patch)
                sends = [
                    producer.send_nowait(Message("orders", b"x")) for _ in range(message_count)
                ]
                await broker.wait_called(2 + attempt)
                await asyncio.sleep(0.05)
                looks, slept = naps.looks, naps.naps
                await asyncio.sleep(0.1)
                # Not for longer than it was to.
                ended = bool(slept) and naps.looks - looks < 20
                gate.set()
                await asyncio.gather(*sends)
            if ended and (looks > LOOKS_AWAKE) == awake:
                break
        else:
            raise AssertionError((looks, slept, ended))


def test_nobody_stays_awake_for_long():
    with pytest.raises(errors.IllegalArgument, match="busy_wait_s"):
        ProducerSettings(busy_wait_s=1.0)
