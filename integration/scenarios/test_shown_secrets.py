"""What users prove themselves by, and what they get for it, is nowhere that a person reads."""

from __future__ import annotations

import asyncio
import logging
import tarfile
from random import Random

import pytest
from grpc.aio import AioRpcError

import ariane_wire
from ariane.broker.v1.topic_service_pb2 import GetTopicRequest
from ariane.broker.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane.common.v1.access_rules_pb2 import USER_KIND_SUPER
from ariane.common.v1.login_service_pb2 import FinishLoginRequest, FinishLoginResponse
from ariane_admin.cli import main
from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk import ClusterClient, Message, Producer
from ariane_sdk.errors import ArianeError
from ariane_sdk.net.login import Login
from ariane_sdk.security import private_key
from ariane_servicekit.security.identity.identify import SESSION_KEY
from ariane_testkit.user_keys import UserKeys

PLANTED = "hunter2-of-a-planted-token"
FINISH = "/ariane.common.v1.LoginService/FinishLogin"


class Overheard:
    """A connection on which a client logs in; notes the token of its session."""

    def __init__(self, connection, told):
        self.certificate = connection.certificate
        self._connection = connection
        self._told = told

    def unary_unary(self, method, serializer, deserializer):
        def heard(octets):
            answer = deserializer(octets)
            if isinstance(answer, FinishLoginResponse):
                self._told.append(answer.session_token)
            return answer

        return self._connection.unary_unary(method, serializer, heard)


async def session_of(address, ca, key):
    """The token of a session that a key has opened."""
    told, login = [], Login(lambda: key, Random())

    async def opening(connection):
        await login(Overheard(connection, told))

    tls = ariane_wire.client_tls(ca)
    async with ariane_wire.secure_channel(address, tls, opening=opening) as channel:
        await asyncio.wait_for(channel.channel_ready(), 20)
        login.close()
    return told[-1]


async def failures(servers, ca, address, session):
    """What those are told whose proof is wrong, and who calls for what is not there."""
    texts = []
    try:
        async with Producer(servers, tls=ca, credentials=lambda: PLANTED) as producer:
            await producer.send(Message("orders", b"x"), timeout_s=5)
    except ArianeError as error:
        texts += [str(error), repr(error)]
    async with ariane_wire.secure_channel(address, ariane_wire.client_tls(ca)) as channel:
        for token in (session, PLANTED):
            with pytest.raises(AioRpcError) as refused:
                await TopicServiceStub(channel).GetTopic(
                    GetTopicRequest(topic="nowhere"), metadata=((SESSION_KEY, token),), timeout=20
                )
            texts += [str(refused.value), str(refused.value.trailing_metadata())]
        request = FinishLoginRequest(bearer_token=PLANTED)
        with pytest.raises(AioRpcError) as refused:
            await channel.unary_unary(FINISH)(request.SerializeToString(), timeout=20)
        texts.append(str(refused.value))
    assert len(texts) == 7
    return texts


async def test_nothing_that_users_show_is_in_logs_errors_bundles_or_what_is_kept(
    local_cluster, tmp_path, monkeypatch, until, capfd, caplog
):
    caplog.set_level(logging.DEBUG)
    (tmp_path / "keys").mkdir()
    keys = UserKeys(tmp_path / "keys")
    path = keys.file_of("shop", kind=USER_KIND_SUPER)
    for name, value in {**keys.environment(), "ARIANE_BROKER_LOG_LEVEL": "debug"}.items():
        monkeypatch.setenv(name, value)
    async with local_cluster(tls=True, super_users=["root"]) as cluster:
        ca, broker = cluster.certificates.folder.path / "members.pem", cluster.brokers[0]
        known = {"tls": ca, "credentials": path}
        async with ClusterClient(cluster.name_servers, **known) as client:
            await until(client.list_brokers)
            await client.create_topic("orders", queue_count=1)
            read = [repr(client), repr(known)]
        async with Producer(cluster.name_servers, **known) as producer:
            await producer.send(Message("orders", b"x"))
            read.append(repr(producer))
        key = private_key(path.read_bytes(), str(path))
        session = await session_of(broker.address, ca, key)
        assert len(session) > 40
        read.append(repr(key))
        read += await failures(cluster.name_servers, ca, broker.address, session)
        root = cluster.certificates.user("root")
        given = ("--tls-ca", str(root["ca"]), "--tls-certificate", str(root["certificate"]))
        given += ("--tls-key", str(root["key"]))
        logs = [each.log_path for each in cluster.processes]
        bundle = tmp_path / "bundle.tar.gz"
        with_logs = [word for log in logs for word in ("--log", str(log))]
        words = ["debug", "bundle", "-f", str(bundle), *with_logs]
        words += ["--name-servers", cluster.name_servers]
        assert await asyncio.to_thread(main, [*given, *words]) == ExitStatus.DONE
    with tarfile.open(bundle) as archive:
        read += [archive.extractfile(one).read().decode() for one in archive if one.isfile()]
    read += [log.read_text() for log in logs]
    assert sum("login_refused" in text for text in read) >= 1
    read += capfd.readouterr()
    read += [each.getMessage() for each in caplog.records]
    kept = [each for each in (tmp_path / "broker-a").rglob("*") if each.is_file()]
    assert len(kept) > 3
    read += [each.read_bytes().decode("latin-1") for each in kept]
    secret = {PLANTED, session, path.read_text().split("-----")[2].strip()}
    assert [each for each in secret if any(each in text for text in read)] == []
