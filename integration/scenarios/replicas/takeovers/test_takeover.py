"""What a replica that takes over makes of work in the middle: batches, half messages, deletions."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType
from replica_group import in_sync

from ariane.broker.v1 import transaction_service_pb2 as transaction_pb
from ariane.broker.v1.transaction_service_pb2_grpc import TransactionServiceStub
from ariane_sdk import (
    ClusterClient,
    Message,
    Producer,
    ProducerSettings,
    QueueReader,
    TransactionOutcome,
)
from ariane_sdk.errors import RouteNotFound, ServiceUnavailable, TopicNotFound
from ariane_servicekit.running.processes import ServiceProcess
from ariane_servicekit.security.caller import MemberKind
from ariane_spark.calls.batch_transactions import BatchTransactions
from ariane_spark.calls.sink_batches import Sink, SinkBatch
from ariane_spark.options.options import RequestPolicy
from ariane_spark.records.contents import Contents
from ariane_spark.records.rows import IdentitySeed, RowPlan
from ariane_spark.sink.staging import StagedAttempt
from ariane_testkit.closed_clusters import open_aio_channel

QUICK = ("--primary-lease-s", "2.5", "--replica-behind-s-max", "2")
PATIENT = RequestPolicy(timeout_ms=20_000, retries_max=20, backoff_ms=500)
LONG = ProducerSettings(send_timeout_s=60)
PLAN = RowPlan.of(StructType([StructField("body", StringType())]), "copies")
CHECKS = ("--first-check-s", "1", "--check-interval-s", "60", "--survey-interval-s", "0.2")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


async def bodies_in(cluster, topic):
    """How often each body is there."""
    found = Counter()
    async with QueueReader(cluster.name_servers) as reader:
        for queue, (begin, end) in (await reader.bounds(topic)).items():
            async for columns in reader.read_range(queue, begin, end):
                found.update(bytes(columns.message(row).body) for row in range(len(columns)))
    return found


async def killed(process):
    process.kill()
    await process.wait()


def stage(calls, batch, numbers):
    """What one task stages of a batch."""
    staged = StagedAttempt(calls, batch, 0, name="test", block_bytes_max=1024)
    rows = pa.record_batch({"body": pa.array(map(str, numbers))})
    for part in PLAN.tables(rows, IdentitySeed("test"), 0):
        staged.add(part)
    return staged.finish()


async def test_staged_batches_are_published_once_by_who_takes_over(local_cluster, until):
    async with local_cluster(*QUICK, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        async with ClusterClient(cluster.name_servers) as client:
            await client.create_topic("copies", queue_count=2)
        calls = BatchTransactions(cluster.name_servers, PATIENT)
        sink = Sink("query/copies", "copies")
        committed, staged, given_up = (SinkBatch(sink, number) for number in range(3))
        call = asyncio.to_thread
        done = await call(stage, calls, committed, range(500))
        assert not await call(calls.commit, committed, done, Contents(500, sum(range(500))))
        waiting = await call(stage, calls, staged, range(500, 1000))
        # Its publication may be under way: the batch before is committed, perhaps not all there.
        await killed(first)
        await in_sync(second, 1)
        contents = Contents(500, sum(range(500, 1000)))
        assert await call(calls.is_committed, committed)
        assert not await call(calls.is_committed, staged)
        assert not await call(calls.commit, staged, waiting, contents)
        await first.start()
        await in_sync(second, 0, 1)
        await killed(second)
        await in_sync(first, 0)
        # A driver that heard no answer says the same again.
        assert await call(calls.commit, staged, waiting, contents)
        await call(stage, calls, given_up, range(1000, 1100))
        assert not await call(calls.abort, given_up)

        async def all_there():
            return (await bodies_in(cluster, "copies")).total() >= 1000

        await until(all_there)
        assert await bodies_in(cluster, "copies") == Counter(b"%d" % one for one in range(1000))


async def test_half_messages_are_asked_about_once_by_who_takes_over(local_cluster, until, tmp_path):
    asked = Counter()

    async def answer(check):
        asked[check.body] += 1
        kept = check.body == b"kept"
        return TransactionOutcome.COMMIT if kept else TransactionOutcome.ROLLBACK

    async with local_cluster(*QUICK, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        checker = ServiceProcess(
            "checker",
            "ariane_txn_checker",
            (
                *("--name-servers", cluster.name_servers),
                *("--data-path", str(tmp_path / "checks")),
                *CHECKS,
                *cluster.shown(MemberKind.CHECKER, "checker"),
            ),
            tmp_path / "checker.log",
        )
        async with Producer(
            cluster.name_servers, group="cashiers", settings=LONG, transaction_checker=answer
        ) as producer:
            await producer.send(Message("orders", b"plain"))
            for body in (b"kept", b"dropped"):
                await producer.send_half(Message("orders", body))
            await killed(first)
            await in_sync(second, 1)
            await checker.start()
            try:

                async def both_asked():
                    return (
                        asked.keys() == {b"kept", b"dropped"}
                        and (await bodies_in(cluster, "orders")).total() == 2
                    )

                await until(both_asked)
                await first.start()
                await in_sync(second, 0, 1)
                await killed(second)
                await in_sync(first, 0)
                # What was ended stays so: nobody is asked again by the next one.
                async with open_aio_channel(first.address) as channel:
                    listed = TransactionServiceStub(channel).ListHalfMessages
                    answer_of_first = await listed(transaction_pb.ListHalfMessagesRequest())
                    assert not answer_of_first.half_messages
            finally:
                await checker.stop()
        assert await bodies_in(cluster, "orders") == Counter([b"plain", b"kept"])
        assert asked == Counter([b"kept", b"dropped"])


async def test_a_deleted_topic_stays_deleted_and_its_name_begins_anew(local_cluster, until):
    async with local_cluster(*QUICK, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)

        async def bodies_there():
            with suppress(ServiceUnavailable):  # It may be primary before the routes say so.
                return await bodies_in(cluster, "anew")

        async with (
            ClusterClient(cluster.name_servers) as client,
            Producer(cluster.name_servers, settings=LONG) as producer,
            QueueReader(cluster.name_servers) as reader,
        ):
            for topic in ("gone", "anew"):
                await client.create_topic(topic, queue_count=1)
                await producer.send_batch([Message(topic, b"old %d" % one) for one in range(100)])
            for topic in ("gone", "anew"):
                await client.delete_topic(topic)
            await client.create_topic("anew", queue_count=1)
            await producer.send(Message("anew", b"new"))
            for dying, taking, others in ((first, second, (1,)), (second, first, (0,))):
                await killed(dying)
                await in_sync(taking, *others)
                assert await until(bodies_there) == Counter([b"new"])
                with pytest.raises((RouteNotFound, TopicNotFound)):
                    await reader.bounds("gone")
                await dying.start()
                await in_sync(taking, 0, 1)
