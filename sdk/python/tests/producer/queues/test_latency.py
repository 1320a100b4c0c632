"""Least latency: the tables, the choice, and what it does to slow brokers."""

import asyncio
import os
import signal
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_sdk import ClusterClient, Message, MessageQueue, Producer, ProducerSettings, errors
from ariane_sdk.producer.queues.latency import BrokerLatencies, LeastLatency
from ariane_sdk.runtime.clock import SystemClock

DEFAULTS = ProducerSettings()
LEAST = ProducerSettings(queue_choice="least_latency", avoid_broker_s=0.0)
TABLE = BrokerLatencies(LEAST, SystemClock())

latencies_s = st.floats(0, 100)


class HandClock:
    """Stands still until it is moved."""

    def __init__(self):
        self.now_s = 1000.0

    def monotonic_s(self):
        return self.now_s


def rocketmq_duration_s(latency_s):
    """``MQFaultStrategy.computeNotAvailableDuration``, in its own words."""
    latency_max = [0.05, 0.1, 0.55, 1.8, 3.0, 5.0, 15.0]
    not_available = [0, 0, 2.0, 5.0, 6.0, 10.0, 30.0]
    for i in range(len(latency_max) - 1, -1, -1):
        if latency_s >= latency_max[i]:
            return not_available[i]
    return 0


@given(latencies_s | st.sampled_from(DEFAULTS.latency_bounds_s))
def test_the_default_table_is_that_of_rocketmq(latency_s):
    assert TABLE.unavailable_s(latency_s) == rocketmq_duration_s(latency_s)


@given(latencies_s, latencies_s)
def test_slower_is_never_left_alone_for_less(one_s, other_s):
    slow, fast = max(one_s, other_s), min(one_s, other_s)
    assert TABLE.unavailable_s(slow) >= TABLE.unavailable_s(fast)


@pytest.mark.parametrize(
    ("bounds", "durations"), [((1.0,), (1.0, 2.0)), ((2.0, 1.0), (0.0, 0.0)), ((1.0, 1.0), (0, 0))]
)
def test_tables_that_make_no_sense_are_refused(bounds, durations):
    with pytest.raises(errors.IllegalArgument):
        BrokerLatencies(
            replace(LEAST, latency_bounds_s=bounds, unavailable_s=durations), SystemClock()
        )


def new_latencies(clock):
    return BrokerLatencies(LEAST, clock)


@given(st.lists(st.tuples(latencies_s, st.floats(0, 20)), min_size=1, max_size=20))
def test_a_broker_is_left_alone_until_the_longest_of_its_times_is_over(calls):
    clock = HandClock()
    latencies = new_latencies(clock)
    until_s = 0.0
    for latency_s, pause_s in calls:
        latencies.answered("a", latency_s)
        if TABLE.unavailable_s(latency_s):
            until_s = max(until_s, clock.now_s + TABLE.unavailable_s(latency_s))
        assert latencies.is_available("a") == (clock.now_s >= until_s)
        clock.now_s += pause_s
        assert latencies.is_available("a") == (clock.now_s >= until_s)
    slowest_s = max(latency_s for latency_s, _ in calls)
    assert 0 <= latencies.average_s("a") <= slowest_s + 1e-9
    assert latencies.is_available("never seen")


def test_a_failed_call_counts_ten_seconds():
    clock = HandClock()
    latencies = new_latencies(clock)
    latencies.failed("a")
    clock.now_s += 9.9
    assert not latencies.is_available("a")
    clock.now_s += 0.1
    assert latencies.is_available("a")


def test_without_a_table_a_failed_broker_is_left_alone_until_it_answers():
    clock = HandClock()
    latencies = BrokerLatencies(ProducerSettings(avoid_broker_s=2.0), clock)
    latencies.answered("a", 60.0)
    assert latencies.is_available("a")
    latencies.failed("a")
    clock.now_s += 1.9
    assert not latencies.is_available("a")
    clock.now_s += 0.1
    assert latencies.is_available("a")
    latencies.failed("a")
    latencies.answered("a", 60.0)
    assert latencies.is_available("a")


