"""A primary that was frozen answers what waits for it before it learns of its successor."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing

import pytest
from replica_group import in_sync

from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.broker.v1.pull_service_pb2_grpc import PullServiceStub
from ariane_sdk import Message, Producer, ProducerSettings
from ariane_testkit.closed_clusters import open_aio_channel

QUICK = ("--primary-lease-s", "2.5", "--replica-behind-s-max", "2")


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_it_sets_no_reader_back_to_the_begin(local_cluster):
    """The reader comes from the successor, whose epoch of the log the frozen one cannot know."""
    async with local_cluster(*QUICK, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        patient = ProducerSettings(send_timeout_s=60)
        async with Producer(cluster.name_servers, settings=patient) as producer:
            placed = [await producer.send(Message("orders", b"x")) for _ in range(10)]
        queue_id = placed[0].message_queue.queue_id
        async with (
            open_aio_channel(first.address) as frozen,
            open_aio_channel(second.address) as present,
        ):
            await frozen.channel_ready()
            os.kill(first.pid, signal.SIGSTOP)
            await in_sync(second, 1)

            def pull(channel, queue_offset, log_epoch):
                position = pull_pb.PullPosition(
                    topic="orders",
                    queue_id=queue_id,
                    queue_offset=queue_offset,
                    log_epoch=log_epoch,
                )
                request = pull_pb.PullRecordsRequest(consumer_group="g", positions=[position])
                return PullServiceStub(channel).PullRecords(request, timeout=60)

            [read] = (await pull(present, 0, 0)).queues
            assert read.next_queue_offset > 0
            with closing(sqlite3.connect(cluster.data_path / "replica-sets.db")) as database:
                database.execute("BEGIN IMMEDIATE")  # It learns nothing while this lasts.
                os.kill(first.pid, signal.SIGCONT)
                [queue] = (await pull(frozen, read.next_queue_offset, read.log_epoch)).queues
                assert "this broker is not the primary" in queue.error.message
                database.rollback()
            await in_sync(second, 0, 1)
