"""The database of a replica set is gone, or hangs: replicas stay, and all brokers stop in time."""

from __future__ import annotations

import asyncio
import json

import pytest
from replica_group import in_sync, state_of

from ariane_sdk import Message, Producer, QueueReader
from ariane_testkit.postgresql import postgresql_or_skip
from integration.scenarios.replicas.databases.database_door import door_to

LEASE_S = 2.5
QUICK = ("--primary-lease-s", str(LEASE_S), "--replica-behind-s-max", "2")
STOP_S_MAX = 15
"""As replica-sets.md says."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
async def door(request):
    """A door to a database of PostgreSQL, and the URL that leads through it."""
    with postgresql_or_skip(request.config) as url:
        async with door_to(url) as (door, through):
            yield door, through


def events_of(process):
    written = process.log_path.read_text().splitlines()
    return [json.loads(line)["event"] for line in written if line.startswith("{")]


async def test_a_replica_stays_in_routes_without_primary_and_database(
    local_cluster, ariane, until, door
):
    way, url = door
    flags = (*QUICK, "--replica-set-url", url)
    async with local_cluster(*flags, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        [name_server] = cluster.name_server_processes
        await in_sync(first, 0, 1)
        async with Producer(cluster.name_servers) as producer:
            for number in range(20):
                await producer.send(Message("orders", b"%d" % number))
        end = (await state_of(first)).confirmed_commit_log_offset

        async def may_read_all():
            return (await state_of(second)).confirmed_commit_log_offset >= end

        await until(may_read_all)
        way.close()
        first.kill()
        await first.wait()
        await name_server.restart()  # It has forgotten the primary and its replica.

        async def listed():
            _, rows = await ariane(cluster, "broker", "ha", "status", "broker-a")
            return rows

        rows = await until(listed, seconds=60)
        assert [row["trouble"] for row in rows if row["role"] == "replica"] == [
            "the database of the replica set is away"
        ]
        bodies = []
        async with QueueReader(cluster.name_servers, replicas=True) as reader:
            for queue, (begin, end) in (await reader.bounds("orders")).items():
                async for columns in reader.read_range(queue, begin, end):
                    bodies += [int(columns.message(one).body) for one in range(len(columns))]
        assert sorted(bodies) == list(range(20))
        status, findings = await ariane(cluster, "doctor")
        assert status != 0
        [advice] = [one["advice"] for one in findings if "no primary" in one["finding"]]
        assert advice.startswith("bring the database of replica_set_url back")


async def test_a_database_that_hangs_is_told_of_and_delays_no_stop(local_cluster, until, door):
    way, url = door
    flags = (*QUICK, "--replica-set-url", url)
    async with local_cluster(*flags, replicas=1) as cluster:
        brokers = [*cluster.brokers, *cluster.replicas]
        await in_sync(brokers[0], 0, 1)
        way.hang()

        async def told():
            return all("shared_row_away" in events_of(process) for process in brokers)

        await until(told, seconds=4 * LEASE_S)
        for process in brokers:
            process.terminate()
        async with asyncio.timeout(STOP_S_MAX):
            assert [await process.wait() for process in brokers] == [0, 0]
