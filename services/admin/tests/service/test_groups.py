"""Groups and backlogs through the service."""

import asyncio
import json

import pytest
from grpc import StatusCode, aio
from grpc.aio import AioRpcError

from ariane.admin.v1 import audit_service_pb2 as audit_pb
from ariane.admin.v1 import client_service_pb2 as client_pb
from ariane.admin.v1 import group_service_pb2 as group_pb
from ariane.admin.v1 import lag_service_pb2 as lag_pb
from ariane.admin.v1.client_service_pb2_grpc import ClientServiceStub
from ariane.admin.v1.group_service_pb2_grpc import GroupServiceStub
from ariane.admin.v1.lag_service_pb2_grpc import LagServiceStub
from ariane.broker.v1.client_question_pb2 import HOLD_REASON_PAUSED
from ariane.broker.v1.group_service_pb2 import (
    ConsumerGroup,
    ConsumerGroupChange,
    UpdateConsumerGroupRequest,
)
from ariane.broker.v1.group_service_pb2_grpc import GroupServiceStub as BrokerGroupsStub
from ariane.broker.v1.offset_service_pb2 import (
    STORE_RULE_MOVE,
    QueueConsumerOffset,
    StoreConsumerOffsetsRequest,
)
from ariane.broker.v1.offset_service_pb2_grpc import OffsetServiceStub
from ariane.broker.v1.topic_service_pb2 import CreateTopicRequest, Topic
from ariane.broker.v1.topic_service_pb2_grpc import TopicServiceStub as BrokerTopicsStub
from ariane_admin.commands.group.group_rows import group_row
from ariane_admin.group_texts import query_text
from ariane_sdk import (
    ClusterClient,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceiveConsumer,
)


@pytest.fixture
def groups(admin):
    return GroupServiceStub(admin)


@pytest.fixture
async def work(cluster):
    """A topic with 30 messages."""
    async with ClusterClient(cluster.name_servers) as client, Producer(cluster.name_servers) as p:
        await client.create_topic("adm-work", queue_count=2, exists_ok=True)
        for number in range(30):
            await p.send(Message("adm-work", b"%d" % number))
        yield "adm-work"
        await client.delete_topic("adm-work")


def settings(name, **given):
    return ConsumerGroup(consumer_group=name, consume_enabled=True, attempts_max=16, **given)


async def test_the_life_of_a_group_leaves_its_entries(groups, entries):
    await groups.CreateGroup(group_pb.CreateGroupRequest(group=settings("adm-clerks")))
    with pytest.raises(AioRpcError) as refused:
        await groups.CreateGroup(group_pb.CreateGroupRequest(group=settings("adm-clerks")))
    assert refused.value.code() is StatusCode.ALREADY_EXISTS
    paused = ConsumerGroupChange(consumer_group="adm-clerks", consume_enabled=False)
    changed = await groups.UpdateGroup(group_pb.UpdateGroupRequest(group=paused))
    assert [p.group.consume_enabled for p in changed.group.placements] == [False, False]
    listed = await groups.ListGroups(group_pb.ListGroupsRequest(name_prefix="adm-cler"))
    assert [each.consumer_group for each in listed.groups] == ["adm-clerks"]
    assert not listed.groups[0].uneven
    await groups.DeleteGroup(group_pb.DeleteGroupRequest(consumer_group="adm-clerks"))
    with pytest.raises(AioRpcError) as refused:
        await groups.GetGroup(group_pb.GetGroupRequest(consumer_group="adm-clerks"))
    assert refused.value.code() is StatusCode.NOT_FOUND
    outcomes = [each.outcome for each in await entries(resource_name="adm-clerks")]
    done, failed = audit_pb.AUDIT_OUTCOME_DONE, audit_pb.AUDIT_OUTCOME_FAILED
    assert outcomes == [done, failed, done, done]


