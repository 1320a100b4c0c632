"""Receiving without owning queues: several members, settling, failures, and the listener."""

import asyncio
import sys
import threading
from contextlib import aclosing, suppress
from uuid import uuid4

import numpy as np
import pytest

from ariane_record import RecordFields, encode_record
from ariane_sdk import ClusterClient, Message, Producer, ReceiveConsumer
from ariane_sdk.consumer.pulling.received_messages import received_messages
from ariane_sdk.consumer.receiving import receive_calls
from ariane_sdk.consumer.receiving.asked import answer_of
from ariane_sdk.consumer.receiving.asked_brokers import MemberBrokers
from ariane_sdk.consumer.receiving.receipt_reports import ReceiptReports
from ariane_sdk.consumer.receiving.receive_calls import ReceiveCalls
from ariane_sdk.errors import (
    CallError,
    ClientNotRunning,
    DeadlinePassed,
    GroupRefused,
    IllegalArgument,
    ReceiptExpired,
    ServiceUnavailable,
)
from ariane_sdk.runtime.clock import SystemClock
from ariane_sdk.sync import ReceiveConsumer as BlockingReceiveConsumer

COUNT = 200


@pytest.fixture
async def topic(cluster):
    name = f"jobs-{uuid4().hex[:8]}"
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic(name, queue_count=4)
    return name


@pytest.fixture
def consumer_of(cluster, topic):
    def make(group="billing", **options):
        return ReceiveConsumer(
            cluster.name_servers, group=f"{group}-{topic}", subscriptions={topic: "*"}, **options
        )

    return make


class ForwardClock(SystemClock):
    """May be put forward."""

    forward_s = 0.0

    def monotonic_s(self):
        return super().monotonic_s() + self.forward_s


async def send(cluster, topic, count=COUNT):
    async with Producer(cluster.name_servers) as producer:
        await producer.send_batch([Message(topic, b"%d" % n) for n in range(count)])


async def test_members_share_all_queues(cluster, topic, consumer_of):
    await send(cluster, topic)
    got = []
    done = asyncio.Event()

    async def consume():
        async with consumer_of() as consumer:
            async for message in consumer.receive(8):
                got.append(int(message.body))
                await consumer.ack(message)
                if len(got) == COUNT:
                    done.set()

    members = [asyncio.create_task(consume()) for _ in range(8)]
    async with asyncio.timeout(60):
        await done.wait()
    for member in members:
        member.cancel()
    await asyncio.wait(members)
    assert sorted(got) == list(range(COUNT))


async def test_no_batch_is_kept_while_the_next_one_comes(cluster, topic, consumer_of):
    await send(cluster, topic, 4)
    async with consumer_of() as consumer, aclosing(consumer.batches(4)) as batches:
        batch = await anext(batches)
        waiting = asyncio.create_task(anext(batches))
        await asyncio.sleep(0)
        count = sys.getrefcount(batch)
        waiting.cancel()
        await asyncio.wait([waiting])
    assert count == 2  # Of this test, and of the call that counts.


async def test_batches_are_settled_as_one_says(cluster, topic, consumer_of):
    await send(cluster, topic, 6)
    seen = []
    async with consumer_of() as consumer:
        while len(seen) < 6:
            seen += await consumer.receive_batch(6, timeout_s=60)
        await consumer.ack(*seen[:3])
        await consumer.nack(*seen[3:5], delay_s=0, cause="later")
        await consumer.extend(seen[5], seconds=0)
        again = []
        while len(again) < 3:
            again += await consumer.receive_batch(6, timeout_s=60)
        assert {m.body for m in again} == {m.body for m in seen[3:]}
        assert {m.attempts for m in again} == {1}
        with pytest.raises(ReceiptExpired):
            await consumer.ack(seen[5])
        await consumer.ack(*again)
        await consumer.ack(*again)
        assert await consumer.receive_batch(timeout_s=0) == []


async def test_messages_that_were_not_read_are_given_back(cluster, topic, consumer_of):
    await send(cluster, topic, 3)
    async with consumer_of(invisible_s=3600) as one:
        messages = one.receive()
        first = await anext(messages)
        await one.ack(first)
        await messages.aclose()
    got = {first.body}
    async with consumer_of() as other, asyncio.timeout(60):
        while len(got) < 3:
            got |= {message.body for message in await other.receive_batch(timeout_s=60)}


