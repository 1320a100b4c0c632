"""Offsets set anew under living members: nothing is lost, nothing repeated beyond the reset."""

import asyncio
import itertools
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from ariane_sdk import (
    ClusterClient,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    PushSettings,
    errors,
    sync,
)

_numbers = itertools.count()

BRISK = PushSettings(
    rebalance_gap_s_min=0.05, handover_s=0.2, offset_store_interval_s=0.05, hold_s=2.0
)


@pytest.fixture
async def client(cluster):
    async with ClusterClient(cluster.name_servers) as running:
        yield running


@pytest.fixture
async def topic(client):
    name = f"resets-{next(_numbers)}"
    await client.create_topic(name, queue_count=2)
    return name


@pytest.fixture
def send(cluster, topic):
    async def send_numbers(begin, end):
        async with Producer(cluster.name_servers) as producer:
            await producer.send_batch(
                [
                    Message(topic, str(n).encode(), message_group=f"g{n % 16}")
                    for n in range(begin, end)
                ]
            )

    return send_numbers


class Tally:
    """Counts what a group's members are done with."""

    def __init__(self):
        self.done = Counter()

    async def __call__(self, messages):
        await asyncio.sleep(0.001)
        self.done.update(int(message.body) for message in messages)


@pytest.fixture
def make_member(cluster, topic):
    def make(tally, group, **arguments):
        options = {"start": "earliest", "batch_size": 5, "settings": BRISK} | arguments
        return PushConsumer(
            cluster.name_servers,
            group=group,
            subscriptions={topic: "*"},
            listener=tally,
            **options,
        )

    return make


async def wait_until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - there is nothing to be told by.
            await asyncio.sleep(0.02)


async def lag_of(client, group):
    return sum(lag.message_count for lag in await client.consumer_lag(group))


async def wait_done(client, group):
    async with asyncio.timeout(60):
        while await lag_of(client, group):  # noqa: ASYNC110 - the other side of a wire
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("ordered", [False, True])
async def test_living_members_begin_again_and_nothing_comes_a_third_time(
    client, topic, send, make_member, ordered
):
    group = f"again-{ordered}"
    tally = Tally()
    await send(0, 300)
    async with (
        make_member(tally, group, ordered=ordered) as first,
        make_member(tally, group, ordered=ordered) as second,
    ):
        await wait_until(lambda: first.assignment and second.assignment)
        await wait_until(lambda: len(tally.done) == 300)
        await wait_done(client, group)
        before = Counter(tally.done)
        offsets = await client.reset_offsets(group, topic, "earliest")
        assert set(offsets.values()) == {0}
        await wait_until(lambda: all(tally.done[n] > before[n] for n in range(300)))
        await wait_done(client, group)
        await send(300, 320)
        await wait_until(lambda: len(tally.done) == 320)
        await wait_done(client, group)

    # Two members came one after the other, so that a hand-over may have repeated some before.
    assert {tally.done[n] - before[n] for n in range(300)} == {1}
    assert {tally.done[n] for n in range(300, 320)} == {1}


async def test_a_reset_while_messages_are_in_work_is_not_undone(client, topic, send, make_member):
    started, finish = asyncio.Event(), asyncio.Event()
    seen = []

    async def listen(messages):
        seen.extend(int(message.body) for message in messages)
        started.set()
        await finish.wait()

    await send(0, 40)
    async with make_member(listen, "in-work") as member:
        await started.wait()
        await member.wait_assigned()
        await client.reset_offsets("in-work", topic, "latest")
        # Told, it drops all queues, and has those not again that its listener is busy with.
        await wait_until(lambda: len(member.assignment) < 4)
        finish.set()
        await wait_done(client, "in-work")
        await send(40, 45)
        await wait_until(lambda: set(range(40, 45)) <= set(seen))
        assert await lag_of(client, "in-work") <= 5
    # What was in work was finished; what came behind it was skipped. How much that is depends on
    # when each of the two brokers has told the member.
    assert len(seen) == len(set(seen)) < 45


async def test_targets(client, topic, send, make_member):
    tally = Tally()
    await send(0, 20)
    async with make_member(tally, "targets"):
        await wait_until(lambda: len(tally.done) == 20)
    ends = await client.reset_offsets("targets", topic, "latest", validate_only=True)
    assert len(ends) == 4
    assert sum(ends.values()) == 20
    assert await client.reset_offsets("targets", topic, "earliest") == dict.fromkeys(ends, 0)
    assert await client.reset_offsets("targets", topic, datetime.now(UTC)) == {}
    assert await client.reset_offsets("targets", topic, datetime.now(UTC), skip=True) == ends
    past = datetime.now(UTC) - timedelta(hours=1)
    assert set((await client.reset_offsets("targets", topic, past)).values()) == {0}
    queue, end = next((queue, end) for queue, end in ends.items() if end)
    assert await client.reset_offsets("targets", topic, {queue: end}) == {queue: end}
    assert await lag_of(client, "targets") == 20 - end
    with pytest.raises(errors.QueueOffsetOutOfRange):
        await client.reset_offsets("targets", topic, {queue: end + 1})
    for nonsense in ({}, {MessageQueue(topic, "nowhere", 0): 0}, "middle"):
        with pytest.raises(errors.IllegalArgument):
            await client.reset_offsets("targets", topic, nonsense)
    with pytest.raises(errors.GroupNotFound):
        await client.reset_offsets("nobody", topic, "earliest")


async def test_a_clone_goes_on_where_the_other_group_stands(
    client, topic, send, make_member, cluster
):
    tally = Tally()
    await send(0, 30)
    async with make_member(tally, "original"):
        await wait_until(lambda: len(tally.done) == 30)
    copied = await client.clone_offsets("original", "copy", topic)
    assert sum(copied.values()) == 30
    await send(30, 35)
    copy_tally = Tally()
    async with make_member(copy_tally, "copy"):
        await wait_until(lambda: len(copy_tally.done) == 5)
        # The other way round, under a living member: to it this is a reset.
        await client.reset_offsets("original", topic, "earliest")
        blocking = sync.ClusterClient(cluster.name_servers)

        def clone():
            with blocking:
                return blocking.clone_offsets("original", "copy", topic)

        assert set((await asyncio.to_thread(clone)).values()) == {0}
        expected = {n: 2 if n >= 30 else 1 for n in range(35)}
        await wait_until(lambda: copy_tally.done == expected)


async def test_a_clone_to_the_group_itself_disturbs_nobody(client, topic):
    with pytest.raises(errors.IllegalArgument, match="same"):
        await client.clone_offsets("same", "same", topic)
