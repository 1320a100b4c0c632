"""A closed cluster with certificates: name server, broker and admin, and users of both."""

from __future__ import annotations

import asyncio

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from grpc.aio import AioRpcError

from ariane.admin.v1 import access_policy_service_pb2 as policy_pb
from ariane.admin.v1 import audit_service_pb2 as audit_pb
from ariane.admin.v1 import filter_service_pb2 as filter_pb
from ariane.admin.v1 import message_service_pb2 as message_pb
from ariane.admin.v1 import topic_service_pb2 as topic_pb
from ariane.admin.v1 import user_service_pb2 as user_pb
from ariane.admin.v1.access_policy_service_pb2_grpc import AccessPolicyServiceStub
from ariane.admin.v1.audit_service_pb2_grpc import AuditServiceStub
from ariane.admin.v1.filter_service_pb2_grpc import FilterServiceStub
from ariane.admin.v1.message_service_pb2_grpc import MessageServiceStub
from ariane.admin.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane.admin.v1.user_service_pb2_grpc import UserServiceStub
from ariane.common.v1.message_pb2 import Message as WireMessage
from ariane_filter.app import FilterApp
from ariane_filter.settings import FilterSettings
from ariane_sdk import Message, Producer, ProducerSettings, PushConsumer, PushSettings
from ariane_sdk.errors import ArianeError
from ariane_servicekit import Address, serving
from ariane_testkit.access_rules import entries_of


async def refused(send):
    try:
        return await send()
    except ArianeError:
        return "refused"


async def test_a_closed_cluster_serves_users_within_their_rights(closed, tmp_path):
    root, anna = await closed.admin("root"), await closed.admin("anna")
    for topic in ("orders", "bills"):
        request = topic_pb.CreateTopicRequest()
        request.topic.topic = topic
        request.topic.read_queue_count = request.topic.write_queue_count = 1
        await TopicServiceStub(root).CreateTopic(request)
    user = user_pb.User(user="anna", enabled=True)
    await UserServiceStub(root).CreateUser(user_pb.CreateUserRequest(user=user))
    policy = policy_pb.AccessPolicy(user="anna", entries=entries_of("allow PUBLISH topic orders"))
    await AccessPolicyServiceStub(root).UpdateAccessPolicy(
        policy_pb.UpdateAccessPolicyRequest(policy=policy)
    )

    async def listed():
        answer = await TopicServiceStub(anna).ListTopics(topic_pb.ListTopicsRequest())
        return [each.topic for each in answer.topics]

    # Admin asks the brokers for her, and the brokers judge her.
    await closed.until(listed, ["orders"])

    async def sent(topic):
        async with Producer(closed.name_server, tls=closed.tls("anna")) as producer:
            await producer.send(Message(topic, b"by the SDK"))
            return "sent"

    await closed.until(lambda: sent("orders"), "sent")
    with pytest.raises(ArianeError):
        await sent("bills")
    message = WireMessage(body=b"by admin")
    sending = message_pb.SendMessageRequest(topic="orders", message=message)
    await MessageServiceStub(anna).SendMessage(sending)
    sending.topic = "bills"
    with pytest.raises(AioRpcError, match="may not PUBLISH topic bills"):
        await MessageServiceStub(anna).SendMessage(sending)
    with pytest.raises(AioRpcError, match="may not"):
        await UserServiceStub(anna).DeleteUser(user_pb.DeleteUserRequest(user="anna"))
    ben = await closed.admin("ben")
    with pytest.raises(AioRpcError, match="no credentials"):
        await TopicServiceStub(ben).ListTopics(topic_pb.ListTopicsRequest())
    # By a key she is herself, as long as admin has its public half.
    users, private = UserServiceStub(root), Ed25519PrivateKey.generate()
    key = tmp_path / "anna.key"
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    key.write_bytes(b"credential: laptop\n" + pem)
    credential = user_pb.Credential(
        credential_id="laptop",
        kind=user_pb.CREDENTIAL_KIND_SIGNING_KEY,
        public_key=private.public_key().public_bytes_raw(),
    )
    await users.CreateCredential(
        user_pb.CreateCredentialRequest(user="anna", credential=credential)
    )

    async def sent_by_key():
        access = {"tls": closed.certificates.path / "members.pem", "credentials": key}
        async with Producer(closed.name_server, **access) as producer:
            await producer.send(Message("orders", b"by key"))
            return "sent"

    await closed.until(sent_by_key, "sent")
    await users.DeleteCredential(
        user_pb.DeleteCredentialRequest(user="anna", credential_id="laptop")
    )
    await closed.until(lambda: refused(sent_by_key), "refused")
    await sent("orders")
    # Whoever is disabled is refused everywhere within seconds.
    await UserServiceStub(root).UpdateUser(user_pb.UpdateUserRequest(user="anna", enabled=False))

    await closed.until(lambda: refused(lambda: sent("orders")), "refused")

    async def changes_of(name):
        request = audit_pb.ListAuditEntriesRequest(user=name)
        answer = await AuditServiceStub(root).ListAuditEntries(request)
        return {entry.method.rpartition("/")[2] for entry in answer.entries}

    expected = {"CreateUser", "UpdateAccessPolicy", "CreateTopic", "UpdateUser"}
    expected |= {"CreateCredential", "DeleteCredential"}
    assert await changes_of("root") == expected
    assert await changes_of("anna") == {"SendMessage"}


