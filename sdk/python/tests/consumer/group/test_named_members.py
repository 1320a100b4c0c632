"""Named members keep their queues over a restart, and hear of queues before they move."""

import asyncio
import itertools
from collections import Counter, defaultdict

import pytest

from ariane_sdk import ClusterClient, Message, Producer, PushConsumer, PushSettings
from ariane_sdk.client.attachment import Attachment
from ariane_sdk.consumer.group import attachments
from ariane_sdk.errors import IllegalArgument

_numbers = itertools.count()

BRISK = {
    "rebalance_gap_s_min": 0.02,
    "handover_s": 0.02,
    "offset_store_interval_s": 0.1,
    "hold_s": 2.0,
}


@pytest.fixture
async def topic(cluster):
    name = f"named-{next(_numbers)}"
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic(name, queue_count=10)
    return name


class Crew:
    """Members of a group, and which of them got what."""

    def __init__(self, cluster, topic):
        self.cluster, self.topic = cluster, topic
        self.got = Counter()
        self.owners = defaultdict(set)
        self.notices = []

    def member(self, name, **settings):
        async def listen(messages):
            self.got.update(message.body for message in messages)
            self.owners[messages[0].message_queue].add(name)

        async def on_gained(queues):
            await asyncio.sleep(0)
            self.notices.append(("gained", name, queues))

        def on_lost(queues):
            self.notices.append(("lost", name, queues))

        options = BRISK | {"on_gained": on_gained, "on_lost": on_lost} | settings
        return PushConsumer(
            self.cluster.name_servers,
            group=f"crew-{self.topic}",
            subscriptions={self.topic: "*"},
            listener=listen,
            start="earliest",
            settings=PushSettings(member_name=name, **options),
        )

    async def settle(self, members, count):
        async with asyncio.timeout(60):
            while True:
                shares = [each.assignment for each in members]
                sizes = list(map(len, shares))
                even = max(sizes) - min(sizes) <= 1
                if even and sum(sizes) == len(frozenset().union(*shares)) == count:
                    return shares
                await asyncio.sleep(0.02)


async def test_a_rolling_restart_moves_no_queue_and_repeats_no_message(cluster, topic):
    crew, names, stopped = Crew(cluster, topic), [f"m{n}" for n in range(10)], asyncio.Event()
    sent = itertools.count()

    async def send():
        async with Producer(cluster.name_servers) as producer:
            while not stopped.is_set():
                await producer.send_batch([Message(topic, b"%d" % next(sent)) for _ in range(10)])
                await asyncio.sleep(0.005)

    members = [crew.member(name) for name in names]
    await asyncio.gather(*(member.start() for member in members))
    try:
        shares = await crew.settle(members, 20)
        crew.owners.clear()
        sending = asyncio.create_task(send())
        for place, name in enumerate(names):
            await members[place].close()
            members[place] = crew.member(name)
            await members[place].start()
            await members[place].wait_assigned()
        assert await crew.settle(members, 20) == shares
        stopped.set()
        await sending
        count = next(sent)
        async with asyncio.timeout(60):
            while len(crew.got) < count:  # noqa: ASYNC110 - there is nothing to be told by.
                await asyncio.sleep(0.02)
    finally:
        stopped.set()
        await asyncio.gather(*(member.close() for member in members))
    assert set(crew.got.values()) == {1}
    assert {len(owners) for owners in crew.owners.values()} == {1}


async def test_a_named_member_that_is_away_is_listed(cluster, topic):
    crew, group = Crew(cluster, topic), f"crew-{topic}"
    async with crew.member("stays") as one, ClusterClient(cluster.name_servers) as client:
        async with crew.member("goes") as gone:
            shares = await crew.settle([one, gone], 20)
        away = {each.client_id: each.away for each in await client.list_members(group)}
        assert away == {f"stays@{group}": False, f"goes@{group}": True}
        assert one.assignment == shares[0]


async def test_each_consumer_of_a_name_is_another_incarnation(cluster, topic, monkeypatch):
    # Also in one process and its forks: else a worker that replaces a dead one is taken for it.
    said = []

    def attach(*given, incarnation, **named):
        said.append(incarnation)
        return Attachment(*given, incarnation=incarnation, **named)

    monkeypatch.setattr(attachments, "Attachment", attach)
    crew = Crew(cluster, topic)
    for _ in range(2):
        async with crew.member("one"):
            pass
    # One each, whatever the number of brokers.
    assert len(set(said)) == 2
    assert all(said)


async def test_queues_are_told_of_before_they_move(cluster, topic):
    crew = Crew(cluster, topic)
    one = crew.member("one", member_absence_s=0)
    async with one:
        await crew.settle([one], 20)
        assert crew.notices
        gained = [queue for kind, _, queues in crew.notices if kind == "gained" for queue in queues]
        assert set(gained) == one.assignment
        crew.notices.clear()

        def fail(_queues):
            raise ValueError("not now")

        async with crew.member("two", member_absence_s=0, on_gained=fail) as two:
            await crew.settle([one, two], 20)
            lost = {q for kind, _, queues in crew.notices if kind == "lost" for q in queues}
            # What fails there is logged, and the queues move all the same.
            assert lost == two.assignment
            assert len(lost) == 10
    told = [name for kind, name, queues in crew.notices if kind == "lost" and len(queues) > 1]
    assert told == ["two", "one"]
    with pytest.raises(IllegalArgument, match="member_name"):
        crew.member("a\nb")
