"""A closed cluster with certificates: name server, broker and admin, and users of both."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack, suppress

import pytest
from grpc.aio import AioRpcError

import ariane_wire
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
from ariane_admin.service.app import AdminApp
from ariane_admin.service.settings import AdminSettings
from ariane_broker.app import compose
from ariane_broker.settings import BrokerSettings
from ariane_namesrv.app import NamesrvApp
from ariane_namesrv.settings import NamesrvSettings
from ariane_sdk import Message, Producer, Tls
from ariane_sdk.errors import ArianeError
from ariane_servicekit import Address, serving
from ariane_testkit.access_rules import entries_of
from ariane_testkit.certificates import ClusterCertificates


class ClosedCluster:
    """Addresses, and what a user needs to reach them."""

    def __init__(self, certificates, name_server, admin, stack):
        self.certificates = certificates
        self.name_server = name_server
        self._admin = admin
        self._stack = stack

    def tls(self, user):
        certificate, key = self.certificates.user(user)
        return Tls(ca=self.certificates.path / "members.pem", certificate=certificate, key=key)

    async def command(self, *arguments):
        """What a command writes that root runs."""
        certificate, key = self.certificates.user("root")
        environment = {
            "ARIANE_ADMIN": self._admin,
            "ARIANE_TLS_CA": str(self.certificates.path / "members.pem"),
            "ARIANE_TLS_CERTIFICATE": str(certificate),
            "ARIANE_TLS_KEY": str(key),
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ariane_admin", *arguments, "-o", "json"),
            env={**os.environ, **environment},
            stdout=asyncio.subprocess.PIPE,
        )
        written, _ = await process.communicate()
        assert process.returncode == 0
        return written

    async def admin(self, user):
        """A channel of a user to admin."""
        certificate, key = self.certificates.user(user)
        context = ariane_wire.client_tls(
            self.certificates.path / "members.pem", certificate=certificate, key=key
        )
        return await self._stack.enter_async_context(
            ariane_wire.secure_channel(self._admin, context)
        )


@pytest.fixture
async def closed(tmp_path):
    certificates = ClusterCertificates(tmp_path / "certificates")
    common = {"access": "closed", "super_users": ("root",), "listen": Address("127.0.0.1", 0)}
    async with AsyncExitStack() as stack:
        name_server = await stack.enter_async_context(
            serving(NamesrvSettings(**common, **certificates.member("namesrv", "n1")), NamesrvApp)
        )
        broker = BrokerSettings(
            store_path=tmp_path / "store",
            cluster_name="main",
            broker_name="broker-a",
            name_servers=(name_server,),
            segment_bytes=6 << 20,
            consume_queue_entries=1000,
            index_slots=1000,
            index_items=4000,
            grace_s=0.1,
            **common,
            **certificates.member("broker", "broker-a"),
        )
        await stack.enter_async_context(serving(broker, compose))
        settings = AdminSettings(
            data_path=tmp_path / "admin",
            name_servers=(name_server,),
            console_on=False,
            **common,
            **certificates.member("admin", "a1"),
        )
        admin = await stack.enter_async_context(serving(settings, AdminApp))
        yield ClosedCluster(certificates, str(name_server), str(admin), stack)


async def eventually(work, wanted):
    """Repeat until the rules are everywhere: some seconds at most."""
    async with asyncio.timeout(30):
        while True:
            with suppress(AioRpcError, ArianeError):
                if await work() == wanted:
                    return
            await asyncio.sleep(0.1)


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
    await eventually(listed, ["orders"])

    async def sent(topic):
        async with Producer(closed.name_server, tls=closed.tls("anna")) as producer:
            await producer.send(Message(topic, b"by the SDK"))
            return "sent"

    await eventually(lambda: sent("orders"), "sent")
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

    await eventually(sent_by_key, "sent")
    await closed.command("credential", "delete", "anna", made["credential"], "--yes")
    await eventually(lambda: refused(sent_by_key), "refused")
    await sent("orders")
    # Whoever is disabled is refused everywhere within seconds.
    await UserServiceStub(root).UpdateUser(user_pb.UpdateUserRequest(user="anna", enabled=False))

    await eventually(lambda: refused(lambda: sent("orders")), "refused")

    async def changes_of(name):
        request = audit_pb.ListAuditEntriesRequest(user=name)
        answer = await AuditServiceStub(root).ListAuditEntries(request)
        return {entry.method.rpartition("/")[2] for entry in answer.entries}

    expected = {"CreateUser", "UpdateAccessPolicy", "CreateTopic", "UpdateUser"}
    expected |= {"CreateCredential", "DeleteCredential"}
    assert await changes_of("root") == expected
    assert await changes_of("anna") == {"SendMessage"}
