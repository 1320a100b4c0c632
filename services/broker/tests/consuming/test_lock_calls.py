"""Locks and conflicts over the wire."""

import asyncio

import pytest

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.broker.v1 import queue_lock_pb2 as lock_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane.common.v1 import subscription_pb2 as subscription_pb


def membership(group="group", text="*", topic="orders", **fields):
    subscription = subscription_pb.Subscription(
        topic=topic,
        filter=subscription_pb.FilterExpression(kind=subscription_pb.FILTER_KIND_TAG, text=text),
    )
    return client_pb.Membership(consumer_group=group, subscriptions=[subscription], **fields)


async def attach(broker, client_id, *memberships):
    call = broker.clients.Attach()
    hello = client_pb.ClientHello(client_id=client_id, memberships=memberships)
    await call.write(client_pb.AttachRequest(hello=hello))
    assert (await call.read()).WhichOneof("content") == "accepted"
    return call


async def lock(broker, client_id, *queue_ids):
    request = lock_pb.LockQueuesRequest(
        consumer_group="group",
        client_id=client_id,
        queues=[{"topic": "orders", "queue_id": queue_id} for queue_id in queue_ids],
    )
    response = await broker.clients.LockQueues(request)
    return {queue.queue_id: queue.lock_epoch for queue in response.queues}


async def unlock(broker, client_id, queue_id):
    request = lock_pb.UnlockQueuesRequest(
        consumer_group="group",
        client_id=client_id,
        queues=[{"topic": "orders", "queue_id": queue_id}],
    )
    return (await broker.clients.UnlockQueues(request)).queue_count


async def store(broker, client_id, offset, epoch):
    wanted = offset_pb.QueueConsumerOffset(topic="orders", queue_offset=offset, lock_epoch=epoch)
    request = offset_pb.StoreConsumerOffsetsRequest(
        consumer_group="group", client_id=client_id, offsets=[wanted]
    )
    return list((await broker.offsets.StoreConsumerOffsets(request)).refused)


def pull_call(broker, client_id, epoch=None, *, text="*", hold_s=0):
    request = pull_pb.PullRecordsRequest(
        consumer_group="group",
        client_id=client_id,
        positions=[pull_pb.PullPosition(topic="orders", lock_epoch=epoch)],
        subscriptions=membership(text=text).subscriptions,
    )
    request.hold_duration.FromMilliseconds(round(hold_s * 1000))
    return broker.pulls.PullRecords(request)


@pytest.fixture
async def brisk(running):
    """A broker whose locks die soon."""
    async with running(queue_lock_lease_s=0.3) as broker:
        await broker.create_topic("orders", 2)
        yield broker


async def test_only_ordered_members_own_queues(brisk, refused):
    assert (await refused(lock(brisk, "a", 0))).reason == "CLIENT_NOT_ATTACHED"
    plain = await attach(brisk, "a", membership())
    assert (await refused(lock(brisk, "a", 0))).reason == "CLIENT_NOT_ATTACHED"
    plain.cancel()
    call = await attach(brisk, "b", membership(group="group", ordered=True))
    assert set(await lock(brisk, "b", 0, 1)) == {0, 1}
    call.cancel()


async def test_queues_that_are_not_there_cost_no_other_its_lock(brisk):
    await brisk.create_topic("gone", 2)
    call = await attach(brisk, "a", membership(ordered=True))
    request = lock_pb.LockQueuesRequest(
        consumer_group="group",
        client_id="a",
        queues=[{"topic": topic, "queue_id": 0} for topic in ("gone", "orders")],
    )
    assert {queue.topic for queue in (await brisk.clients.LockQueues(request)).queues} == {
        "gone",
        "orders",
    }
    await brisk.topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic="gone"))
    assert [queue.topic for queue in (await brisk.clients.LockQueues(request)).queues] == ["orders"]
    assert set(await lock(brisk, "a", -1, 0, 1, 2)) == {0, 1}
    call.cancel()


async def test_requests_of_a_dead_owner_are_refused(brisk, reason_of):
    await brisk.store("orders", [b"a", b"b", b"c"])
    calls = [await attach(brisk, name, membership(ordered=True)) for name in "ab"]
    first = (await lock(brisk, "a", 0))[0]
    assert await lock(brisk, "b", 0) == {}
    assert await store(brisk, "a", 1, first) == []
    [entry] = await store(brisk, "b", 3, None)
    assert reason_of(entry.error) == "QUEUE_LOCKED"
    second = {}
    async with asyncio.timeout(60):
        while not second:
            second = await lock(brisk, "b", 0)
    [entry] = await store(brisk, "a", 3, first)
    assert reason_of(entry.error) == "QUEUE_LOCK_FENCED"
    assert await brisk.known_offset("group", "orders") == 1
    for epoch, expected in ((first, "QUEUE_LOCK_FENCED"), (None, "QUEUE_LOCKED")):
        [queue] = (await pull_call(brisk, "a", epoch)).queues
        assert (reason_of(queue.error), queue.records) == (expected, b"")
    [queue] = (await pull_call(brisk, "b", second[0])).queues
    assert queue.max_queue_offset == 3
    assert not queue.HasField("error")
    for call in calls:
        call.cancel()


