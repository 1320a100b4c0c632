"""What Prometheus reads of a primary and of a replica, each a process of its own."""

from __future__ import annotations

import asyncio
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from replica_group import in_sync, reigning

from ariane_sdk import Message, Producer
from ariane_testkit.free_ports import free_port

QUICK = ("--primary-lease-s", "2.5", "--replica-behind-s-max", "2")


def read(address):
    """The values of replication, by name and broker id; all are of one set."""
    with urlopen(f"http://{address}/metrics") as answer:
        text = answer.read().decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.startswith("ariane_replication_"):
                assert sample.labels["broker_name"] == "broker-a", sample
                assert sample.labels["cluster_name"], sample
                found[sample.name, sample.labels.get("broker_id")] = sample.value
    return found


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_primary_and_replica_tell_role_epoch_members_and_lag(local_cluster):
    async with local_cluster(*QUICK, replicas=1) as cluster:
        processes = [*cluster.brokers, *cluster.replicas]
        addresses = [f"127.0.0.1:{free_port()}" for _ in processes]
        await in_sync(processes[0], 0, 1)
        for process, address in zip(processes, addresses, strict=True):
            process.arguments = (*process.arguments, "--metrics-listen", address)
        await processes[1].restart()
        await processes[0].restart()
        [first, second] = processes
        primary = await reigning(processes)
        await in_sync(primary, 0, 1)
        async with Producer(cluster.name_servers) as producer:
            await producer.send(Message("orders", b"x"))
        of_primary, of_replica = [
            await asyncio.to_thread(read, addresses[processes.index(one)])
            for one in (primary, second if primary is first else first)
        ]
        for name, values in (
            ("primary", (1, 0)),
            ("following", (1, 1)),
            ("in_sync", (2, 2)),
            ("brokers", (2, 2)),
            ("missing_bytes", (0, 0)),
        ):
            key = f"ariane_replication_{name}", None
            assert (of_primary[key], of_replica[key]) == values, name
        epochs = [values["ariane_replication_epoch", None] for values in (of_primary, of_replica)]
        assert epochs[0] == epochs[1] > 0
        other = str(processes.index(second if primary is first else first))
        assert of_primary["ariane_replication_behind_bytes", other] == 0
        assert of_primary["ariane_replication_longest_wait_seconds", other] < 60
