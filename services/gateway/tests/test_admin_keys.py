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
from ariane_gateway.admin_keys import AdminKeys
from ariane_gateway.app import GatewayApp
from ariane_gateway.kept_keys import KeptKeys, SealedKeys
from ariane_gateway.settings import GatewaySettings
from ariane_namesrv.app import NamesrvApp
from ariane_namesrv.settings import NamesrvSettings
from ariane_servicekit import Address, serving
from ariane_testkit.access_rules import entries_of
from ariane_testkit.certificates import ClusterCertificates
from ariane_testkit.virtual_clock import VirtualClock
from services.gateway.tests.test_settling import change, forward
from services.gateway.tests.test_signatures import sign
from services.gateway.tests.test_telemetry import settings_of


@pytest.fixture
async def closed(tmp_path):
    """Admin's channels by certificate, a gateway of a closed cluster, and another after admin."""
    certificates = ClusterCertificates(tmp_path / "certificates")
    common = {"access": "closed", "super_users": ("root",), "listen": Address("127.0.0.1", 0)}
    members = {}
    async with AsyncExitStack() as stack, AsyncExitStack() as of_admin:

        async def start(settings, compose, kind, stack=stack, **more):
            shown = members.get(kind) or certificates.member(kind, f"{kind}-1")
            members[kind] = shown
            made = settings(**common, **shown, **more)
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
            of_admin,
            data_path=tmp_path / "admin",
            secret_key_file=tmp_path / "secret.key",
            name_servers=(str(name_server),),
            console_on=False,
        )

        async def start_gateway():
            return await start(
                GatewaySettings,
                GatewayApp,
                "gateway",
                admins=(admin,),
                admin_keys_file=tmp_path / "told-keys",
                name_servers=(str(name_server),),
                insecure=True,
                grace_s=0.1,
            )

        async def start_without_admin():
            await of_admin.aclose()
            return str(await start_gateway())

        gateway = await start_gateway()

        async def channel(certificate, key):
            context = ariane_wire.client_tls(
                certificates.path / "members.pem", certificate=certificate, key=key
            )
            return await of_admin.enter_async_context(
                ariane_wire.secure_channel(str(admin), context)
            )

        yield certificates, channel, str(gateway), start_without_admin


MAY = (
    "allow PUBLISH topic orders; allow SUBSCRIBE group billing;"
    "allow PUBLISH topic near from 127.0.0.0/8; allow PUBLISH topic far from 10.0.0.0/8"
)


async def told_rules_of(client, group):
    """What a consumer is told that opens its stream, as each official one does."""
    subscription = dp.Subscription(group=dp.Resource(name=group))
    said = dp.Settings(client_type=dp.PUSH_CONSUMER, subscription=subscription)
    return (await settings_of(client, said)).status.code


async def until(ask, wanted):
    async with asyncio.timeout(30):
        while (got := await ask()) != wanted:  # noqa: ASYNC110 - others make it so
            await asyncio.sleep(0.05)
    return got


async def who_lost_his_right_repeats_nothing(client, root):
    """Clients acknowledge each second until it is done, or its handle is worth nothing."""

    async def may(text):
        policy = policy_pb.AccessPolicy(user="shop", entries=entries_of(text))
        await AccessPolicyServiceStub(root).UpdateAccessPolicy(
            policy_pb.UpdateAccessPolicyRequest(policy=policy)
        )

    await may(f"{MAY}; allow SUBSCRIBE topic orders")
    await until(lambda: status_of(client.receive("orders", "billing", count=1)), dp.OK)
    await client.send("orders")
    _, (message,) = await client.receive("orders", "billing", count=1, hold_s=10)
    await may("allow PUBLISH topic orders")
    await until(lambda: told_rules_of(client, "billing"), dp.FORBIDDEN)
    for refused in (
        await client.ack("orders", "billing", message),
        await change(client, "orders", "billing", message, 9),
    ):
        assert refused.status.code == dp.INVALID_RECEIPT_HANDLE
        assert "SUBSCRIBE" in refused.status.message
    assert (await forward(client, "orders", "billing", message)).status.code == dp.OK
    await may(MAY)


async def status_of(receiving):
    return (await receiving)[0].code


