"""A proxy in the environment, as Docker sets one: no process of a cluster uses it."""

import asyncio

import pytest

from ariane.filter.v1.filter_registration_service_pb2 import GetFilterServersRequest
from ariane.filter.v1.filter_registration_service_pb2_grpc import FilterRegistrationServiceStub
from ariane_sdk import ClusterClient, Message, Producer, PullConsumer, TransactionOutcome
from ariane_servicekit.running.broker_groups import broker_groups
from ariane_testkit.closed_clusters import open_aio_channel

PROXIES = ("grpc_proxy", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")


@pytest.mark.slow
async def test_a_proxy_in_the_environment_isolates_no_process(local_cluster, monkeypatch):
    asked = []

    async def swallow(reader, writer):
        """What is sent to the proxy goes nowhere, as with one that cannot reach the cluster."""
        asked.append((await reader.readline()).decode("latin-1"))
        writer.close()

    async with asyncio.timeout(120), await asyncio.start_server(swallow, "127.0.0.1", 0) as proxy:
        port = proxy.sockets[0].getsockname()[1]
        for name in PROXIES:
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
        for name in ("no_grpc_proxy", "no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        async with local_cluster(replicas=1, checkers=1, filter_servers=1, admin=True) as cluster:
            await everything_is_reached(cluster)
        assert asked == []


async def everything_is_reached(cluster):
    """Each process has reached those that it needs."""
    [group] = broker_groups(cluster)
    async with ClusterClient(cluster.name_servers) as client:
        while not await client.list_brokers():  # noqa: ASYNC110 - of a name server.
            await asyncio.sleep(0.1)
    await group.wait_in_sync()
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic("orders")
    primary = await group.primary()
    options = (("grpc.enable_http_proxy", 0),)
    async with open_aio_channel(primary.address, options=options) as channel:
        stub = FilterRegistrationServiceStub(channel)
        registered = []
        while not registered:
            registered = (await stub.GetFilterServers(GetFilterServersRequest())).addresses
            await asyncio.sleep(0.1)
    async with (
        Producer(
            cluster.name_servers,
            group="shop",
            transaction_checker=lambda _check: TransactionOutcome.COMMIT,
        ) as producer,
        PullConsumer(
            cluster.name_servers,
            group="billing",
            subscriptions={"orders": "*"},
            start="earliest",
        ) as consumer,
    ):
        await producer.wait_attached()
        await producer.send_half(Message("orders", b"paid"), immunity_s=1)
        while not await consumer.poll():  # The checker has had the producer asked.
            pass
