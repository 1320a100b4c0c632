"""Keys that admin tells a gateway of a closed cluster, and the rights of their users."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from grpc.aio import AioRpcError

import ariane_wire
from apache.rocketmq.v2 import definition_pb2 as dp
from ariane.admin.v1 import access_policy_service_pb2 as policy_pb
from ariane.admin.v1 import gateway_key_service_pb2 as key_pb
from ariane.admin.v1 import topic_service_pb2 as topic_pb
from ariane.admin.v1 import user_service_pb2 as user_pb
from ariane.admin.v1.access_policy_service_pb2_grpc import AccessPolicyServiceStub
from ariane.admin.v1.gateway_key_service_pb2_grpc import GatewayKeyServiceStub
from ariane.admin.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane.admin.v1.user_service_pb2_grpc import UserServiceStub
from ariane_admin.service.app import AdminApp
from ariane_admin.service.settings import AdminSettings
from ariane_broker.app import compose
from ariane_broker.settings import BrokerSettings
from ariane_gateway.access_keys import AccessKey
from ariane_gateway.app import GatewayApp
from ariane_gateway.settings import GatewaySettings
from ariane_gateway.told_keys import ToldKeys
from ariane_namesrv.app import NamesrvApp
from ariane_namesrv.settings import NamesrvSettings
from ariane_servicekit import Address, serving
from ariane_testkit.access_rules import entries_of
from ariane_testkit.certificates import ClusterCertificates
from ariane_testkit.virtual_clock import VirtualClock
from services.gateway.tests.test_signatures import sign


@pytest.fixture
async def closed(tmp_path):
    """Admin's channels by certificate, and a gateway of a closed cluster."""
    certificates = ClusterCertificates(tmp_path / "certificates")
    common = {"access": "closed", "super_users": ("root",), "listen": Address("127.0.0.1", 0)}
    async with AsyncExitStack() as stack:

        async def start(settings, compose, kind, **more):
            made = settings(**common, **certificates.member(kind, f"{kind}-1"), **more)
            return await stack.enter_async_context(serving(made, compose))

        name_server = await start(NamesrvSettings, NamesrvApp, "namesrv")
        await start(
            BrokerSettings,
            compose,
            "broker",
            store_path=tmp_path / "store",
            broker_name="broker-1",
            name_servers=(str(name_server),),
            segment_bytes=6 << 20,
            grace_s=0.1,
        )
        admin = await start(
            AdminSettings,
            AdminApp,
            "admin",
            data_path=tmp_path / "admin",
            secret_key_file=tmp_path / "secret.key",
            name_servers=(str(name_server),),
            console_on=False,
        )
        gateway = await start(
            GatewaySettings,
            GatewayApp,
            "gateway",
            admins=(admin,),
            name_servers=(str(name_server),),
            insecure=True,
            grace_s=0.1,
        )

        async def channel(certificate, key):
            context = ariane_wire.client_tls(
                certificates.path / "members.pem", certificate=certificate, key=key
            )
            return await stack.enter_async_context(ariane_wire.secure_channel(str(admin), context))

        yield certificates, channel, str(gateway)


async def until(ask, wanted):
    async with asyncio.timeout(30):
        while (got := await ask()) != wanted:  # noqa: ASYNC110 - others make it so
            await asyncio.sleep(0.05)
    return got


async def test_a_gateway_lets_in_whom_admin_knows_within_their_rights(closed, connect, tmp_path):
    certificates, channel, gateway = closed
    root = await channel(*certificates.user("root"))
    users = UserServiceStub(root)
    for topic in ("orders", "bills"):
        request = topic_pb.CreateTopicRequest()
        request.topic.topic = topic
        request.topic.read_queue_count = request.topic.write_queue_count = 1
        await TopicServiceStub(root).CreateTopic(request)
    shop = user_pb.User(user="shop", enabled=True)
    await users.CreateUser(user_pb.CreateUserRequest(user=shop))
    policy = policy_pb.AccessPolicy(user="shop", entries=entries_of("allow PUBLISH topic orders"))
    await AccessPolicyServiceStub(root).UpdateAccessPolicy(
        policy_pb.UpdateAccessPolicyRequest(policy=policy)
    )
    credential = user_pb.Credential(credential_id="AK1", kind=user_pb.CREDENTIAL_KIND_ROCKETMQ_KEY)
    creation = user_pb.CreateCredentialRequest(
        user="shop", credential=credential, secret="planted-secret"
    )
    made = await users.CreateCredential(creation)
    assert await users.CreateCredential(creation) == made
    client, stranger = sign(connect(gateway), "AK1", "planted-secret"), connect(gateway)

    async def sent(topic):
        return (await client.send_messages(client.message(topic))).status.code

    await until(lambda: sent("orders"), dp.OK)
    assert await sent("bills") == dp.FORBIDDEN
    sign(stranger, "AK1", "another")
    assert (await stranger.queues("orders")).status.code == dp.UNAUTHORIZED
    # Nobody but a gateway is told the secret, and no file of admin's has it.
    for other in (root, await channel(*files(certificates.member("broker", "broker-1")))):
        with pytest.raises(AioRpcError, match=r"members of the cluster|in its own name"):
            await (
                GatewayKeyServiceStub(other)
                .WatchGatewayKeys(key_pb.WatchGatewayKeysRequest())
                .read()
            )
    kept = [each.read_bytes() for each in (tmp_path / "admin").iterdir()]
    assert kept
    assert not [each for each in kept if b"planted-secret" in each]
    deletion = user_pb.DeleteCredentialRequest(user="shop", credential_id="AK1")
    assert (await users.DeleteCredential(deletion)).known
    await until(lambda: sent("orders"), dp.UNAUTHORIZED)


def files(settings):
    return settings["tls_certificate"], settings["tls_key"]


async def test_keys_hold_so_long_after_admins_last_word():
    clock = VirtualClock()
    keys = ToldKeys((), clock, hold_s_max=60)
    keys._keys = {"a": AccessKey("anna", "s"), "b": AccessKey("bert", "s", clock.now_ms() + 9_000)}
    keys._heard_ms = clock.now_ms()
    clock.advance(8)
    assert (keys.find("a").user, keys.find("b").user, keys.find("c")) == ("anna", "bert", None)
    clock.advance(2)
    assert (keys.find("a").user, keys.find("b")) == ("anna", None)
    clock.advance(51)
    assert keys.find("a") is None