async def test_an_answer_on_its_way_comes_with_the_next_call(
    cluster, topic, consumer_of, monkeypatch
):
    async with Producer(cluster.name_servers) as producer:
        for number in range(8):
            await producer.send(Message(topic, b"%d" % number))
        route = await producer.route(topic)
    late = route.brokers[-1].broker_name
    arrives = asyncio.Event()
    ask = MemberBrokers.ask

    async def delayed(asked):
        answer = await answer_of(asked)
        await arrives.wait()
        return answer

    def asked(brokers, broker, *arguments, **options):
        asked = ask(brokers, broker, *arguments, **options)
        return asyncio.create_task(delayed(asked)) if broker.broker_name == late else asked

    monkeypatch.setattr(MemberBrokers, "ask", asked)
    async with consumer_of(invisible_s=3600) as consumer, asyncio.timeout(60):
        messages = await consumer.receive_batch(timeout_s=60)
        arrives.set()
        while len(messages) < 8:
            found = await consumer.receive_batch(3, timeout_s=60)
            assert len(found) <= 3
            messages += found
        assert {each.attempts for each in messages} == {0}
        await consumer.ack(*messages)
    assert {each.body for each in messages} == {b"%d" % number for number in range(8)}


async def test_a_listener_works_on_several_at_a_time(cluster, topic, consumer_of):
    await send(cluster, topic, 40)
    tries = {}
    working, most = 0, 0
    done = asyncio.Event()

    async def work(message):
        nonlocal working, most
        working += 1
        most = max(most, working)
        await asyncio.sleep(0.01)
        working -= 1
        tries[message.body] = tries.get(message.body, 0) + 1
        if len(tries) == 40:
            done.set()

    async with consumer_of() as consumer:
        listening = asyncio.create_task(consumer.listen(work, concurrency=5))
        async with asyncio.timeout(60):
            await done.wait()
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening
    assert set(tries.values()) == {1}
    assert 1 < most <= 5


async def test_messages_of_a_higher_priority_come_first(cluster, topic, consumer_of):
    priorities = [0, 7, -(1 << 31), (1 << 31) - 1]
    async with Producer(cluster.name_servers) as producer:
        await producer.send_batch([Message(topic, b"x", priority=each) for each in priorities])
    got = []
    async with consumer_of(by_priority=True) as consumer:
        while len(got) < len(priorities):
            got += await consumer.receive_batch(1, timeout_s=60)
    assert [message.priority for message in got] == sorted(priorities, reverse=True)


async def test_messages_that_were_not_read_in_time_are_not_handed_out(cluster, topic, consumer_of):
    await send(cluster, topic, 8)
    clock = ForwardClock()
    async with consumer_of(clock=clock, invisible_s=3600) as consumer:
        messages = consumer.receive(8)
        first = await anext(messages)
        assert consumer.is_held(first)
        clock.forward_s = 3601
        following = asyncio.create_task(anext(messages))
        await asyncio.wait([following], timeout=0.5)
        if following.done():  # Of another answer, which came later.
            assert consumer.is_held(following.result())
        following.cancel()
        await asyncio.wait([following])
        await messages.aclose()


async def test_messages_stay_invisible_while_their_consumer_runs(cluster, topic, consumer_of):
    await send(cluster, topic, 1)
    async with consumer_of(keep_invisible=True, invisible_s=1) as one, consumer_of() as other:
        (message,) = await one.receive_batch(timeout_s=60)
        assert await other.receive_batch(timeout_s=2) == []
        await one.nack(message, delay_s=0)
        (again,) = await other.receive_batch(timeout_s=60)
        assert again.attempts == again.receipt.attempts == 1
        await other.ack(again)


async def test_messages_of_a_lost_answer_are_redelivered(cluster, topic, consumer_of, monkeypatch):
    """The consumer runs, and brokers know it; but it never had that message."""
    await send(cluster, topic, 1)
    note, lost = ReceiptReports.note, []

    def losing(reports, found):
        if found.message_count and not lost:
            lost.append(found)
            raise ServiceUnavailable("the connection broke", retriable=True)
        note(reports, found)

    monkeypatch.setattr(ReceiptReports, "note", losing)
    async with consumer_of(keep_invisible=True, invisible_s=1) as one:
        (message,) = await one.receive_batch(timeout_s=60)
        assert lost
        assert message.attempts == 1
        await one.ack(message)


