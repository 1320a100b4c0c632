"""How many topics, queues and groups a client can make, and what becomes of the rest."""

import asyncio
from collections import Counter

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane_broker.naming.announcement import BrokerAnnouncement
from ariane_broker.settings import BrokerSettings
from ariane_broker.topics.system_topics import system_topics
from ariane_broker.topics.topic_table import TopicChange, TopicTable
from ariane_namesrv.settings import NamesrvSettings
from ariane_storage.store import Store


async def test_topics_beyond_the_limit_are_refused_by_every_way_in(running, refused, reason_of):
    async with running(topics_max=3, default_queue_count=1) as broker:
        await broker.store("old", [b"a"])
        results = await broker.append(*(broker.batch(f"t-{n}", [b"b"]) for n in range(5)))
        errors = [reason_of(one.error) for one in results if one.error is not None]
        assert errors == ["TOPIC_LIMIT_REACHED"] * 3
        failure = await refused(broker.create_topic("another"))
        assert (failure.reason, failure.code) == ("TOPIC_LIMIT_REACHED", "FAILED_PRECONDITION")
        assert failure.metadata == {"setting": "topics_max", "limit": "3"}
        await broker.store("old", [b"c"])
        await broker.topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic="t-0"))
        await broker.create_topic("another")


async def test_queues_beyond_the_limit_are_refused(running, refused):
    async with running(queues_max=10) as broker:
        await broker.create_topic("a", 8)
        failure = await refused(broker.create_topic("b", 3))
        assert failure.metadata == {"setting": "queues_max", "limit": "10"}
        await broker.create_topic("b", 2)
        update = topic_pb.UpdateTopicRequest(topic="b", read_queue_count=3)
        failure = await refused(broker.topics.UpdateTopic(update))
        assert failure.reason == "TOPIC_LIMIT_REACHED"
        await broker.store("a", [b"served as before"], 7)


async def test_groups_beyond_the_limit_are_refused(running, refused):
    async with running(groups_max=2) as broker:

        def create(name):
            group = group_pb.ConsumerGroup(
                consumer_group=name, consume_enabled=True, broadcast_enabled=True
            )
            request = group_pb.CreateConsumerGroupRequest(group=group)
            return broker.groups.CreateConsumerGroup(request)

        await create("one")
        await create("two")
        failure = await refused(create("three"))
        assert (failure.reason, failure.code) == ("GROUP_LIMIT_REACHED", "FAILED_PRECONDITION")

        async def attach(group):
            member = client_pb.Membership(consumer_group=group)
            hello = client_pb.ClientHello(client_id="c", memberships=[member])
            call = broker.clients.Attach()
            await call.write(client_pb.AttachRequest(hello=hello))
            return await call.read()

        assert (await refused(attach("three"))).reason == "GROUP_LIMIT_REACHED"
        assert (await attach("two")).accepted.broker_name == "broker-a"


def test_all_that_a_broker_makes_stands_in_routes_by_default():
    settings = BrokerSettings.model_fields
    own = len(system_topics(auto_create_topics=True, default_queue_count=4))
    made = settings["topics_max"].default + 2 * settings["groups_max"].default
    assert own + made <= NamesrvSettings.model_fields["topics_per_broker_max"].default


def test_an_announcement_leaves_out_the_youngest_topics_that_have_no_room(tmp_path):
    table = TopicTable(now_ms=lambda: 1, default_queue_count=4)
    for name in ("z-old", "y-old", *(f"flood-{n:03}" for n in range(100))):
        table.put(table.created(name, TopicChange()))
    settings = BrokerSettings(store_path=tmp_path)
    whole = BrokerAnnouncement(settings, table, "i").registration()
    assert (len(whole.topics), whole.unannounced_topic_count) == (102, 0)
    small = BrokerAnnouncement(settings, table, "i", bytes_max=500).registration()
    names = [topic.topic for topic in small.topics]
    assert names[:3] == ["z-old", "y-old", "flood-000"]
    assert 10 < len(names) < 50
    assert small.unannounced_topic_count == 102 - len(names)
    assert small.ByteSize() < 500 + 100


async def test_very_many_new_topics_of_one_request_do_not_hold_up_others(running, monkeypatch):
    async with running(auto_create_topics=True) as broker:
        turn = 0
        turns = Counter()
        append = Store.append

        def counted(store, *arguments, **options):
            turns[turn] += 1
            return append(store, *arguments, **options)

        async def count_turns():
            nonlocal turn
            while True:
                await asyncio.sleep(0)
                turn += 1

        monkeypatch.setattr(Store, "append", counted)
        batches = [broker.batch(f"t-{number}", [b"b"]) for number in range(500)]
        counting = asyncio.create_task(count_turns())
        results = await broker.append(*batches)
        counting.cancel()
        assert not [result.error for result in results if result.error is not None]
        assert sum(turns.values()) == 500
        assert max(turns.values()) <= 64