async def test_a_user_with_the_right_on_a_filter_uploads_it_through_admin(closed, tmp_path):
    settings = FilterSettings(
        listen=Address("127.0.0.1", 0),
        broker=closed.broker,
        data_path=tmp_path / "filters",
        uploads="any",
        access="closed",
        super_users=("root",),
        grace_s=0.1,
        **closed.certificates.member("filter", "f1"),
    )

    async def names(channel):
        told = await FilterServiceStub(channel).ListFilters(filter_pb.ListFiltersRequest())
        return [each.filter for kept in told.filters for each in kept.filters.values()]

    async def uploaded(channel, name):
        module = b"def matches(message): return True"
        request = filter_pb.UploadFilterRequest(filter=name, module=module)
        return (await FilterServiceStub(channel).UploadFilter(request)).filter.filter

    async with serving(settings, FilterApp):
        root, anna, bert = [await closed.admin(name) for name in ("root", "anna", "bert")]
        # Known before there are rules: who is found later is told later.
        await closed.until(lambda: names(root), [])
        await closed.make_user("anna", "allow CREATE,GET filter late*")
        await closed.make_user("bert", "allow GET filter late")
        await closed.until(lambda: uploaded(anna, "late"), "late")
        for channel, name in ((anna, "early"), (bert, "late")):
            with pytest.raises(AioRpcError, match="may not CREATE filter"):
                await uploaded(channel, name)
        assert await names(bert) == ["late"]
    told = await AuditServiceStub(root).ListAuditEntries(
        audit_pb.ListAuditEntriesRequest(resource_name="late")
    )
    assert [each.user for each in told.entries if each.outcome == audit_pb.AUDIT_OUTCOME_DONE] == [
        "anna"
    ]


async def test_a_step_of_a_trace_is_for_who_may_see_its_topic(closed):
    users = ("root", "anna", "ben", "carl")
    stubs = {user: MessageServiceStub(await closed.admin(user)) for user in users}
    root = await closed.admin("root")
    for topic in ("orders", "bills"):
        request = topic_pb.CreateTopicRequest()
        request.topic.topic = topic
        request.topic.read_queue_count = request.topic.write_queue_count = 1
        await TopicServiceStub(root).CreateTopic(request)
    await closed.make_user("anna", "allow GET topic orders")
    await closed.make_user("ben", "allow PUBLISH topic orders", "allow SUBSCRIBE group g")
    await closed.make_user("carl", "allow GET topic *", "deny GET topic bills")
    as_root = {"tls": closed.tls("root")}
    settings = ProducerSettings(message_trace=True)
    async with Producer(closed.name_server, settings=settings, **as_root) as producer:
        orders, bills = [
            (await producer.send(Message(topic, b"x"))).unique_id for topic in ("orders", "bills")
        ]
    heard, done = set(), asyncio.Event()

    async def listen(messages):
        heard.update(message.unique_id for message in messages)
        if heard == {orders, bills}:
            done.set()

    async with PushConsumer(
        closed.name_server,
        group="g",
        subscriptions={"orders": "*", "bills": "*"},
        listener=listen,
        start="earliest",
        settings=PushSettings(message_trace=True),
        **as_root,
    ):
        await asyncio.wait_for(done.wait(), 60)

    async def seen(user, unique_id, topic=""):
        request = message_pb.ListMessageTracesRequest(unique_id=unique_id, topic=topic)
        answer = await stubs[user].ListMessageTraces(request)
        return [trace.topic for trace in answer.traces]

    await closed.until(lambda: seen("root", bills), ["bills", "bills"])
    await closed.until(lambda: seen("root", orders), ["orders", "orders"])
    # Nobody needs the right to read all traces for it, and a topic that is named is no way round.
    for user in ("anna", "ben", "carl"):
        await closed.until(lambda who=user: seen(who, orders), ["orders", "orders"])
        assert await seen(user, orders, "orders") == ["orders", "orders"]
        for topic in ("", "orders"):
            assert await seen(user, bills, topic) == []
        with pytest.raises(AioRpcError, match="may not GET topic bills"):
            await seen(user, bills, "bills")
    assert await seen("root", bills, "orders") == []
