"""What a primary has and its replica lacks: it counts for nobody before the replica has it, too."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
from replica_group import in_sync, state_of

from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane.broker.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane_sdk import ClusterClient, Message, Producer, ProducerSettings

# The replica stays in sync while it is stopped.
PATIENT = (
    *("--primary-lease-s", "2.5"),
    *("--replica-behind-s-max", "120"),
    *("--replication-wait-s", "120"),
)
LONG = ProducerSettings(send_timeout_s=120)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


async def test_a_primary_that_starts_again_hides_what_its_replica_lacks(local_cluster, until):
    async with local_cluster(*PATIENT, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        async with Producer(cluster.name_servers, settings=LONG) as producer:
            await producer.send(Message("orders", b"confirmed"))
            os.kill(second.pid, signal.SIGSTOP)
            begin = (await state_of(first)).max_commit_log_offset
            sending = asyncio.create_task(producer.send(Message("orders", b"here alone")))

            async def is_stored():
                return (await state_of(first)).max_commit_log_offset > begin

            await until(is_stored)
            first.kill()
            await first.wait()
            await first.start()
            found = await in_sync(first, 0, 1)
            assert found.confirmed_commit_log_offset <= begin < found.max_commit_log_offset
            os.kill(second.pid, signal.SIGCONT)

            async def is_confirmed():
                found = await state_of(first)
                return found.confirmed_commit_log_offset == found.max_commit_log_offset

            await until(is_confirmed)
            await sending


async def test_a_topic_is_created_when_the_replica_knows_it(local_cluster):
    async with local_cluster(*PATIENT, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        async with ClusterClient(cluster.name_servers, call_timeout_s=120) as client:
            os.kill(second.pid, signal.SIGSTOP)
            creating = asyncio.create_task(client.create_topic("orders", queue_count=1))
            await asyncio.wait([creating], timeout=2)
            assert not creating.done()
            os.kill(second.pid, signal.SIGCONT)
            await creating
            first.kill()
            await first.wait()
            await in_sync(second, 1)
            topics = TopicServiceStub(client.channel(second.address))
            await topics.GetTopic(topic_pb.GetTopicRequest(topic="orders"), timeout=60)