async def test_who_has_no_lock_may_begin_for_who_has_it(brisk):
    """All members begin in all queues of a topic that is new to their group."""
    await brisk.store("orders", [b"a", b"b"])
    await attach(brisk, "a", membership(ordered=True))
    assert await lock(brisk, "a", 0)
    wanted = offset_pb.QueueConsumerOffset(
        topic="orders", queue_offset=1, rule=offset_pb.STORE_RULE_BEGIN
    )
    request = offset_pb.StoreConsumerOffsetsRequest(consumer_group="group", offsets=[wanted])
    assert not (await brisk.offsets.StoreConsumerOffsets(request)).refused
    assert await brisk.known_offset("group", "orders") == 1


async def test_a_held_pull_gives_nothing_to_who_lost_the_lock_meanwhile(brisk, reason_of):
    calls = [await attach(brisk, name, membership(ordered=True)) for name in "ab"]
    first = (await lock(brisk, "a", 0))[0]
    held = asyncio.ensure_future(pull_call(brisk, "a", first, hold_s=20))
    async with asyncio.timeout(60):
        while not await lock(brisk, "b", 0):
            pass
    await brisk.store("orders", [b"a"])
    [queue] = (await held).queues
    assert reason_of(queue.error) == "QUEUE_LOCK_FENCED"
    for call in calls:
        call.cancel()


async def test_giving_back_a_lock_notifies_the_others(running):
    async with running() as broker:
        await broker.create_topic("orders", 2)
        first = await attach(broker, "a", membership(ordered=True))
        second = await attach(broker, "b", membership(ordered=True))
        assert (await first.read()).WhichOneof("content") == "membership_changed"
        before = await lock(broker, "a", 0)
        assert await unlock(broker, "b", 0) == 0
        assert await unlock(broker, "a", 0) == 1
        assert (await second.read()).membership_changed.consumer_group == "group"
        assert (await lock(broker, "b", 0))[0] > before[0]
        first.cancel()
        second.cancel()


async def test_locks_outlive_a_restart(running):
    async with running() as broker:
        await broker.create_topic("orders")
        call = await attach(broker, "a", membership(ordered=True))
        epochs = await lock(broker, "a", 0)
        call.cancel()
    async with running() as broker:
        calls = [await attach(broker, name, membership(ordered=True)) for name in "ab"]
        assert await lock(broker, "b", 0) == {}
        assert await store(broker, "a", 0, epochs[0]) == []
        assert await lock(broker, "a", 0) == epochs
        for call in calls:
            call.cancel()


async def conflicts(broker, group=""):
    request = client_pb.ListSubscriptionConflictsRequest(consumer_group=group)
    return list((await broker.clients.ListSubscriptionConflicts(request)).conflicts)


async def test_a_refused_member_is_shown_with_the_one_it_differs_from(broker, refused):
    call = await attach(broker, "a", membership(text="x"))
    for _ in range(2):
        failure = await refused(attach(broker, "b", membership(text="y")))
        assert failure.reason == "SUBSCRIPTION_CONFLICT"
    [conflict] = await conflicts(broker, "group")
    assert (conflict.member.client_id, conflict.newcomer.client_id) == ("a", "b")
    assert conflict.member.membership.subscriptions[0].filter.text == "x"
    assert conflict.newcomer.membership.subscriptions[0].filter.text == "y"
    assert conflict.newcomer.address.startswith("127.0.0.1:")
    assert (conflict.refused, conflict.count) == (True, 2)
    assert "orders" in conflict.difference
    assert await conflicts(broker, "other") == []
    call.cancel()


async def test_members_that_a_group_lets_in_are_shown_while_they_live(broker):
    await broker.create_topic("orders")
    policy = group_pb.SUBSCRIPTION_CONFLICT_POLICY_FLAG
    group = group_pb.ConsumerGroup(
        consumer_group="group", consume_enabled=True, subscription_conflict_policy=policy
    )
    await broker.groups.CreateConsumerGroup(group_pb.CreateConsumerGroupRequest(group=group))
    first = await attach(broker, "a", membership(text="x"))
    second = await attach(broker, "b", membership(text="y"))
    [conflict] = await conflicts(broker)
    assert (conflict.member.client_id, conflict.newcomer.client_id) == ("a", "b")
    assert not conflict.refused
    assert len((await pull_call(broker, "b", text="y")).queues) == 1
    assert len((await pull_call(broker, "b", text="x")).queues) == 1
    second.cancel()
    async with asyncio.timeout(60):
        while await conflicts(broker):
            pass
    first.cancel()


async def test_a_pull_that_wants_something_else_is_refused(broker, refused):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a"])
    call = await attach(broker, "a", membership(text="x||y"))
    assert len((await pull_call(broker, "a", text="y || x")).queues) == 1
    for client_id, text in (("a", "x"), ("stranger", "*"), ("", "x")):
        failure = await refused(pull_call(broker, client_id, text=text))
        assert (failure.reason, failure.metadata["member"]) == ("SUBSCRIPTION_CONFLICT", "a")
    assert {c.newcomer.client_id for c in await conflicts(broker)} == {"a", "stranger", ""}
    call.cancel()
