"""Attach: life signs up, notices down; members of groups."""

import asyncio

import pytest
from grpc import aio

from ariane.broker.v1 import client_question_pb2 as question_pb
from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane.common.v1 import subscription_pb2 as subscription_pb

UPLOADED = subscription_pb.FILTER_KIND_UPLOADED


def membership(group, text="*", kind=subscription_pb.FILTER_KIND_TAG, **fields):
    subscription = subscription_pb.Subscription(
        topic="orders", filter=subscription_pb.FilterExpression(kind=kind, text=text)
    )
    return client_pb.Membership(consumer_group=group, subscriptions=[subscription], **fields)


def hello(client_id, *memberships, **fields):
    content = client_pb.ClientHello(client_id=client_id, memberships=memberships, **fields)
    return client_pb.AttachRequest(hello=content)


async def attach(broker, client_id, *memberships):
    call = broker.clients.Attach()
    await call.write(hello(client_id, *memberships))
    first = await call.read()
    assert first is not aio.EOF
    assert first.accepted.broker_name == "broker-a"
    return call


async def members(broker, group):
    request = client_pb.ListGroupMembersRequest(consumer_group=group)
    response = await broker.clients.ListGroupMembers(request)
    return [member.client_id for member in response.members]


async def client_ids(broker):
    response = await broker.clients.ListClients(client_pb.ListClientsRequest())
    return [client.hello.client_id for client in response.clients]


async def wait_until(condition):
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110 - the other side of a wire
            await asyncio.sleep(0.005)


async def next_notice(call, kind):
    async with asyncio.timeout(60):
        notice = await call.read()
    assert notice.WhichOneof("content") == kind
    return getattr(notice, kind)


async def test_what_a_member_holds_is_known_until_it_says_otherwise(broker):
    call = await attach(broker, "a", membership("group"), membership("other"))
    hold = question_pb.QueueHold(
        consumer_group="group",
        topic="orders",
        broker_name="broker-a",
        queue_id=3,
        reason=question_pb.HOLD_REASON_FAILED_IN_ORDER,
        queue_offset=7,
        attempts=20,
        cause="no\nbank " * 100,
    )
    hold.age.FromSeconds(90)
    hold.remaining.FromMilliseconds(30)
    unknown = question_pb.QueueHold(consumer_group="group", topic="orders", reason=77)
    # Of groups that it is no member of, it has nothing to say.
    foreign = question_pb.QueueHold()
    foreign.CopyFrom(hold)
    foreign.consumer_group = "foreign"
    for holds in ([hold, unknown, foreign], []):
        heartbeat = client_pb.ClientHeartbeat(holds=holds)
        await call.write(client_pb.AttachRequest(heartbeat=heartbeat))
        await next_notice(call, "heartbeat_accepted")
        await asyncio.sleep(0.04)  # It lasts, although the member says nothing more.
        (listed,) = (await broker.clients.ListClients(client_pb.ListClientsRequest())).clients
        known = {}
        for group in ("group", "other"):
            request = client_pb.ListGroupMembersRequest(consumer_group=group)
            (member,) = (await broker.clients.ListGroupMembers(request)).members
            known[group] = list(member.holds)
        assert {group: len(found) for group, found in known.items()} == {
            "group": len(listed.holds),
            "other": 0,
        }
        if holds:
            (found,) = listed.holds
            assert len(found.cause) == 255
            assert "\n" not in found.cause
            for each in found, *known["group"]:
                assert each.age.ToMilliseconds() >= 90_040
                assert each.remaining.ToMilliseconds() == 0
                each.cause, each.age.seconds, each.age.nanos = hold.cause, 90, 0
                each.remaining.CopyFrom(hold.remaining)
                assert each == hold
    assert list(listed.holds) == []


