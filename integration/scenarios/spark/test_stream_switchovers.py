"""A stream over planned switchovers: the query does not end for them, and has each row once."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import count, islice

import pytest
from copying_process import STEP_S, CopyingQuery, message_count, numbers_of
from replica_group import in_sync

from ariane_sdk import ClusterClient, Message, Producer

QUICK = ("--primary-lease-s", "2.5")
SWITCHOVERS = 10
ROWS_AT_ONCE = 80
"""Some micro-batches of 20: the stream is busy while brokers change places."""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_a_stream_goes_on_over_planned_switchovers(
    local_cluster, ariane, until, tmp_path, monkeypatch
):
    """What it reads, and what it writes exactly once, is on the brokers that change places."""
    monkeypatch.setenv("ARIANE_NAMESRV_WARM_UP_S", "0")
    numbers = count()
    async with (
        local_cluster(*QUICK, replicas=1) as cluster,
        ClusterClient(cluster.name_servers) as client,
        Producer(cluster.name_servers) as producer,
    ):
        names, [first], [second] = cluster.name_servers, cluster.brokers, cluster.replicas
        await in_sync(first, 0, 1)
        for topic in ("flights", "copies"):
            await client.create_topic(topic, queue_count=4)

        async def send():
            rows = islice(numbers, ROWS_AT_ONCE)
            await producer.send_batch(
                [Message("flights", b"%d" % n, tag=f"t{n % 9}") for n in rows]
            )

        await send()
        query = CopyingQuery(tmp_path / "spark", names, "flights", "copies")
        await query.start()
        try:
            await query.commits(1, until)
            for heir, broker_id in ((second, "1"), (first, "0")) * (SWITCHOVERS // 2):
                await send()
                to = ("broker-a", "--to", broker_id, "--yes")
                status, said = await ariane(cluster, "broker", "ha", "switchover", *to)
                assert status == 0, said
                await in_sync(heir, 0, 1)
                await send()
                await query.commits(1, until)
            rows = next(numbers)

            async def complete():
                query.check_alive()
                return await message_count(names, "copies") >= rows

            await until(complete, seconds=STEP_S)
            # Whoever writes twice would do it now, and what is for later would come.
            await asyncio.sleep(4)
        finally:
            await query.kill()
        found, early = await numbers_of(names, "copies")
    said = query.log_path.read_text()
    assert [line for line in said.splitlines() if line.startswith(("again:", "refused "))] == []
    assert found == Counter(range(rows))
    assert early == []