def faster_half(latencies, names):
    ordered = sorted(names, key=lambda name: (latencies.average_s(name), name))
    return ordered[: (len(ordered) + 1) // 2]


QUEUES = [MessageQueue("orders", broker, queue) for broker in "abc" for queue in range(2)]


@given(
    st.sets(st.sampled_from("abc")),
    st.dictionaries(st.sampled_from("abc"), st.floats(0, 30)),
    st.integers(0, 100),
)
def test_the_best_of_the_brokers_is_chosen(welcome, seen_s, first):
    latencies = new_latencies(HandClock())
    for name, latency_s in seen_s.items():
        latencies.answered(name, latency_s)
    available = {name for name in "abc" if latencies.is_available(name)}

    chosen = LeastLatency(QUEUES, first, latencies).move_on(welcome.__contains__).broker_name

    if welcome & available:
        assert chosen in welcome & available
    elif welcome:
        assert chosen in faster_half(latencies, welcome)
    elif available:
        assert chosen in available
    else:
        assert chosen in faster_half(latencies, "abc")


def test_where_all_are_slow_the_faster_half_has_its_turns():
    queues = [MessageQueue("orders", broker, 0) for broker in "abcd"]
    latencies = new_latencies(HandClock())
    for name, latency_s in zip("abcd", (9.0, 6.0, 7.0, 8.0), strict=True):
        latencies.answered(name, latency_s)
    choice = LeastLatency(queues, 0, latencies)
    turns = [choice.move_on(lambda _: True).broker_name for _ in range(8)]
    assert turns == ["b", "c"] * 4


def test_every_queue_of_available_brokers_has_its_turn():
    latencies = new_latencies(HandClock())
    latencies.answered("b", 1.0)
    choice = LeastLatency(QUEUES, 3, latencies)

    turns = [choice.move_on(lambda _: True) for _ in range(8)]

    assert set(turns) == {queue for queue in QUEUES if queue.broker_name != "b"}
    assert all(turns.count(queue) == 2 for queue in turns)


async def send_one_by_one(producer, topic, count):
    names = []
    for _ in range(count):
        result = await producer.send(Message(topic, b"x"))
        names.append(result.message_queue.broker_name)
    return names


async def test_a_slow_broker_is_left_alone_and_comes_back(two_brokers):
    slow = two_brokers.brokers["broker-b"]
    settings = ProducerSettings(
        queue_choice="least_latency", latency_bounds_s=(0.2,), unavailable_s=(0.6,)
    )
    async with Producer(two_brokers.name_servers, settings=settings) as producer:
        assert set(await send_one_by_one(producer, "orders", 6)) == {"broker-a", "broker-b"}
        calls_before = len(slow.calls)
        slow.script.append(late := asyncio.Event())
        asyncio.get_running_loop().call_later(0.25, late.set)
        while len(slow.calls) == calls_before:
            await producer.send(Message("orders", b"x"))

        assert set(await send_one_by_one(producer, "orders", 8)) == {"broker-a"}
        await asyncio.sleep(0.6)
        assert set(await send_one_by_one(producer, "orders", 4)) == {"broker-a", "broker-b"}


async def test_when_all_are_slow_messages_still_go(two_brokers):
    settings = ProducerSettings(
        queue_choice="least_latency", latency_bounds_s=(0.0,), unavailable_s=(60.0,)
    )
    async with Producer(two_brokers.name_servers, settings=settings) as producer:
        names = await send_one_by_one(producer, "orders", 12)

    assert len(names) == 12


async def test_a_broker_that_hangs_is_left_alone(cluster, leaping_clock):
    settings = ProducerSettings(
        call_timeout_s=1.0,
        send_timeout_s=60.0,
        queue_choice="least_latency",
        latency_bounds_s=(0.9,),
        unavailable_s=(600.0,),
        failed_call_latency_s=1.0,
    )
    async with Producer(cluster.name_servers, settings=settings, clock=leaping_clock) as producer:
        async with ClusterClient(cluster.name_servers) as client:
            await client.create_topic("patient", queue_count=2)
        names = set(await send_one_by_one(producer, "patient", 8))
        assert len(names) == 2
        hanging = cluster.brokers[0]
        os.kill(hanging.pid, signal.SIGSTOP)
        try:
            # Sent to both: those for the one that hangs wait, and teach the producer.
            stuck = [producer.send_nowait(Message("patient", b"x")) for _ in range(2)]
            await asyncio.sleep(0)
            stuck += [producer.send_nowait(Message("patient", b"x")) for _ in range(2)]
            async with asyncio.timeout(60):
                while producer._parts.latencies.is_available(hanging.name):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            began = asyncio.get_running_loop().time()
            others = await send_one_by_one(producer, "patient", 20)
            took_s = asyncio.get_running_loop().time() - began
        finally:
            os.kill(hanging.pid, signal.SIGCONT)
        results = await asyncio.gather(*stuck)

        assert set(others) == names - {hanging.name}
        # Not one of them waited for the other broker.
        assert took_s < 20 * settings.call_timeout_s
        assert len(results) == 4
        leaping_clock.ahead_s += 600.0
        async with asyncio.timeout(60):
            while hanging.name not in await send_one_by_one(producer, "patient", 2):
                pass