async def test_a_group_that_is_consumed_at_one_broker_is_deleted_at_none(cluster, groups):
    name, topic = "adm-half", "adm-one-side"
    await groups.CreateGroup(group_pb.CreateGroupRequest(group=settings(name)))
    wanted = Topic(topic=topic, read_queue_count=1, write_queue_count=1)
    async with aio.insecure_channel(cluster.brokers[0].address) as channel:
        await BrokerTopicsStub(channel).CreateTopic(CreateTopicRequest(topic=wanted))

    async def listen(_messages):
        """Takes everything."""

    async def refused(call):
        with pytest.raises(AioRpcError, match="1 live member") as failure:
            await call
        return failure.value.code()

    member = PushConsumer(
        cluster.name_servers, group=name, subscriptions={topic: "*"}, listener=listen
    )
    async with member:
        await member.wait_assigned()
        deletion = group_pb.DeleteGroupRequest(consumer_group=name)
        assert await refused(groups.DeleteGroup(deletion)) is StatusCode.FAILED_PRECONDITION
        offsets = group_pb.DeleteGroupOffsetsRequest(consumer_group=name, topic=topic)
        assert await refused(groups.DeleteGroupOffsets(offsets)) is StatusCode.FAILED_PRECONDITION
        found = await groups.GetGroup(group_pb.GetGroupRequest(consumer_group=name))
        assert len(found.group.placements) == 2
    assert len((await groups.DeleteGroup(deletion)).outcomes) == 2
    async with ClusterClient(cluster.name_servers) as client:
        await client.delete_topic(topic)


async def test_a_pause_keeps_what_brokers_have_of_their_own(cluster, groups, browser):
    await groups.CreateGroup(group_pb.CreateGroupRequest(group=settings("adm-uneven")))
    for broker, attempts_max in zip(cluster.brokers, (3, 9), strict=True):
        async with aio.insecure_channel(broker.address) as channel:
            change = ConsumerGroupChange(consumer_group="adm-uneven", attempts_max=attempts_max)
            await BrokerGroupsStub(channel).UpdateConsumerGroup(
                UpdateConsumerGroupRequest(group=change)
            )
    for path in ("/groups/pause", "/groups/resume"):
        await browser.change(path, group="adm-uneven")
        found = await groups.GetGroup(group_pb.GetGroupRequest(consumer_group="adm-uneven"))
        placed = [each.group for each in found.group.placements]
        assert [each.consume_enabled for each in placed] == [path == "/groups/resume"] * 2
        assert [each.attempts_max for each in placed] == [3, 9]
    await groups.DeleteGroup(group_pb.DeleteGroupRequest(consumer_group="adm-uneven"))


async def test_backlogs_members_and_offsets_of_a_live_group(cluster, groups, admin, work, entries):
    taken = []

    async def listen(messages):
        taken.extend(messages)

    consumer = PushConsumer(
        cluster.name_servers,
        group="adm-crew",
        subscriptions={work: "*"},
        listener=listen,
        start="earliest",
    )
    async with consumer:
        while len(taken) < 30:  # noqa: ASYNC110 - there is nothing to be told by.
            await asyncio.sleep(0.05)
        members = await groups.ListGroupMembers(
            group_pb.ListGroupMembersRequest(consumer_group="adm-crew")
        )
        [member] = members.members
        listed = await groups.ListGroups(group_pb.ListGroupsRequest(name_prefix="adm-crew"))
        assert [list(each.kinds) for each in listed.groups] == [[group_pb.GROUP_KIND_PUSH]]
        assert {q.topic for q in member.assignment} >= {work}
        state = await ClientServiceStub(admin).GetClientState(
            client_pb.GetClientStateRequest(client_id=member.member.client_id)
        )
        assert state.client.client.hello.client_id == member.member.client_id
        assert state.state.facts
        consumer.pause()
        asked = group_pb.ListGroupMembersRequest(consumer_group="adm-crew")
        assert len(member.broker_names) == 2
        async with ClusterClient(cluster.name_servers) as client, asyncio.timeout(60):
            for name in member.broker_names:
                while not (await client.list_members("adm-crew", broker_names=[name]))[0].holds:  # noqa: ASYNC110 - of a broker
                    await asyncio.sleep(0.05)
        [member] = (await groups.ListGroupMembers(asked)).members
        assert [hold.reason for hold in member.member.holds] == [HOLD_REASON_PAUSED]
    reset = group_pb.ResetGroupOffsetsRequest(consumer_group="adm-crew", topic=work, earliest=True)
    reset.validate_only = True
    told = await groups.ResetGroupOffsets(reset)
    assert {each.queue_offset for each in told.offsets} == {0}
    assert await entries(resource_name="adm-crew") == []
    reset.validate_only = False
    done = await groups.ResetGroupOffsets(reset)
    assert sum(each.previous_queue_offset for each in done.offsets) == 30
    [entry] = await entries(resource_name="adm-crew")
    assert json.loads(entry.before_json)["offsets"]
    lags = LagServiceStub(admin)
    listed = await lags.ListGroupLags(
        lag_pb.ListGroupLagsRequest(topic=work, order=lag_pb.LAG_ORDER_MESSAGE_COUNT)
    )
    [lag] = listed.lags
    assert (lag.consumer_group, lag.message_count, lag.member_count) == ("adm-crew", 30, 0)
    assert lag.HasField("delay")
    queues = await lags.ListQueueLags(
        lag_pb.ListQueueLagsRequest(consumer_group="adm-crew", topic=work)
    )
    assert sum(each.lag.message_count for each in queues.lags) == 30
    cloned = await groups.CloneGroupOffsets(
        group_pb.CloneGroupOffsetsRequest(
            consumer_group="adm-crew", target_consumer_group="adm-crew-2", topic=work
        )
    )
    assert {each.queue_offset for each in cloned.offsets} == {0}
    for name in ("adm-crew", "adm-crew-2"):
        await groups.DeleteGroup(group_pb.DeleteGroupRequest(consumer_group=name))


