"""Deleting a group: all that belongs to nobody else goes with it."""

import asyncio

import numpy as np
import pytest
from google.protobuf.duration_pb2 import Duration

from ariane.broker.v1 import broker_service_pb2 as broker_pb
from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane.broker.v1 import receive_service_pb2 as receive_pb
from ariane.broker.v1 import retry_service_pb2 as retry_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane_broker.topics.topic_changes import TopicChanges
from ariane_record.decoding.columns import decode_columns
from ariane_record.names import dead_letter_topic, retry_topic
from ariane_testkit.java_names import JAVA_GROUP, leave_java_names

GROUP, TOPIC = "billing", "orders"
RETRY, DEAD = retry_topic(GROUP), dead_letter_topic(GROUP)


async def messages_of(broker, topic):
    (pulled,) = await broker.pull((topic, 0, 0), group=GROUP)
    if pulled.HasField("error") or not pulled.record_sizes:
        return []
    columns = decode_columns(pulled.records, np.frombuffer(pulled.record_sizes, "<i4"))
    return list(map(columns.message, range(len(columns))))


async def make_group(broker):
    policy = group_pb.RetryPolicy(table=group_pb.DelayTable(delays=[Duration(nanos=10_000_000)]))
    group = group_pb.ConsumerGroup(
        consumer_group=GROUP, consume_enabled=True, attempts_max=16, retry_policy=policy
    )
    await broker.groups.CreateConsumerGroup(group_pb.CreateConsumerGroupRequest(group=group))


async def take_back(broker, message, **fields):
    return await broker.retries.ReturnMessage(
        retry_pb.ReturnMessageRequest(
            consumer_group=GROUP,
            topic=message.topic,
            queue_id=message.queue_id,
            commit_log_offset=message.commit_log_offset,
            **fields,
        )
    )


async def redrive(broker):
    """Send the dead letter to its topic: its group is no more."""
    request = retry_pb.RedriveDeadLettersRequest(
        consumer_group=GROUP, queue_offsets=[0], target=retry_pb.REDRIVE_TARGET_ORIGIN
    )
    return await broker.retries.RedriveDeadLetters(request)


async def live(broker):
    """Have one message come again, and another one be dead."""
    await make_group(broker)
    assert not await broker.store_offset(GROUP, TOPIC, 0, 2)
    failed, dead = await messages_of(broker, TOPIC)
    assert not (await take_back(broker, failed)).duplicate
    assert not (await take_back(broker, dead, dead_letter=True)).duplicate
    async with asyncio.timeout(60):
        while not await messages_of(broker, RETRY):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
    assert [letter.body for letter in await messages_of(broker, DEAD)] == [b"dead"]


async def delete(broker, **fields):
    request = group_pb.DeleteConsumerGroupRequest(consumer_group=GROUP, **fields)
    return await broker.groups.DeleteConsumerGroup(request)


async def topics(broker):
    response = await broker.topics.ListTopics(topic_pb.ListTopicsRequest(include_system=True))
    return {topic.topic for topic in response.topics}


@pytest.fixture
async def prepared(broker):
    await broker.create_topic(TOPIC)
    await broker.store(TOPIC, [b"failed", b"dead"])
    return broker


async def test_its_offsets_its_retry_topic_and_its_dead_letters_go(prepared, refused):
    await live(prepared)
    deleted = await delete(prepared)
    assert (deleted.retry_message_count, deleted.dead_letter_count) == (1, 1)
    assert await prepared.known_offset(GROUP, TOPIC) is None
    assert {RETRY, DEAD}.isdisjoint(await topics(prepared))
    assert TOPIC in await topics(prepared)
    assert (await refused(delete(prepared))).reason == "GROUP_NOT_FOUND"


async def test_a_group_of_the_same_name_begins_anew(prepared):
    await live(prepared)
    assert (await redrive(prepared)).redriven_count == 1
    await delete(prepared)
    # Nothing that it returns is taken for a repetition; its dead letters are others.
    await make_group(prepared)
    failed, dead, *_ = await messages_of(prepared, TOPIC)
    assert not (await take_back(prepared, dead, dead_letter=True)).duplicate
    assert not (await take_back(prepared, failed)).duplicate
    assert [letter.body for letter in await messages_of(prepared, DEAD)] == [b"dead"]
    assert (await redrive(prepared)).redriven_count == 1