async def test_members_are_told_who_comes_and_goes(broker):
    first = await attach(broker, "a", membership("group"))
    assert await members(broker, "group") == ["a"]
    second = await attach(broker, "b", membership("group"), membership("other"))
    assert (await next_notice(first, "membership_changed")).consumer_group == "group"
    assert await members(broker, "group") == ["a", "b"]
    await second.done_writing()
    assert (await next_notice(first, "membership_changed")).consumer_group == "group"
    assert await members(broker, "group") == ["a"]
    assert await second.read() is aio.EOF
    first.cancel()


async def test_a_vanished_client_leaves_at_once(broker):
    call = await attach(broker, "a", membership("group"))
    call.cancel()

    async def gone():
        return await client_ids(broker) == []

    await wait_until(gone)


async def test_heartbeats_are_answered_and_change_memberships(broker):
    call = await attach(broker, "a", membership("group"))
    await call.write(client_pb.AttachRequest(heartbeat=client_pb.ClientHeartbeat()))
    await next_notice(call, "heartbeat_accepted")
    assert await members(broker, "group") == ["a"]
    change = client_pb.ClientHeartbeat(memberships=[membership("other")], memberships_changed=True)
    await call.write(client_pb.AttachRequest(heartbeat=change))
    await next_notice(call, "heartbeat_accepted")
    assert await members(broker, "group") == []
    assert await members(broker, "other") == ["a"]
    call.cancel()


async def test_an_id_is_taken_while_its_client_lives(broker, refused):
    first = await attach(broker, "a")
    failure = await refused(attach(broker, "a"))
    assert (failure.reason, failure.metadata) == ("CLIENT_NOT_ATTACHED", {"client_id": "a"})
    await first.done_writing()
    assert await first.read() is aio.EOF
    (await attach(broker, "a")).cancel()


async def test_silent_clients_are_forgotten(running):
    async with running(client_silence_s=0.3, client_heartbeat_s=0.1, client_scan_s=0.05) as broker:
        call = await attach(broker, "a", membership("group"))
        async with asyncio.timeout(60):
            assert await call.read() is aio.EOF
        assert await client_ids(broker) == []


async def test_a_different_subscription_is_refused(broker, refused):
    first = await attach(broker, "a", membership("group", "x || y"))
    same = await attach(broker, "b", membership("group", "y||x"))
    failure = await refused(attach(broker, "c", membership("group", "x")))
    assert failure.reason == "SUBSCRIPTION_CONFLICT"
    assert failure.metadata == {"consumer_group": "group", "member": "a"}
    change = client_pb.ClientHeartbeat(
        memberships=[membership("group", "z")], memberships_changed=True
    )
    await same.write(client_pb.AttachRequest(heartbeat=change))
    assert (await refused(same.read())).reason == "SUBSCRIPTION_CONFLICT"
    first.cancel()


async def test_a_group_that_flags_conflicts_lets_them_in(broker):
    policy = group_pb.SUBSCRIPTION_CONFLICT_POLICY_FLAG
    group = group_pb.ConsumerGroup(
        consumer_group="group", consume_enabled=True, subscription_conflict_policy=policy
    )
    await broker.groups.CreateConsumerGroup(group_pb.CreateConsumerGroupRequest(group=group))
    calls = [
        await attach(broker, "a", membership("group", "x")),
        await attach(broker, "b", membership("group", "y")),
    ]
    assert await members(broker, "group") == ["a", "b"]
    for call in calls:
        call.cancel()


async def test_members_of_one_group_name_one_uploaded_filter(broker, refused):
    await broker.create_topic("orders")
    call = await attach(broker, "a", membership("group", "late@0123456789ab", UPLOADED))
    other = broker.clients.Attach()
    await other.write(hello("b", membership("group", "late@ba9876543210", UPLOADED)))
    assert (await refused(other.read())).reason == "SUBSCRIPTION_CONFLICT"
    call.cancel()


