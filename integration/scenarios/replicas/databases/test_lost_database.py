"""The database of a replica set is lost: nobody guesses who has most, an operator says it."""

from __future__ import annotations

import pytest
from replica_group import in_sync, state_of

from ariane_sdk import Message, Producer, ProducerSettings, QueueReader

QUICK = ("--primary-lease-s", "2.5", "--replica-behind-s-max", "2")


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_set_begins_anew_with_the_broker_that_has_most(local_cluster, until, monkeypatch):
    """As replica-sets.md says; broker 0, which begins sets, lacks a message that is confirmed."""
    async with local_cluster(*QUICK, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        patient = ProducerSettings(send_timeout_s=60)
        async with Producer(cluster.name_servers, settings=patient) as producer:
            for number in range(20):
                await producer.send(Message("orders", b"%d" % number))
            first.kill()
            await first.wait()
            await in_sync(second, 1)
            await producer.send(Message("orders", b"20"))
        second.kill()
        await second.wait()
        for lost in cluster.data_path.glob("replica-sets.db*"):
            lost.unlink()
        for process, epoch in ((first, 1), (second, 2)):
            await process.start()

            async def waits(process=process, epoch=epoch):
                trouble = (await state_of(process)).trouble
                return "knows nothing of its set" in trouble and f"epoch {epoch}:" in trouble

            await until(waits)
        await second.stop()
        monkeypatch.setenv("ARIANE_BROKER_ACCEPT_SET_LOSS", "true")
        await second.start()
        await in_sync(second, 0, 1)
        bodies = []
        async with QueueReader(cluster.name_servers) as reader:
            for queue, (begin, end) in (await reader.bounds("orders")).items():
                async for columns in reader.read_range(queue, begin, end):
                    bodies += [int(columns.message(one).body) for one in range(len(columns))]
        assert sorted(bodies) == list(range(21))
