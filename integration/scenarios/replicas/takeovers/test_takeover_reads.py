"""How much of the log a replica that takes over reads: what was written since the last save."""

from __future__ import annotations

import asyncio
import json

import pytest
from replica_group import in_sync

from ariane_sdk import Message, Producer

QUICK = ("--primary-lease-s", "2.5", "--producer-save-s", "0.2", "--replica-state-s", "0.2")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def saved_end(store):
    """Up to where the snapshots of a store hold."""
    file = store / "config" / "logStates.json"
    return json.loads(file.read_text())["commitLogOffset"] if file.exists() else 0


async def test_a_takeover_does_not_read_the_log_of_the_whole_reign(local_cluster):
    async with local_cluster(*QUICK, replicas=1) as cluster:
        [first], [second] = cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        async with Producer(cluster.name_servers) as producer:
            # Plain messages concern no state: all snapshots stay as they were at the start.
            await producer.send_batch([Message("orders", b"x" * 1000)] * 5000)
        async with asyncio.timeout(60):
            store = cluster.data_path / second.name
            while saved_end(store) < 5_000_000:  # noqa: ASYNC110 - a disk tells nobody.
                await asyncio.sleep(0.05)
        first.kill()
        await first.wait()
        await in_sync(second, 1)
        lines = second.log_path.read_text().splitlines()
        *_, restored = (json.loads(line) for line in lines if "log_states_restored" in line)
        assert restored["max_commit_log_offset"] > 5_000_000
        assert min(restored["begin_commit_log_offsets"].values()) > 5_000_000
