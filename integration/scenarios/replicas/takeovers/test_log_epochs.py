"""The epoch that a deletion begins is known to whoever serves next: no queue seems to be cut."""

from __future__ import annotations

import os
import signal

import pytest
from replica_group import in_sync

from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.broker.v1.pull_service_pb2_grpc import PullServiceStub
from ariane_sdk import ClusterClient, Message, Producer
from ariane_testkit.closed_clusters import open_aio_channel

# The replica stays in sync while it is stopped.
PATIENT = ("--primary-lease-s", "2.5", "--replica-behind-s-max", "120")
QUICK = ("--primary-lease-s", "2.5", "--replica-behind-s-max", "2")


async def pulled(process, position):
    async with open_aio_channel(process.address) as channel:
        request = pull_pb.PullRecordsRequest(consumer_group="group", positions=[position])
        answer = await PullServiceStub(channel).PullRecords(request, timeout=30)
    [queue] = answer.queues
    assert not queue.HasField("error"), queue.error.message
    return queue


@pytest.mark.parametrize("replicas", [0, 1])
async def test_a_broker_started_after_a_kill_knows_the_epoch_of_a_deletion(local_cluster, replicas):
    async with local_cluster(*QUICK, replicas=replicas) as cluster:
        [first], last = cluster.brokers, cluster.replicas
        if replicas:
            await in_sync(first, 0, 1)
        async with (
            ClusterClient(cluster.name_servers) as client,
            Producer(cluster.name_servers) as producer,
        ):
            for topic in ("bills", "gone"):
                await client.create_topic(topic, queue_count=1)
            for _ in range(5):
                await producer.send(Message("bills", b"old"))
            await client.delete_topic("gone")
            told = await pulled(first, pull_pb.PullPosition(topic="bills", queue_offset=0))
            first.kill()
            await first.wait()
            if replicas:
                await in_sync(last[0], 1)
            else:
                await first.start()
        position = pull_pb.PullPosition(
            topic="bills", queue_offset=told.next_queue_offset, log_epoch=told.log_epoch
        )
        again = await pulled(last[0] if replicas else first, position)
        assert (told.next_queue_offset, again.next_queue_offset) == (5, 5)


@pytest.mark.slow
async def test_a_new_primary_tells_no_epoch_that_its_replica_does_not_have(local_cluster):
    """It dies before the replica has heard of it, and the replica follows it as primary."""
    async with local_cluster(*PATIENT, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        async with (
            ClusterClient(cluster.name_servers) as client,
            Producer(cluster.name_servers) as producer,
        ):
            await client.create_topic("bills", queue_count=1)
            for _ in range(5):
                await producer.send(Message("bills", b"old"))
        position = pull_pb.PullPosition(topic="bills", queue_offset=0)
        told = await pulled(first, position)
        os.kill(second.pid, signal.SIGSTOP)
        first.kill()
        await first.wait()
        await first.start()
        await in_sync(first, 0, 1)
        position.queue_offset, position.log_epoch = told.next_queue_offset, told.log_epoch
        then = await pulled(first, position)
        first.kill()
        await first.wait()
        os.kill(second.pid, signal.SIGCONT)
        await in_sync(second, 1)
        position.queue_offset, position.log_epoch = then.next_queue_offset, then.log_epoch
        last = await pulled(second, position)
        assert [one.next_queue_offset for one in (told, then, last)] == [5, 5, 5]
        assert last.log_epoch not in {0, told.log_epoch}