async def test_an_acknowledgement_without_an_answer_is_repeated(
    cluster, topic, consumer_of, monkeypatch
):
    await send(cluster, topic, 8)
    settle, tries = ReceiveCalls._settle, []

    async def losing(calls, *arguments):
        tries.append(arguments)
        if len(tries) == 1:
            raise DeadlinePassed("lost on its way")
        await settle(calls, *arguments)
        if len(tries) == 2:
            raise DeadlinePassed("its answer was lost")

    monkeypatch.setattr(ReceiveCalls, "_settle", losing)
    async with ClusterClient(cluster.name_servers) as client, consumer_of() as one:
        left = 8
        while left:
            batch = await one.receive_batch(8, timeout_s=60)
            await one.ack(*batch)
            left -= len(batch)
        assert len(tries) > 2
        assert sum(lag.message_count for lag in await client.consumer_lag(one.group)) == 0


async def test_an_acknowledgement_is_not_repeated_when_others_may_have_the_message(
    cluster, topic, consumer_of, monkeypatch
):
    await send(cluster, topic, 1)
    clock, tries = ForwardClock(), []

    async def losing(_calls, _receipts, _outcome, timeout_s, _address):
        tries.append(timeout_s)
        clock.forward_s += 25
        raise DeadlinePassed("lost on its way")

    monkeypatch.setattr(ReceiveCalls, "_settle", losing)
    async with consumer_of(clock=clock, invisible_s=60) as one:
        (message,) = await one.receive_batch(1, timeout_s=60)
        with pytest.raises(DeadlinePassed):
            await one.ack(message)
    assert tries == [3.0, 6.0, 12.0]


async def test_a_group_receives_in_order_when_it_is_told_so(cluster, topic, consumer_of):
    async with Producer(cluster.name_servers) as producer:
        for n in range(4):
            await producer.send(Message(topic, b"%d" % n, message_group="one"))
    async with ClusterClient(cluster.name_servers) as client, consumer_of() as one:
        await client.set_receive_in_order(one.group, in_order=True)
        (first,) = await one.receive_batch(8, timeout_s=60)
        await one.ack(first)
        await client.set_receive_in_order(one.group, in_order=False)
        others = await one.receive_batch(8, timeout_s=60)
    assert [message.body for message in (first, *others)] == [b"0", b"1", b"2", b"3"]


async def test_members_and_what_they_have_in_hand_are_shown(cluster, topic, consumer_of):
    await send(cluster, topic, 8)
    async with ClusterClient(cluster.name_servers) as client, consumer_of() as one:
        received = []
        while len(received) < 8:
            received += await one.receive_batch(timeout_s=60)
        async with asyncio.timeout(60):
            while not (members := await client.list_members(one.group)):  # noqa: ASYNC110 - in a broker.
                await asyncio.sleep(0.05)
        assert [(m.model, dict(m.subscriptions)) for m in members] == [("receiving", {topic: "*"})]
        await one.ack(*received[:3])
        lags = await client.consumer_lag(one.group)
        assert sum(lag.message_count for lag in lags) == 5
        assert sum(lag.in_flight_count for lag in lags) == 5
        assert sum(lag.ready_count for lag in lags) == 0


async def test_a_member_that_wants_something_else_is_refused(cluster, topic, consumer_of):
    await send(cluster, topic, 1)
    async with ClusterClient(cluster.name_servers) as client, consumer_of() as one:
        await one.receive_batch(timeout_s=60)
        async with asyncio.timeout(60):
            while not await client.list_members(one.group):  # noqa: ASYNC110 - in a broker.
                await asyncio.sleep(0.05)
        stranger = ReceiveConsumer(
            cluster.name_servers, group=one.group, subscriptions={topic: "rare"}
        )
        async with stranger:
            with pytest.raises(GroupRefused):
                await stranger.receive_batch(timeout_s=60)
            with pytest.raises(GroupRefused):
                await stranger.listen(lambda _: None)


async def test_a_listener_may_take_its_time(cluster, topic, consumer_of):
    """Longer than messages are invisible, and so may those that wait for it."""
    await send(cluster, topic, 4)
    tries, done = {}, asyncio.Event()

    async def work(message):
        tries[message.body] = tries.get(message.body, 0) + 1
        await asyncio.sleep(1.5)
        if len(tries) == 4:
            done.set()

    async with consumer_of(invisible_s=1) as consumer, consumer_of() as other:
        listening = asyncio.create_task(consumer.listen(work, concurrency=2))
        async with asyncio.timeout(60):
            await done.wait()
        assert await other.receive_batch(timeout_s=0) == []
        listening.cancel()
        await asyncio.wait([listening])
    assert set(tries.values()) == {1}


