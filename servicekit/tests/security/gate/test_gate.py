"""The gate through a real server: who comes in, what is refused, what ends."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo, RequestInfo
from structlog.testing import capture_logs

from ariane.broker.v1.client_service_pb2 import (
    AttachAccepted,
    AttachRequest,
    AttachResponse,
    ClientHello,
    GroupMember,
    ListGroupMembersRequest,
    ListGroupMembersResponse,
    Membership,
)
from ariane.common.v1 import access_pb2 as access
from ariane.common.v1.access_service_pb2 import GetAccessRefusalRequest, ListAccessUsesRequest
from ariane.common.v1.access_service_pb2_grpc import AccessServiceStub
from ariane.common.v1.process_service_pb2 import UpdateProcessSettingRequest
from ariane.common.v1.process_service_pb2_grpc import ProcessServiceStub
from ariane.namesrv.v1.route_service_pb2 import (
    GetRouteRequest,
    GetRouteResponse,
    ListTopicsRequest,
    ListTopicsResponse,
)
from ariane_servicekit import Machine
from ariane_servicekit.rpc.calls import current_caller
from ariane_servicekit.security.caller import Caller, CallerKind, MemberKind
from ariane_servicekit.security.gate import long_calls
from ariane_servicekit.security.gate.access_mode import AccessMode
from ariane_servicekit.security.gate.asking import require
from ariane_servicekit.security.gate.gate import Gate
from ariane_servicekit.security.identity.identify import ACTING_KEY
from ariane_testkit.access_rules import rules_of, telling
from ariane_testkit.identities import IDENTITY_KEY, as_member, as_user, stated_identity
from ariane_testkit.virtual_clock import VirtualClock

ROOT = as_user("root")
ANNA = as_user("anna")


@pytest.fixture
def probe(probe_app, serve):
    """Serve the probe app with identities, and methods that note who called them."""
    served = []

    async def get_route(request, context):
        served.append((request.topic, str(current_caller())))
        return GetRouteResponse()

    async def list_topics(request, context):
        return ListTopicsResponse(topics=["order-1", "bills", "order-2", "RMQ_SYS_X"])

    async def list_members(request, context):
        require(access.ACTION_SUBSCRIBE, access.RESOURCE_TOPIC, "touched")
        return ListGroupMembersResponse(members=[GroupMember()])

    async def attach(requests, context):
        async for _ in requests:
            yield AttachResponse(accepted=AttachAccepted())

    probe_app.methods = {
        "GetRoute": get_route,
        "ListTopics": list_topics,
        "ListGroupMembers": list_members,
        "Attach": attach,
    }

    def closed(access="closed"):
        machine = Machine(identify=stated_identity)
        return serve(probe_app, machine, access=access, super_users=("root",))

    closed.served = served
    return closed


@pytest.fixture
def refused(details_of):
    """The reason, metadata and request id of a call that is refused."""

    async def refused(call):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        details = details_of(caught.value)
        [info] = details[ErrorInfo]
        [request] = details[RequestInfo]
        return info.reason, dict(info.metadata), request.request_id

    return refused


def route(probe, topic, metadata=()):
    return probe.route.GetRoute(GetRouteRequest(topic=topic), metadata=metadata)


STRANGERS = [(), ((IDENTITY_KEY, "wrong"),), as_user("nobody"), as_user("")]


async def test_strangers_learn_one_thing(probe, refused):
    told = set()
    async with probe() as served:
        for metadata in STRANGERS:
            reason, more, _ = await refused(route(served, "t", metadata))
            told.add((reason, str(more)))
        for metadata in STRANGERS:
            # Who has no name learns nothing about names either, whether it can be read or not.
            call = served.channel.unary_unary("/ariane.namesrv.v1.RouteService/GetRoute")
            reason, more, _ = await refused(call(b"\xff\xff", metadata=metadata))
            told.add((reason, str(more)))
    assert told == {("CREDENTIALS_INVALID", "{}")}
    assert probe.served == []


async def test_users_have_their_rights_and_no_more(probe, refused):
    async with probe() as served, telling(served.channel) as admin:
        await admin.tell("anna: allow PUBLISH topic order-*; deny PUBLISH,GET topic order-9")
        await route(served, "order-1", ANNA)
        for topic in ("bills", "order-9", "", "RMQ_SYS_TRANS_HALF_TOPIC"):
            reason, more, _ = await refused(route(served, topic, ANNA))
            assert (reason, more["name"]) == ("ACCESS_DENIED", topic)
        await route(served, "bills", ROOT)
    assert probe.served == [("order-1", "user anna"), ("bills", "user root")]


async def test_lists_show_what_a_caller_may_see(probe):
    async def topics(served, metadata):
        answer = await served.route.ListTopics(ListTopicsRequest(), metadata=metadata)
        return list(answer.topics)

    async with probe() as served, telling(served.channel) as admin:
        await admin.tell(
            "anna: allow GET topic order-*; deny GET topic order-2",
            "bert: ",
            "olga: allow GET cluster",
        )
        assert await topics(served, ANNA) == ["order-1"]
        assert await topics(served, as_user("bert")) == []
        everything = ["order-1", "bills", "order-2", "RMQ_SYS_X"]
        for metadata in (as_user("olga"), ROOT, as_member(MemberKind.ADMIN)):
            assert await topics(served, metadata) == everything


async def test_members_have_their_methods(probe, refused):
    async with probe() as served:
        await route(served, "t", as_member(MemberKind.BROKER))
        for kind in (MemberKind.BROKER, MemberKind.GATEWAY):
            reason, _, _ = await refused(
                served.route.ListTopics(ListTopicsRequest(), metadata=as_member(kind))
            )
            assert reason == "ACCESS_DENIED"
        stream = AccessServiceStub(served.channel).PushAccessRules(metadata=ROOT)
        assert (await refused(stream.read()))[0] == "ACCESS_DENIED"


async def test_a_process_that_stops_waits_for_no_stream_of_rules(probe_app, serve):
    async with asyncio.timeout(30):
        async with serve(probe_app, grace_s=60.0) as served:
            channel = grpc.aio.insecure_channel(str(served.address))
            stream = AccessServiceStub(channel).PushAccessRules()
            assert (await stream.read()).version == 0
        assert await stream.read() is grpc.aio.EOF
        await channel.close()


async def test_members_that_may_act_for_users_have_the_rights_of_these(probe, refused):
    def acting(kind, user):
        return (*as_member(kind), (ACTING_KEY, user))

    async with probe() as served, telling(served.channel) as admin:
        await admin.tell("anna: allow GET topic t")
        for kind in (MemberKind.GATEWAY, MemberKind.ADMIN):
            await route(served, "t", acting(kind, "anna"))
            assert (await refused(route(served, "u", acting(kind, "anna"))))[0] == "ACCESS_DENIED"
        await route(served, "t", acting(MemberKind.ADMIN, "root"))
        # Whoever is known by the groups of his provider alone is so for whom a member acts, too.
        await admin.tell("role etl: allow GET topic t")
        await route(served, "t", acting(MemberKind.ADMIN, "olga hr etl"))
        wrong = [
            (*as_user("anna"), (ACTING_KEY, "anna")),
            (*as_user("root"), (ACTING_KEY, "anna")),
            ((ACTING_KEY, "anna"),),
            acting(MemberKind.BROKER, "anna"),
            acting(MemberKind.GATEWAY, ""),
            acting(MemberKind.ADMIN, "olga hr"),
            acting(MemberKind.ADMIN, "olga etl "),
            acting(MemberKind.ADMIN, " etl"),
            acting(MemberKind.GATEWAY, "nobody"),
        ]
        for metadata in wrong:
            reason, _, _ = await refused(route(served, "t", metadata))
            assert reason == "CREDENTIALS_INVALID"
        reason, _, _ = await refused(route(served, "t", acting(MemberKind.GATEWAY, "root")))
        assert reason == "ACCESS_DENIED"
    assert [caller for _, caller in probe.served] == [
        *("user anna by gateway m", "user anna by admin m"),
        *("user root by admin m", "user olga by admin m"),
    ]


async def test_a_client_that_a_gateway_tells_of_is_no_super_user():
    """A gateway that was taken over would be shown the half messages of all topics."""
    gate = Gate(AccessMode.CLOSED, int, super_users=frozenset({"root"}))
    gate.change_rules(rules_of(1, "anna: allow PUBLISH topic orders", "top: super"))
    for kind, told in ((MemberKind.GATEWAY, False), (MemberKind.ADMIN, True)):
        by = Caller(CallerKind.MEMBER, "", "m", member_kind=kind)
        for name, allowed in (("root", told), ("top", told), ("anna", True)):
            caller = Caller(CallerKind.USER, "", name, acting=by)
            action, resource = access.ACTION_PUBLISH, access.RESOURCE_TOPIC
            assert gate.allows(caller, action, resource, "orders") is allowed, (kind, name)


async def test_servicers_ask_for_what_handles_touch(probe, refused):
    async def members(metadata):
        call = served.client.ListGroupMembers(
            ListGroupMembersRequest(consumer_group="g"), metadata=metadata
        )
        return await call

    async with probe() as served, telling(served.channel) as admin:
        await admin.tell(
            "anna: allow SUBSCRIBE group g; allow SUBSCRIBE topic touched",
            "bert: allow SUBSCRIBE group g",
        )
        assert len((await members(ANNA)).members) == 1
        reason, more, _ = await refused(members(as_user("bert")))
        assert (reason, more["name"]) == ("ACCESS_DENIED", "touched")


async def change_access(served, mode):
    request = UpdateProcessSettingRequest(name="access", value=mode)
    await ProcessServiceStub(served.channel).UpdateProcessSetting(request, metadata=ROOT)


def hello(*groups):
    return AttachRequest(
        hello=ClientHello(memberships=[Membership(consumer_group=g) for g in groups])
    )


async def test_each_request_of_a_stream_is_judged(probe, refused):
    async with probe() as served, telling(served.channel) as admin:
        await admin.tell("anna: allow SUBSCRIBE group g*; deny SUBSCRIBE group g9")
        stream = served.client.Attach(metadata=ANNA)
        await stream.write(hello("g1", "g2"))
        assert (await stream.read()).HasField("accepted")
        await stream.write(hello("g3", "g9"))
        reason, more, _ = await refused(stream.read())
        assert (reason, more["name"]) == ("ACCESS_DENIED", "g9")


@pytest.mark.parametrize("begin", ["open", "learn", "closed"])
async def test_a_stream_ends_when_its_right_does(probe, refused, begin):
    async with probe(access=begin) as served, telling(served.channel) as admin:
        await admin.tell("anna: allow SUBSCRIBE group g", "bert: allow SUBSCRIBE group g")
        streams = {}
        for user in ("anna", "bert"):
            streams[user] = served.client.Attach(metadata=as_user(user))
            await streams[user].write(hello("g"))
            await streams[user].read()
        await admin.tell("anna: allow SUBSCRIBE group other", "bert: allow SUBSCRIBE group g")
        if begin != "closed":
            await change_access(served, "closed")
        assert (await refused(streams["anna"].read()))[0] == "ACCESS_DENIED"
        await streams["bert"].write(hello("g"))
        assert (await streams["bert"].read()).HasField("accepted")
        # Requests from now on are judged, whatever held when the stream began.
        await streams["bert"].write(hello("g", "other"))
        reason, more, _ = await refused(streams["bert"].read())
        assert (reason, more["name"]) == ("ACCESS_DENIED", "other")


async def test_a_stream_that_has_used_more_than_is_remembered_begins_anew(
    probe, refused, monkeypatch
):
    """What it no longer has a right to may be among what is forgotten."""
    monkeypatch.setattr(long_calls, "USES_MAX", 3)
    rights = "allow SUBSCRIBE group *"
    async with probe() as served, telling(served.channel) as admin:
        await admin.tell(f"anna: {rights}", f"bert: {rights}")
        streams = {user: served.client.Attach(metadata=as_user(user)) for user in ("anna", "bert")}
        for user, names in (("anna", "abcdef"), ("bert", "aaaaaa")):
            for name in names:
                await streams[user].write(hello(name))
                await streams[user].read()
        await admin.tell(f"anna: {rights}; deny SUBSCRIBE group a", f"bert: {rights}")
        assert (await refused(streams["anna"].read()))[0] == "SERVICE_BUSY"
        # Who has used little is judged by all of it.
        await streams["bert"].write(hello("a"))
        assert (await streams["bert"].read()).HasField("accepted")


async def test_a_stream_of_a_user_who_is_gone_ends(probe, refused):
    async with probe() as served, telling(served.channel) as admin:
        await admin.tell("anna: allow SUBSCRIBE group g")
        stream = served.client.Attach(metadata=ANNA)
        await stream.write(hello())
        await stream.read()
        await admin.tell()
        assert (await refused(stream.read()))[0] == "ACCESS_DENIED"


async def test_a_stream_ends_with_the_credential_that_opened_it(probe, refused):
    def rules(version, *ids):
        made = rules_of(version, "anna: allow SUBSCRIBE group g")
        for each in ids:
            made.users[0].keys.add(credential_id=each, public_key=b"k" * 32)
        return made

    ids = ("laptop", "phone")
    async with probe() as served, telling(served.channel) as admin:
        await admin.push_rules(rules(1, *ids))
        streams = [served.client.Attach(metadata=as_user("anna", key)) for key in ids]
        for stream in streams:
            await stream.write(hello("g"))
            await stream.read()
        await admin.push_rules(rules(2, "phone"))
        assert (await refused(streams[0].read()))[0] == "ACCESS_DENIED"
        await streams[1].write(hello("g"))
        assert (await streams[1].read()).HasField("accepted")


def test_a_user_is_known_for_as_long_as_the_key_holds_that_he_has_shown():
    clock = VirtualClock()
    gate = Gate(AccessMode.CLOSED, clock.now_ms)
    stated = rules_of(1, "anna: ")
    key = stated.users[0].keys.add(credential_id="laptop", public_key=b"k" * 32)
    key.expire_time.FromMilliseconds(clock.now_ms() + 60_000)
    gate.change_rules(stated)

    def known(credential_id, user="anna"):
        return gate.knows(Caller(CallerKind.USER, "", user, credential_id=credential_id))

    assert [known(""), known("laptop"), known("phone"), known("laptop", "ben")] == [
        *(True, True),
        *(False, False),
    ]
    clock.advance(61)
    assert (known(""), known("laptop")) == (True, False)


async def test_learning_lets_through_and_counts(probe):
    async with probe(access="learn") as served, telling(served.channel) as admin:
        await admin.tell("anna: allow GET topic a")
        for topic, metadata in (("a", ANNA), ("b", ANNA), ("b", ANNA), ("c", ()), ("d", ROOT)):
            await route(served, topic, metadata)
        assert len(probe.served) == 5
        answer = await AccessServiceStub(served.channel).ListAccessUses(
            ListAccessUsesRequest(user="anna"), metadata=ROOT
        )
        assert [(use.name, use.count, use.refused_count) for use in answer.uses] == [
            ("a", 1, 0),
            ("b", 2, 2),
        ]


async def test_uses_of_streams_that_began_before_learning_are_recorded(probe):
    async def uses(served):
        answer = await AccessServiceStub(served.channel).ListAccessUses(
            ListAccessUsesRequest(user="anna"), metadata=ROOT
        )
        return [(use.name, use.count, use.refused_count) for use in answer.uses]

    async with probe(access="open") as served, telling(served.channel) as admin:
        await admin.tell("anna: allow SUBSCRIBE group g")
        stream = served.client.Attach(metadata=ANNA)
        await stream.write(hello("g", "h"))
        await stream.read()
        await change_access(served, "learn")
        async with asyncio.timeout(20):
            while await uses(served) != [("g", 1, 0), ("h", 1, 1)]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await stream.write(hello("g"))
        await stream.read()
        assert await uses(served) == [("g", 2, 0), ("h", 1, 1)]
        # In an open process nothing is counted or logged any more.
        await change_access(served, "open")
        with capture_logs() as logs:
            await stream.write(hello("h"))
            await stream.read()
        assert [line for line in logs if line["event"] == "access_refused"] == []


async def test_a_refusal_is_logged_and_explained(probe, refused):
    async with probe() as served, telling(served.channel) as admin:
        await admin.tell("anna: allow GET topic *; deny GET topic b*")
        with capture_logs() as logs:
            _, _, request_id = await refused(route(served, "bills\n\x1b[31m\u202e", ANNA))
        lines = [line for line in logs if line["event"] == "access_refused"]
        assert [line["caller"] for line in lines] == ["user anna"]
        stub = AccessServiceStub(served.channel)
        answer = await stub.GetAccessRefusal(
            GetAccessRefusalRequest(request_id=request_id), metadata=ROOT
        )
        assert answer.refusal.entry.name == "b"
        assert answer.refusal.method.endswith("/GetRoute")
        unknown = GetAccessRefusalRequest(request_id="x")
        assert not (await stub.GetAccessRefusal(unknown, metadata=ROOT)).HasField("refusal")


async def test_changes_are_logged_with_who_made_them(probe):
    async with probe() as served, telling(served.channel) as admin:
        await admin.tell("anna: allow UPDATE cluster")
        request = UpdateProcessSettingRequest(name="concurrent_calls_max", value="4000")
        with capture_logs() as logs:
            stub = ProcessServiceStub(served.channel)
            await stub.UpdateProcessSetting(request, metadata=ANNA)
            request.value = "0"
            with pytest.raises(grpc.aio.AioRpcError):
                await stub.UpdateProcessSetting(request, metadata=ANNA)
    lines = [line for line in logs if line["event"] == "changed_by"]
    assert [(line["caller"], line["touched"]) for line in lines] == [
        ("user anna", "UPDATE cluster")
    ]


async def test_only_a_super_user_opens_what_is_closed(probe, refused):
    async with probe() as served, telling(served.channel) as admin:
        await admin.tell("anna: allow UPDATE,GET cluster")
        stub = ProcessServiceStub(served.channel)

        def change(name, value, metadata):
            request = UpdateProcessSettingRequest(name=name, value=value)
            return stub.UpdateProcessSetting(request, metadata=metadata)

        await change("concurrent_calls_max", "77", ANNA)
        for mode in ("open", "learn", "closed"):
            assert (await refused(change("access", mode, ANNA)))[0] == "ACCESS_DENIED"
        await change("access", "learn", ROOT)
        await change("access", "closed", ANNA)


async def test_a_user_for_whom_a_member_acts_is_judged_by_its_own_address(probe, refused):
    def acting(text):
        return (*as_member(MemberKind.ADMIN), (ACTING_KEY, text))

    async with probe() as served, telling(served.channel) as admin:
        await admin.tell(
            "anna: allow GET topic near from 10.7.0.0/16; allow GET topic here from 127.0.0.0/8;"
            " allow GET topic far; deny GET topic far from 10.9.0.0/16"
        )
        for topic, text in (
            ("near", "anna;10.7.0.1"),
            ("near", "anna;::ffff:10.7.0.1"),
            ("far", "anna;10.7.0.1"),
            ("far", "anna;fd00::1"),
        ):
            await route(served, topic, acting(text))
        # The member's own address says nothing of the user, and an unknown one may be a denied one.
        for topic, text in (
            ("near", "anna;10.9.0.1"),
            ("far", "anna;10.9.0.1"),
            ("here", "anna;10.7.0.1"),
            ("here", "anna"),
            ("near", "anna"),
            ("far", "anna"),
        ):
            reason, more, request_id = await refused(route(served, topic, acting(text)))
            assert (reason, more["name"]) == ("ACCESS_DENIED", topic), text
        asked = GetAccessRefusalRequest(request_id=request_id)
        stub = AccessServiceStub(served.channel)
        told = await stub.GetAccessRefusal(asked, metadata=ROOT)
        assert told.refusal.source_address == ""
        for text in (
            "anna;",
            "anna;here",
            "anna;10.7.0.1;10.7.0.2",
            ";10.7.0.1",
            "anna;10.7.0.1 ops",
        ):
            assert (await refused(route(served, "far", acting(text))))[0] == "CREDENTIALS_INVALID"
        # Nobody else says from where he comes.
        for metadata in ((*ANNA, (ACTING_KEY, "anna;10.7.0.1")), ((ACTING_KEY, "anna;10.7.0.1"),)):
            reason, _, _ = await refused(route(served, "near", metadata))
            assert reason == "CREDENTIALS_INVALID"
