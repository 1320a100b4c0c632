"""What the doctor finds in a set that works, but badly, or takes no messages."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
from replica_group import in_sync

from ariane_sdk import Message, Producer
from ariane_servicekit.running.processes import ServiceProcess

QUICK = ("--primary-lease-s", "2.5", "--replica-behind-s-max", "5")


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_it_tells_of_a_replica_that_stutters_and_of_too_few_in_sync(local_cluster, ariane):
    async with local_cluster(*QUICK, "--in-sync-min", "2", replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)

        async def findings():
            return (await ariane(cluster, "doctor"))[1]

        async with Producer(cluster.name_servers) as producer:
            await producer.send(Message("orders", b"x"))
            os.kill(second.pid, signal.SIGSTOP)
            sending = asyncio.create_task(producer.send(Message("orders", b"x")))
            await asyncio.wait([sending], timeout=1.5)
            assert not sending.done()
            os.kill(second.pid, signal.SIGCONT)
            await sending
        [slow] = [one for one in await findings() if "for replica 1" in one["finding"]]
        assert slow["severity"] == "warning"
        second.kill()
        await second.wait()
        await in_sync(first, 0)
        [small] = [one for one in await findings() if "accepts no messages" in one["finding"]]
        assert small["severity"] == "error"


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_it_tells_of_two_processes_with_one_id(local_cluster, ariane, until):
    """The earlier one takes no part any more; no route leads to it."""
    async with local_cluster(*QUICK, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        words = list(second.arguments)
        words[words.index("--store-path") + 1] = str(cluster.data_path / "rival")
        log = cluster.data_path / "logs" / "rival.log"
        rival = ServiceProcess("rival", "ariane_broker", tuple(words), log)
        await rival.start()
        try:

            async def found():
                _, findings = await ariane(cluster, "doctor")
                return [one for one in findings if "has come later" in one["finding"]]

            [finding] = await until(found, seconds=30)
        finally:
            await rival.stop()
        assert finding["severity"] == "error"
        assert second.address in finding["subject"]