OWNED = client_pb.OwnedQueues(topic="orders", broker_name="b" * 256)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (client_pb.AttachRequest(heartbeat=client_pb.ClientHeartbeat()), "FIELD_INVALID"),
        (client_pb.AttachRequest(), "FIELD_INVALID"),
        (hello(""), "FIELD_INVALID"),
        (hello("a\nb"), "FIELD_INVALID"),
        (hello("x" * 256), "FIELD_INVALID"),
        (hello("a", membership("no group")), "GROUP_NAME_ILLEGAL"),
        (hello("a", membership("group"), membership("group")), "FIELD_INVALID"),
        (hello("a", membership("group", "a ||")), "FILTER_EXPRESSION_INVALID"),
        (hello("a", membership("group", "late@1", UPLOADED)), "FILTER_EXPRESSION_INVALID"),
        (hello("a", membership("group", model=77)), "FIELD_INVALID"),
        # Whoever is known may attach, and the broker keeps all that he says.
        (hello("a", language="x" * 256), "FIELD_INVALID"),
        (hello("a", sdk_version="x" * 256), "FIELD_INVALID"),
        (hello("a", incarnation="x" * 256), "FIELD_INVALID"),
        (hello("a", producer_groups=["x" * 128] * 513), "FIELD_INVALID"),
        (hello("a", membership("group", zone="x" * 256)), "FIELD_INVALID"),
        (hello("a", membership("group", strategy="x" * 256)), "FIELD_INVALID"),
        (hello("a", membership("group", owned_queues=[OWNED])), "FIELD_INVALID"),
    ],
)
async def test_senseless_hellos_are_refused(broker, refused, request_, reason):
    call = broker.clients.Attach()
    await call.write(request_)
    assert (await refused(call.read())).reason == reason
    assert await client_ids(broker) == []


async def test_members_hear_of_a_reset(broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a", b"b"])
    call = await attach(broker, "a", membership("group"))
    response = await broker.offsets.ResetConsumerOffsets(
        offset_pb.ResetConsumerOffsetsRequest(
            consumer_group="group", topic="orders", earliest=False
        )
    )
    assert response.member_count == 1
    notice = await next_notice(call, "offsets_reset")
    assert (notice.topic, dict(notice.queue_offsets)) == ("orders", {0: 2})
    call.cancel()


async def test_clients_are_told_when_the_broker_stops(running):
    async with running() as broker:
        channel = aio.insecure_channel(str(broker.address))
        probe = type(broker)(channel, broker.address)
        call = await attach(probe, "a", membership("group"))
    async with channel:
        await next_notice(call, "broker_draining")
        assert await call.read() is aio.EOF


@pytest.mark.parametrize("answers", [True, False])
async def test_a_broker_that_stops_waits_a_little_for_the_offsets_of_members(running, answers):
    async with running() as broker:
        await broker.create_topic("orders")
        await broker.store("orders", [b"a", b"b"])
        channel = aio.insecure_channel(str(broker.address))
        probe = type(broker)(channel, broker.address)
        call = await attach(probe, "a", membership("group"))
        receiving = membership("other", model=client_pb.CONSUME_MODEL_RECEIVING)
        silent = await attach(probe, "b", receiving)

        async def part():
            await next_notice(call, "broker_draining")
            if answers:
                # One that was under way says nothing of offsets.
                heartbeat = client_pb.ClientHeartbeat()
                await call.write(client_pb.AttachRequest(heartbeat=heartbeat))
                await next_notice(call, "heartbeat_accepted")
                await asyncio.sleep(0.3)  # A broker that does not wait has stopped by then.
                assert await probe.store_offset("group", "orders", 0, 2) == []
                heartbeat = client_pb.ClientHeartbeat(offsets_stored=True)
                await call.write(client_pb.AttachRequest(heartbeat=heartbeat))
                await next_notice(call, "heartbeat_accepted")
            assert await call.read() is aio.EOF

        parting = asyncio.create_task(part())
        await asyncio.sleep(0)
    async with channel, asyncio.timeout(60):
        await parting
        silent.cancel()
    async with running() as broker:
        assert await broker.known_offset("group", "orders") == (2 if answers else None)