async def test_a_reset_without_a_target_is_refused(groups):
    with pytest.raises(AioRpcError) as refused:
        await groups.ResetGroupOffsets(
            group_pb.ResetGroupOffsetsRequest(consumer_group="adm-crew", topic="adm-work")
        )
    assert refused.value.code() in {StatusCode.INVALID_ARGUMENT, StatusCode.NOT_FOUND}


async def test_of_a_group_that_receives_is_told_what_is_in_hand_and_what_is_ready(
    cluster, groups, admin, work
):
    async with ReceiveConsumer(
        cluster.name_servers, group="adm-takers", subscriptions={work: "*"}, invisible_s=600
    ) as consumer:
        taken = await consumer.receive_batch(4, timeout_s=60)
        await consumer.ack(taken[0])
        await consumer.nack(taken[1], delay_s=600)
        in_hand = len(taken) - 2 + sum(map(len, consumer._fetched.kept))
        listed = await LagServiceStub(admin).ListGroupLags(
            lag_pb.ListGroupLagsRequest(consumer_group="adm-takers", topic=work)
        )
        [lag] = listed.lags
        found = lag.receiving
        assert found.in_flight_count >= in_hand >= 2
        assert found.delayed_count == 1
        sums = found.in_flight_count + found.delayed_count + found.ready_count
        assert lag.message_count == sums
        whole = await groups.GetGroup(group_pb.GetGroupRequest(consumer_group="adm-takers"))
        assert whole.group.receiving.delayed_count == 1
        assert list(whole.group.kinds) == [group_pb.GROUP_KIND_RECEIVE]
    await groups.DeleteGroup(group_pb.DeleteGroupRequest(consumer_group="adm-takers"))


async def test_a_stream_query_and_who_polls_beside_it_are_shown_as_what_they_are(
    cluster, groups, work, browser
):
    async with aio.insecure_channel(cluster.brokers[0].address) as channel:
        store = OffsetServiceStub(channel).StoreConsumerOffsets
        offset = QueueConsumerOffset(topic=work, queue_id=0, queue_offset=1, rule=STORE_RULE_MOVE)
        told = StoreConsumerOffsetsRequest(
            consumer_group="adm-kinds", offsets=[offset], stream_engine="Spark 4.3.0"
        )
        await store(told)
    async with PullConsumer(
        cluster.name_servers, group="adm-kinds", subscriptions={work: "*"}, auto_commit=False
    ):
        found = (await groups.GetGroup(group_pb.GetGroupRequest(consumer_group="adm-kinds"))).group
        page = (await browser.get("/groups?prefix=adm-kinds")).text
    assert group_row(found)["kind"] == ["pull", "Spark query"]
    assert query_text(found).startswith("Spark 4.3.0 at 127.0.0.1:")
    assert "pull, Spark query" in page
    await groups.DeleteGroup(group_pb.DeleteGroupRequest(consumer_group="adm-kinds"))


async def test_of_a_group_that_owns_queues_nobody_knows_what_is_in_hand(groups, admin, work):
    await groups.CreateGroup(group_pb.CreateGroupRequest(group=settings("adm-own")))
    reset = group_pb.ResetGroupOffsetsRequest(consumer_group="adm-own", topic=work, earliest=True)
    await groups.ResetGroupOffsets(reset)
    [lag] = (
        await LagServiceStub(admin).ListGroupLags(
            lag_pb.ListGroupLagsRequest(consumer_group="adm-own", topic=work)
        )
    ).lags
    assert (lag.message_count, lag.HasField("receiving")) == (30, False)
    await groups.DeleteGroup(group_pb.DeleteGroupRequest(consumer_group="adm-own"))
