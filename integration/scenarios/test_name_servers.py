"""Name servers that come and go: routes stay, decisions stay, nothing is concluded too soon."""

from __future__ import annotations

import pytest

from ariane.namesrv.v1.route_pb2 import TOPIC_PERMISSION_READ, TOPIC_PERMISSION_READ_WRITE
from ariane.namesrv.v1.route_service_pb2 import GetRouteRequest
from ariane_admin.asking.cluster_doors import ClusterDoors, answer_of
from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk import ClusterClient, Message, Producer
from ariane_sdk.errors import RouteNotFound
from ariane_servicekit.running.processes import ServiceProcess
from ariane_servicekit.security.caller import MemberKind


async def route_at(cluster, number, topic):
    """The route as one name server tells it: permission by broker."""
    address = cluster.name_server_processes[number].address
    async with ClusterDoors(address) as doors:
        try:
            answer = await answer_of(
                doors.routes(address).GetRoute(GetRouteRequest(topic=topic)), "it"
            )
        except RouteNotFound:
            return {}
        return {broker.broker_name: broker.permission for broker in answer.route.brokers}


async def test_every_name_server_is_told_and_clients_go_on_without_any(local_cluster, ariane):
    async with local_cluster(brokers=2, name_servers=2) as cluster:
        await ariane(cluster, "topic", "create", "orders")
        both = dict.fromkeys(("broker-a", "broker-b"), TOPIC_PERMISSION_READ_WRITE)
        for number in range(2):
            assert await route_at(cluster, number, "orders") == both
        await cluster.brokers[1].stop()
        for number in range(2):
            assert await route_at(cluster, number, "orders") == {
                "broker-a": TOPIC_PERMISSION_READ_WRITE
            }
        async with Producer(cluster.name_servers, group="writers") as producer:
            await producer.send(Message("orders", b"with two"))
            cluster.name_server_processes[0].kill()
            async with ClusterClient(cluster.name_servers) as client:
                assert (await client.route("orders")).brokers
            await producer.send(Message("orders", b"with one"))
            cluster.name_server_processes[1].kill()
            await cluster.name_server_processes[1].wait()
            await producer.send(Message("orders", b"with none"))


@pytest.mark.slow
async def test_a_name_server_that_is_back_does_not_take_brokers_away(local_cluster, ariane, until):
    """One broker has found it again, the other has not: messages still go to both."""
    flags = ("--name-server-heartbeat-s", "0.2")
    async with local_cluster(*flags, brokers=2) as cluster:
        await ariane(cluster, "topic", "create", "orders", "--queues", "1")
        async with ClusterClient(cluster.name_servers) as client:
            routes = client._session.routes  # noqa: SLF001 - where routes are kept.
            before = await routes.get("orders")
            assert len(before.brokers) == 2
            # The second one is gone without a goodbye: nobody will tell the new name server of it.
            cluster.brokers[1].kill()
            await cluster.brokers[1].wait()
            await cluster.name_server_processes[0].restart()

            async def back():
                _, rows = await ariane(cluster, "cluster", "show")
                return [row["broker"] for row in rows or ()] == ["broker-a"]

            await until(back)
            after = await routes.refresh("orders")
            assert after == before
            assert not after.complete


@pytest.mark.slow
async def test_a_drain_outlives_restarts_of_brokers_and_name_servers(local_cluster, ariane, until):
    flags = ("--name-server-heartbeat-s", "0.2")
    async with local_cluster(*flags, brokers=2, name_servers=2) as cluster:
        await ariane(cluster, "topic", "create", "orders")
        status, done = await ariane(cluster, "broker", "drain", "broker-a", "--yes")
        assert (status, done["name_server_failures"]) == (0, [])
        await cluster.brokers[0].restart()
        for name_server in cluster.name_server_processes:
            await name_server.restart()
        drained = {"broker-a": TOPIC_PERMISSION_READ, "broker-b": TOPIC_PERMISSION_READ_WRITE}

        async def all_are_back():
            _, rows = await ariane(cluster, "broker", "list")
            return len(rows or ()) == 2

        await until(all_are_back)
        for number in range(2):

            async def told(number=number):
                return await route_at(cluster, number, "orders") == drained

            await until(told)
        assert (await ariane(cluster, "broker", "restore", "broker-a"))[0] == 0
        for number in range(2):
            assert set((await route_at(cluster, number, "orders")).values()) == {
                TOPIC_PERMISSION_READ_WRITE
            }


@pytest.mark.slow
async def test_the_doctor_tells_when_a_route_leads_nowhere(local_cluster, ariane):
    async with local_cluster("--advertised-address", "127.0.0.1:1") as cluster:
        status, findings = await ariane(cluster, "doctor")
        assert status == ExitStatus.FAILED
        [error] = [one for one in findings if one["severity"] == "error"]
        assert "broker-a" in error["subject"]
        assert "--advertised-address" in error["advice"]


async def test_the_doctor_sees_a_name_server_that_a_broker_was_not_told_of(
    local_cluster, ariane, tmp_path
):
    async with local_cluster() as cluster:
        flags = ("--warm-up-s", "0", *cluster.shown(MemberKind.NAME_SERVER, "other"))
        other = ServiceProcess("other", "ariane_namesrv", flags, tmp_path / "logs" / "other.log")
        await other.start()
        try:
            both = f"{cluster.name_servers},{other.address}"
            status, findings = await ariane(both, "doctor")
        finally:
            await other.stop()
        assert status == ExitStatus.FAILED
        [error] = [one for one in findings if one["severity"] == "error"]
        assert other.address in error["finding"]
