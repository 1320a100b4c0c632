"""A rolling update, as an orchestrator makes it: each process is stopped, started and waited for.

It waits for the health name "in-sync", so that it never stops a primary whose replica lacks
messages.
"""

from __future__ import annotations

import asyncio

import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from replica_group import in_sync

from ariane_sdk import AcknowledgedLevel, Message, Producer
from ariane_testkit.closed_clusters import open_aio_channel

QUICK = ("--primary-lease-s", "2.5")
SERVING = HealthCheckResponse.SERVING


async def is_ready(process):
    async with open_aio_channel(process.address) as channel:
        asked = HealthCheckRequest(service="in-sync")
        answer = await HealthStub(channel).Check(asked, timeout=5, wait_for_ready=True)
        return answer.status == SERVING


async def ready(process):
    async with asyncio.timeout(60):
        while not await is_ready(process):  # noqa: ASYNC110 - an orchestrator polls, too.
            await asyncio.sleep(0.1)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_rollout_refuses_no_send_and_waits_for_replicas(local_cluster):
    async with local_cluster(*QUICK, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        await ready(first)
        await ready(second)  # It reads in the set's row that it is in sync, after the primary.
        async with Producer(cluster.name_servers) as producer:
            await producer.send(Message("orders", b"x"))
            over = asyncio.Event()

            async def send():
                count = 0
                while not over.is_set():
                    await producer.send(Message("orders", b"x" * 1024))
                    count += 1
                    await asyncio.sleep(0.01)
                return count

            sending = asyncio.gather(*(send() for _ in range(8)))
            await second.stop()
            await in_sync(first, 0)
            await second.start()
            await ready(second)
            await in_sync(first, 0, 1)
            await first.stop()
            await first.start()
            await ready(first)
            await ready(second)
            over.set()
            assert sum(await sending) > 100
            receipt = await producer.send(
                Message("orders", b"x"), level=AcknowledgedLevel.REPLICATED
            )
            assert receipt.acknowledged_level is AcknowledgedLevel.REPLICATED