@pytest.mark.parametrize("end", ["cancelled", "closed"])
async def test_messages_of_a_closed_listener_go_to_others_at_once(cluster, topic, consumer_of, end):
    await send(cluster, topic, 4)
    begun = asyncio.Event()

    async def work(_message):
        begun.set()
        await asyncio.Event().wait()

    async with consumer_of(invisible_s=3600) as consumer, consumer_of() as other:
        listening = asyncio.create_task(consumer.listen(work, concurrency=2))
        await begun.wait()
        if end == "cancelled":
            listening.cancel()
        else:
            await consumer.close()
        with pytest.raises(asyncio.CancelledError if end == "cancelled" else ClientNotRunning):
            await listening
        got = set()
        async with asyncio.timeout(30):
            while len(got) < 4:
                got |= {message.body for message in await other.receive_batch(timeout_s=60)}


async def test_thousands_of_receipts_are_settled_at_once(cluster, topic, consumer_of, monkeypatch):
    monkeypatch.setattr(receive_calls, "SETTLEMENTS_MAX", 3)
    await send(cluster, topic, 10)
    async with consumer_of() as consumer:
        got = []
        while len(got) < 10:
            got += await consumer.receive_batch(1, timeout_s=60)
        await consumer.ack(*got)
        assert await consumer.receive_batch(timeout_s=0) == []


async def test_what_cannot_be_settled_is_refused_at_once(cluster, topic, consumer_of):
    await send(cluster, topic, 1)
    async with consumer_of() as consumer, consumer_of("others") as other:
        (message,) = await consumer.receive_batch(timeout_s=60)
        for wrong in (-1, float("nan"), float("inf"), 13 * 3600, "1"):
            with pytest.raises(IllegalArgument):
                await consumer.nack(message, delay_s=wrong)
            with pytest.raises(IllegalArgument):
                await consumer.extend(message, seconds=wrong)
        (own,) = await other.receive_batch(timeout_s=60)
        with pytest.raises(CallError, match="not made by this broker for this group"):
            await other.ack(message)
        await other.ack(own)
        record = encode_record(RecordFields(topic=topic, body=b"", properties={}))
        (pulled,) = received_messages(record, np.array([len(record)]), message.message_queue)
        with pytest.raises(IllegalArgument, match="ReceiveConsumer"):
            await consumer.ack(pulled)
        await consumer.ack(message)


async def test_programs_without_a_loop_receive(cluster, topic):
    await send(cluster, topic, 3)
    bodies = set()
    with BlockingReceiveConsumer(
        cluster.name_servers, group=f"sync-{topic}", subscriptions={topic: "*"}
    ) as consumer:
        for message in consumer.receive():
            bodies.add(message.body)
            consumer.ack(message)
            if len(bodies) == 3:
                break
    assert bodies == {b"0", b"1", b"2"}


async def test_without_a_loop_too_the_rest_is_given_back(cluster, topic, consumer_of):
    await send(cluster, topic, 3)

    def take_one():
        with BlockingReceiveConsumer(
            cluster.name_servers,
            group=f"billing-{topic}",
            subscriptions={topic: "*"},
            invisible_s=3600,
        ) as consumer:
            messages = consumer.receive()
            message = next(messages)
            consumer.ack(message)
            messages.close()
            return message.body

    got = {await asyncio.to_thread(take_one)}
    async with consumer_of() as other, asyncio.timeout(60):
        while len(got) < 3:
            got |= {message.body for message in await other.receive_batch(timeout_s=60)}


async def test_a_plain_listener_works_without_a_loop(cluster, topic):
    await send(cluster, topic, 3)
    bodies, done = set(), threading.Event()

    def work(message):
        bodies.add(message.body)
        if len(bodies) == 3:
            done.set()

    def listen():
        with BlockingReceiveConsumer(
            cluster.name_servers, group=f"sync-{topic}", subscriptions={topic: "*"}
        ) as consumer:
            listening = consumer._submit(consumer._client.listen(work, concurrency=2))
            assert done.wait(60)
            listening.cancel()
            return [list(batch) for batch in [consumer.receive_batch(timeout_s=0)]]

    assert await asyncio.to_thread(listen) == [[]]
    assert bodies == {b"0", b"1", b"2"}


@pytest.mark.parametrize(
    "options", [{"subscriptions": {}}, {"invisible_s": -1}, {"group": "no group"}]
)
def test_what_cannot_be_is_refused_at_once(options):
    given = {"group": "billing", "subscriptions": {"jobs": "*"}} | options
    with pytest.raises(IllegalArgument):
        ReceiveConsumer("127.0.0.1:1", **given)