async def test_a_group_of_the_same_name_is_no_stream_query(prepared):
    async def stored(**fields):
        offset = offset_pb.QueueConsumerOffset(topic=TOPIC, queue_offset=1)
        await prepared.offsets.StoreConsumerOffsets(
            offset_pb.StoreConsumerOffsetsRequest(consumer_group=GROUP, offsets=[offset], **fields)
        )
        request = offset_pb.ListConsumerLagsRequest(consumer_group=GROUP)
        (lag,) = (await prepared.offsets.ListConsumerLags(request)).lags
        return lag.stream_query.engine

    assert await stored(stream_engine="Spark 4.3.0") == "Spark 4.3.0"
    assert await stored() == "Spark 4.3.0"
    await delete(prepared)
    assert not await stored()


@pytest.mark.parametrize("lost", ["nothing", "returnedMessages.json", "redrivenDeadLetters.json"])
async def test_nothing_of_it_is_read_from_the_log_later(running, tmp_path, lost):
    async with running() as broker:
        await broker.create_topic(TOPIC)
        await broker.store(TOPIC, [b"failed", b"dead"])
        await live(broker)
        assert (await redrive(broker)).redriven_count == 1
        await delete(broker)
    for path in (tmp_path / "store" / "config").glob(f"{lost}*"):
        path.unlink()
    async with running() as broker:
        assert {RETRY, DEAD}.isdisjoint(await topics(broker))
        await make_group(broker)
        failed, dead, *_ = await messages_of(broker, TOPIC)
        assert not (await take_back(broker, failed)).duplicate
        assert not (await take_back(broker, dead, dead_letter=True)).duplicate
        assert (await redrive(broker)).redriven_count == 1


async def test_dead_letters_may_be_kept(prepared):
    await live(prepared)
    deleted = await delete(prepared, keep_dead_letters=True)
    assert deleted.dead_letter_count == 1
    assert RETRY not in await topics(prepared)
    assert [letter.body for letter in await messages_of(prepared, DEAD)] == [b"dead"]
    assert (await redrive(prepared)).redriven_count == 1
    assert (await redrive(prepared)).duplicate_count == 1


async def attaching(broker, incarnation=""):
    """The stream of a member of the group that asks to be let in."""
    call = broker.clients.Attach()
    hello = client_pb.ClientHello(
        client_id="a",
        memberships=[client_pb.Membership(consumer_group=GROUP)],
        incarnation=incarnation,
    )
    await call.write(client_pb.AttachRequest(hello=hello))
    return call


async def attached(broker, incarnation=""):
    """A member of the group; its stream."""
    call = await attaching(broker, incarnation)
    assert (await call.read()).HasField("accepted")
    return call


async def groups(broker):
    listed = await broker.groups.ListConsumerGroups(group_pb.ListConsumerGroupsRequest())
    return {group.consumer_group for group in listed.groups}


async def detached(broker):
    """Wait until the group has no member."""
    wanted = client_pb.ListGroupMembersRequest(consumer_group=GROUP)
    async with asyncio.timeout(60):
        while (await broker.clients.ListGroupMembers(wanted)).members:  # noqa: ASYNC110 - a wire
            await asyncio.sleep(0.005)


async def test_a_group_with_members_stays(prepared, refused):
    call = await attached(prepared)
    failure = await refused(delete(prepared))
    assert (failure.reason, failure.metadata["member_count"]) == ("GROUP_IN_USE", "1")
    assert RETRY in await topics(prepared)
    call.cancel()


async def test_who_comes_while_a_group_is_deleted_keeps_it(prepared, refused, monkeypatch):
    await live(prepared)
    delete_topic, calls = TopicChanges.delete_for_group, []

    async def and_come(changes, topic):
        await delete_topic(changes, topic)
        if not calls:
            calls.append(await attached(prepared))

    monkeypatch.setattr(TopicChanges, "delete_for_group", and_come)
    assert (await refused(delete(prepared))).reason == "GROUP_IN_USE"
    assert await prepared.known_offset(GROUP, TOPIC) == 2
    assert RETRY in await topics(prepared)
    assert GROUP in await groups(prepared)
    calls[0].cancel()


