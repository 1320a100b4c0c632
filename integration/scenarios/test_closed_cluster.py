"""A cluster whose processes speak TLS, each under its own name."""

from __future__ import annotations

import asyncio
import json

import pytest

from ariane.replication.v1.replica_set_service_pb2 import GetReplicaSetRequest
from ariane.replication.v1.replica_set_service_pb2_grpc import ReplicaSetServiceStub
from ariane_admin.cli import main
from ariane_sdk import ClusterClient, Message, Producer, PullConsumer, Tls
from ariane_sdk.errors import CallError, NameServersUnreachable


@pytest.mark.skipif("not config.option.closed", reason="runs with --closed")
async def test_every_cluster_of_this_run_knows_its_callers(local_cluster, monkeypatch, until):
    async with local_cluster() as cluster:
        async with ClusterClient(cluster.name_servers) as tester:
            await until(tester.list_brokers)
        for variable in ("ARIANE_TLS_CERTIFICATE", "ARIANE_TLS_KEY"):
            monkeypatch.delenv(variable)
        async with ClusterClient(cluster.name_servers) as nobody:
            with pytest.raises(CallError) as caught:
                await nobody.list_brokers()
            assert caught.value.reason == "CREDENTIALS_INVALID"
        with pytest.raises(NameServersUnreachable):
            async with ClusterClient(cluster.name_servers, tls=False) as plain:
                await plain.list_brokers()


@pytest.mark.slow
async def test_messages_commands_and_replicas_over_tls(local_cluster, monkeypatch, capfd, until):
    monkeypatch.delenv("ARIANE_TLS_CA", raising=False)
    closed = {"tls": True, "super_users": ["anna"]}
    async with local_cluster(
        replicas=1, checkers=1, admin=True, filter_servers=1, **closed
    ) as cluster:
        files = cluster.certificates.user("anna")
        tls = Tls(**files)
        async with ClusterClient(cluster.name_servers, tls=tls) as client:
            await until(client.list_brokers)
            await client.create_topic("orders", queue_count=1)
        async with Producer(cluster.name_servers, tls=tls) as producer:
            sent = await producer.send(Message("orders", b"one"))
            # Every certificate is replaced, and every open connection goes on.
            cluster.certificates.folder.renew(days=30, within=None)
            await producer.send(Message("orders", b"two"))
        consumer = PullConsumer(
            cluster.name_servers,
            group="billing",
            subscriptions={"orders": "*"},
            start="earliest",
            tls=tls,
        )
        bodies = []
        async with consumer:
            while len(bodies) < 2:
                bodies += [each.body for each in await consumer.poll(timeout_s=5)]
        assert bodies == [b"one", b"two"]
        assert sent.message_queue.broker_name == "broker-a"

        for variable, key in (
            ("ARIANE_TLS_CA", "ca"),
            ("ARIANE_TLS_CERTIFICATE", "certificate"),
            ("ARIANE_TLS_KEY", "key"),
        ):
            monkeypatch.setenv(variable, str(files[key]))
        admin = cluster.admins[0].address
        words = ["topic", "list", "--name-servers", cluster.name_servers, "-o", "json"]
        capfd.readouterr()
        assert await asyncio.to_thread(main, words) == 0
        assert "orders" in {row["topic"] for row in json.loads(capfd.readouterr().out)}
        words = ["alert", "list", "--admin", admin, "-o", "json"]
        assert await asyncio.to_thread(main, words) == 0
        with pytest.raises(NameServersUnreachable):
            async with ClusterClient(cluster.name_servers, tls=False) as plain:
                await plain.list_brokers()
        stranger = Tls(**cluster.certificates.user("stranger"))
        for nobody in (files["ca"], stranger):
            async with ClusterClient(cluster.name_servers, tls=nobody) as client:
                with pytest.raises(CallError) as caught:
                    await client.list_brokers()
                assert caught.value.reason == "CREDENTIALS_INVALID"
        async with ClusterClient(cluster.name_servers, tls=tls) as client:

            async def all_in_sync():
                channel = client.channel(cluster.brokers[0].address)
                stub = ReplicaSetServiceStub(channel)
                told = await stub.GetReplicaSet(GetReplicaSetRequest(), timeout=5)
                return len(told.replica_set.in_sync_broker_ids) == 2

            await until(all_in_sync)
