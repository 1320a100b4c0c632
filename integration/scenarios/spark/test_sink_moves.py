"""Exactly-once writes whose broker is gone for good: moved, and each row there once."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from ariane_sdk import ClusterClient, QueueReader
from ariane_sdk.errors import ArianeError
from ariane_spark.calls.batch_transactions import BatchTransactions
from ariane_spark.calls.sink_batches import Sink, SinkBatch
from ariane_spark.options.options import RequestPolicy
from ariane_spark.records.contents import Contents
from ariane_spark.records.rows import IdentitySeed, RowPlan
from ariane_spark.sink.staging import StagedAttempt

IMPATIENT = RequestPolicy(timeout_ms=5000, retries_max=1, backoff_ms=1)
PLAN = RowPlan.of(StructType([StructField("body", StringType())]), "copies")


@pytest.fixture
def quick_expiry(monkeypatch):
    """Name servers that drop brokers soon, and know all of them from the start."""
    monkeypatch.setenv("ARIANE_NAMESRV_WARM_UP_S", "0")
    monkeypatch.setenv("ARIANE_NAMESRV_HEARTBEAT_INTERVAL_S", "1")
    monkeypatch.setenv("ARIANE_NAMESRV_SILENCE_S_MAX", "10")
    monkeypatch.setenv("ARIANE_NAMESRV_SCAN_INTERVAL_S", "0.5")


async def numbers_in(name_servers, topic):
    """How often each number is there."""
    found = []
    async with QueueReader(name_servers) as reader:
        for queue, (begin, end) in (await reader.bounds(topic)).items():
            async for columns in reader.read_range(queue, begin, end):
                found += [int(bytes(columns.message(row).body)) for row in range(len(columns))]
    return Counter(found)


def write(calls, batch, numbers):
    """Stage and commit a batch, as a task and a driver do; whether it was committed before."""
    attempts = ()
    if not calls.is_committed(batch):
        staged = StagedAttempt(calls, batch, 0, name="test", block_bytes_max=1024)
        rows = pa.record_batch({"body": pa.array(map(str, numbers))})
        for part in PLAN.tables(rows, IdentitySeed("test"), 0):
            staged.add(part)
        attempts = staged.finish()
    return calls.commit(batch, attempts, Contents(len(numbers), sum(numbers)))


async def is_dropped(client, broker_name):
    """Whether the name servers know a broker no more."""
    return broker_name not in {each.broker_name for each in await client.list_brokers()}


@pytest.mark.slow
async def test_a_write_goes_on_at_another_broker_when_its_own_is_gone(
    local_cluster, until, quick_expiry, ariane
):
    async with (
        local_cluster(brokers=2) as cluster,
        ClusterClient(cluster.name_servers) as client,
    ):
        await client.create_topic("copies", queue_count=2)
        calls = BatchTransactions(cluster.name_servers, IMPATIENT)
        sink = Sink("query/copies", "copies")
        for number in range(2):
            assert not write(calls, SinkBatch(sink, number), range(number * 10, number * 10 + 10))
        home = calls.home_of(sink)
        [target] = {"broker-a", "broker-b"} - {home}
        gone = cluster.brokers["ab".index(home[-1])]
        gone.kill()
        await gone.wait()
        words = ("sink", "move", sink.name, target, "--yes")
        status, _ = await ariane(cluster, *words)
        assert status != 0  # It still counts as alive, and does not answer.
        await until(lambda: is_dropped(client, home))
        calls = BatchTransactions(cluster.name_servers, IMPATIENT)  # Another process, by now.
        with pytest.raises(ArianeError, match=f"broker {home}, which decides for query/copies"):
            write(calls, SinkBatch(sink, 2), range(20, 30))
        [row] = (await ariane(cluster, "sink", "list"))[1]
        assert (row["home"], row["state"]) == (home, "home does not answer")
        status, _ = await ariane(cluster, *words)
        assert status != 0  # Nobody said that it is gone for good.

        status, told = await ariane(cluster, *words, "--home-is-gone")

        # The other broker knows what the lost one had decided.
        assert (status, told["home_before_answered"], told["batch"]) == (0, False, 1)
        assert write(calls, SinkBatch(sink, 1), range(10, 20))
        for number in range(2, 4):
            assert not write(calls, SinkBatch(sink, number), range(number * 10, number * 10 + 10))
        # It comes back all the same, with what it had: each row is there once.
        await gone.restart()
        assert calls.home_of(sink) == target
        assert not write(calls, SinkBatch(sink, 4), range(40, 50))

        async def all_numbers():
            with suppress(ArianeError):  # Its new address is not known at once.
                return await numbers_in(cluster.name_servers, "copies")
            return Counter()

        found = await until(all_numbers)
        assert found == Counter(range(50))


@pytest.mark.slow
async def test_a_write_waits_for_the_only_broker_that_knows_it(
    local_cluster, until, quick_expiry, ariane
):
    async with (
        local_cluster(brokers=2) as cluster,
        ClusterClient(cluster.name_servers) as client,
    ):
        first, second = cluster.brokers
        await second.stop()
        await client.create_topic("copies", queue_count=2)
        calls = BatchTransactions(cluster.name_servers, IMPATIENT)
        stream, job = Sink("query/copies", "copies"), Sink("write/job/copies", "copies")
        written = {
            SinkBatch(stream, 0): range(10),
            SinkBatch(stream, 1): range(10, 20),
            SinkBatch(job, 0): range(20, 30),
        }
        for batch, numbers in written.items():
            assert not write(calls, batch, numbers)
        # The topic grows, and the broker that has decided so far leaves before the next batch.
        await second.restart()
        await client.create_topic("copies", queue_count=2, exists_ok=True)
        await first.stop()
        await until(lambda: is_dropped(client, "broker-a"))

        calls = BatchTransactions(cluster.name_servers, IMPATIENT)
        for batch in SinkBatch(stream, 1), SinkBatch(job, 0):
            with pytest.raises(ArianeError, match="broker broker-a has topic copies and is away"):
                write(calls, batch, written[batch])
        assert (await ariane(cluster, "sink", "list"))[1] == []

        await first.restart()

        async def goes_on():
            with suppress(ArianeError):  # Its registration is not known at once.
                return write(calls, SinkBatch(stream, 1), written[SinkBatch(stream, 1)])

        assert await until(goes_on)
        assert write(calls, SinkBatch(job, 0), written[SinkBatch(job, 0)])
        assert not write(calls, SinkBatch(stream, 2), range(30, 40))
        assert await numbers_in(cluster.name_servers, "copies") == Counter(range(40))