@pytest.mark.parametrize("incarnation", ["", "first"])
async def test_who_was_away_while_a_group_was_deleted_does_not_make_it_anew(
    prepared, refused, incarnation
):
    lost = await attached(prepared, incarnation)
    lost.cancel()  # Without a goodbye, as one that is frozen.
    await detached(prepared)
    await delete(prepared)
    offset = offset_pb.QueueConsumerOffset(topic=TOPIC, queue_offset=1)
    stored = offset_pb.StoreConsumerOffsetsRequest(
        consumer_group=GROUP, client_id="a", offsets=[offset]
    )
    order = receive_pb.ReceiveOrder(
        consumer_group=GROUP, client_id="a", subscriptions=[{"topic": TOPIC}]
    )
    received = receive_pb.ReceiveMessagesRequest(order=order)
    for call in (
        (await attaching(prepared, incarnation)).read(),
        prepared.offsets.StoreConsumerOffsets(stored),
        prepared.receives.ReceiveMessages(received).read(),
    ):
        failure = await refused(call)
        assert (failure.reason, failure.metadata["deleted"]) == ("GROUP_NOT_FOUND", "true")
    assert GROUP not in await groups(prepared)
    # Another process under the same name is a first member.
    call = await attached(prepared, "second")
    assert GROUP in await groups(prepared)
    assert not (await prepared.offsets.StoreConsumerOffsets(stored)).refused
    call.cancel()


@pytest.mark.parametrize("way", ["goodbye", "made anew"])
async def test_who_has_left_or_comes_to_a_new_group_of_the_name_is_let_in(prepared, way):
    member = await attached(prepared, "one")
    if way == "goodbye":
        await member.write(client_pb.AttachRequest(goodbye=client_pb.ClientGoodbye()))
        await member.done_writing()
    else:
        member.cancel()
    await detached(prepared)
    await delete(prepared)
    if way == "made anew":
        await make_group(prepared)
    (await attached(prepared, "one")).cancel()


async def test_messages_that_wait_for_their_next_try_are_dropped(running, clock):
    async with running(delay_levels="1s " * 17 + "1s") as broker:
        await broker.create_topic(TOPIC)
        await broker.store(TOPIC, [b"failed"])
        group = group_pb.ConsumerGroup(consumer_group=GROUP, consume_enabled=True, attempts_max=16)
        await broker.groups.CreateConsumerGroup(group_pb.CreateConsumerGroupRequest(group=group))
        (failed,) = await messages_of(broker, TOPIC)
        await take_back(broker, failed)
        await delete(broker)
        clock.advance(1)
        request = broker_pb.GetBrokerStateRequest()
        async with asyncio.timeout(60):
            while not (  # noqa: ASYNC110 - nobody tells
                await broker.broker.GetBrokerState(request)
            ).delayed_messages.dropped_count:
                await asyncio.sleep(0.01)
        assert RETRY not in await topics(broker)
        await broker.store(TOPIC, [b"more"])


async def test_a_group_that_a_java_broker_left_can_be_deleted_whatever_its_name(running, tmp_path):
    leave_java_names(
        tmp_path / "store", topics=[TOPIC], groups=[JAVA_GROUP], offsets={TOPIC: JAVA_GROUP}
    )
    async with running() as broker:
        assert await broker.known_offset(JAVA_GROUP, TOPIC, 0) == 0
        deletion = group_pb.DeleteConsumerGroupRequest(consumer_group=JAVA_GROUP)
        await broker.groups.DeleteConsumerGroup(deletion)
        assert await broker.known_offset(JAVA_GROUP, TOPIC, 0) is None
        listed = await broker.groups.ListConsumerGroups(group_pb.ListConsumerGroupsRequest())
        assert JAVA_GROUP not in {group.consumer_group for group in listed.groups}
