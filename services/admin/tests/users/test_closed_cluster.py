"""A closed cluster with certificates: name server, broker and admin, and users of both."""

from __future__ import annotations

import json

import pytest
from grpc.aio import AioRpcError

from ariane.admin.v1 import access_policy_service_pb2 as policy_pb
from ariane.admin.v1 import audit_service_pb2 as audit_pb
from ariane.admin.v1 import message_service_pb2 as message_pb
from ariane.admin.v1 import topic_service_pb2 as topic_pb
from ariane.admin.v1 import user_service_pb2 as user_pb
from ariane.admin.v1.access_policy_service_pb2_grpc import AccessPolicyServiceStub
from ariane.admin.v1.audit_service_pb2_grpc import AuditServiceStub
from ariane.admin.v1.message_service_pb2_grpc import MessageServiceStub
from ariane.admin.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane.admin.v1.user_service_pb2_grpc import UserServiceStub
from ariane.common.v1.message_pb2 import Message as WireMessage
from ariane_sdk import Message, Producer
from ariane_sdk.errors import ArianeError
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
    key = tmp_path / "anna.key"
    made = json.loads(await closed.command("credential", "create", str(key), "--user", "anna"))

    async def sent_by_key():
        access = {"tls": closed.certificates.path / "members.pem", "credentials": key}
        async with Producer(closed.name_server, **access) as producer:
            await producer.send(Message("orders", b"by key"))
            return "sent"

    await closed.until(sent_by_key, "sent")
    await closed.command("credential", "delete", "anna", made["credential"], "--yes")
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