async def test_a_gateway_lets_in_whom_admin_knows_within_their_rights(closed, connect, tmp_path):
    certificates, channel, gateway, start_without_admin = closed
    root = await channel(*certificates.user("root"))
    users = UserServiceStub(root)
    for topic in ("orders", "bills", "near", "far"):
        request = topic_pb.CreateTopicRequest()
        request.topic.topic = topic
        request.topic.read_queue_count = request.topic.write_queue_count = 1
        await TopicServiceStub(root).CreateTopic(request)
    shop = user_pb.User(user="shop", enabled=True)
    await users.CreateUser(user_pb.CreateUserRequest(user=shop))
    policy = policy_pb.AccessPolicy(user="shop", entries=entries_of(MAY))
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
    assert (await sent("near"), await sent("far")) == (dp.OK, dp.FORBIDDEN)
    assert await told_rules_of(client, "billing") == dp.OK
    assert await told_rules_of(client, "others") == dp.FORBIDDEN
    # What he may not see looks as what is not there.
    assert (await client.queues("orders")).status.code == dp.OK
    for topic in ("bills", "nowhere"):
        told = await client.queues(topic)
        assert (told.status.code, list(told.message_queues)) == (dp.FORBIDDEN, [])
    sign(stranger, "AK1", "another")
    assert (await stranger.queues("orders")).status.code == dp.UNAUTHORIZED
    await who_lost_his_right_repeats_nothing(client, root)
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
    creation.credential.credential_id = "AK2"
    await users.CreateCredential(creation)
    deletion = user_pb.DeleteCredentialRequest(user="shop", credential_id="AK1")
    assert (await users.DeleteCredential(deletion)).known
    await until(lambda: sent("orders"), dp.UNAUTHORIZED)
    # One that starts while admin is away has the keys that another was told, sealed.
    sign(client, "AK2", "planted-secret")
    await until(lambda: sent("orders"), dp.OK)
    assert b"planted-secret" not in (tmp_path / "told-keys").read_bytes()
    alone = connect(await start_without_admin())
    sign(alone, "AK2", "planted-secret")
    assert (await alone.send_messages(alone.message("orders"))).status.code == dp.OK
    assert (await alone.send_messages(alone.message("bills"))).status.code == dp.FORBIDDEN
    sign(alone, "AK1", "planted-secret")
    assert (await alone.queues("orders")).status.code == dp.UNAUTHORIZED


def files(settings):
    return settings["tls_certificate"], settings["tls_key"]


def test_kept_keys_open_for_the_same_private_key_and_the_time_of_admins_word(tmp_path):
    certificates = ClusterCertificates(tmp_path / "certificates")
    one, other = (certificates.member("gateway", name)["tls_key"] for name in ("one", "other"))
    path = tmp_path / "told-keys"
    told = key_pb.WatchGatewayKeysResponse()
    told.keys.add(access_key="a", user="anna", secret_key="planted")
    assert SealedKeys(path, one).read() is None
    SealedKeys(path, one).save(KeptKeys(told, 7_000))
    assert SealedKeys(path, one).read() == (told, 7_000)
    assert path.stat().st_mode & 0o077 == 0
    sealed = path.read_bytes()
    assert b"planted" not in sealed
    assert SealedKeys(path, other).read() is None
    for damaged in (b"", sealed[:5], sealed[:-1], bytes([sealed[0] ^ 1]) + sealed[1:]):
        path.write_bytes(damaged)
        assert SealedKeys(path, one).read() is None


async def test_kept_keys_expire_as_if_there_was_no_restart(tmp_path):
    clock = VirtualClock()
    certificates = ClusterCertificates(tmp_path / "certificates")
    file = SealedKeys(tmp_path / "told-keys", certificates.member("gateway", "one")["tls_key"])
    told = key_pb.WatchGatewayKeysResponse()
    told.keys.add(access_key="a", user="anna", secret_key="planted")
    file.save(KeptKeys(told, clock.now_ms() - 50_000))
    keys = AdminKeys((), clock, hold_s_max=60, file=file)
    keys._begin(file.read())
    assert keys.find("a").user == "anna"
    clock.advance(11)
    assert keys.find("a") is None


async def test_keys_hold_so_long_after_admins_last_word():
    clock = VirtualClock()
    keys = AdminKeys((), clock, hold_s_max=60)
    keys._keys = {"a": AccessKey("anna", "s"), "b": AccessKey("bert", "s", clock.now_ms() + 9_000)}
    keys._heard_ms = clock.now_ms()
    clock.advance(8)
    assert (keys.find("a").user, keys.find("b").user, keys.find("c")) == ("anna", "bert", None)
    clock.advance(2)
    assert (keys.find("a").user, keys.find("b")) == ("anna", None)
    assert keys.known
    clock.advance(51)
    assert keys.find("a") is None
    assert not keys.known
