"""A stream from topic to topic through deaths of everything: each row once, and none missing.

Every third row has a delivery time, some seconds ahead: none of them comes early.

Spark has two executors, each a JVM of its own, and speculation is on. Attempts that lose come from
tasks that die when all is staged, and from executors and drivers that are killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import time
from collections import Counter

import pytest
from copying_process import STEP_S, CopyingQuery, message_count, numbers_of

from ariane.broker.v1.topic_service_pb2 import CreateTopicRequest, Topic
from ariane.broker.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane_sdk import ClusterClient, Message, Producer
from ariane_sdk.errors import ArianeError
from ariane_testkit.closed_clusters import open_aio_channel

SEED = int(os.environ.get("KILL_SEED", "7"))
CRASHES = int(os.environ.get("SPARK_CRASHES", "40"))

KINDS = (
    *("in write", "worker", "executor", "staged"),
    *("before commit", "after commit", "commit without answer", "replay"),
    *("broker", "home", "driver", "restored", "copied"),
)
"""A task that fails half way, is killed half way, alone or with the JVM of its executor, is killed
when all is staged; the process that
commits is killed before and after it, or fails after it, or a batch that is committed comes again;
brokers, the home of the sink, and the
driver are killed at any time; an older state of the checkpoint is put back, or used by
another query. The last two plan other micro-batches than those that were committed, for each has
the time of its own planning in it: they must fail and write nothing."""

ROWS_OF_CRASH = 160
"""So many that the stream is not at its end before the last crash: some micro-batches of 20."""


async def goes_back(query, kind, folder, until):
    """Have an older state of the checkpoint used, and then the newest again."""
    name = f"{kind} in {folder.name}"
    await query.pause(until)
    older = folder / "older"
    shutil.copytree(query.checkpoint, older)
    await query.go_on(until)
    await query.commits(3, until)
    await query.pause(until)
    if kind == "copied":
        await query.go_on(until, older, name=name)
        await query.is_refused(until, name)
    else:
        query.checkpoint.rename(folder / "newest")
        older.rename(query.checkpoint)
        await query.go_on(until, name=name)
        await query.is_refused(until, name)
        shutil.rmtree(query.checkpoint)
        (folder / "newest").rename(query.checkpoint)
    await query.go_on(until)


async def sink_of(cluster, ariane):
    """The sink of the query, as it is listed."""
    [sink] = (await ariane(cluster, "sink", "list"))[1]
    return sink


def broker_of(cluster, name):
    """The process of a broker."""
    return cluster.brokers["abc".index(name[-1])]


async def home_is_lost(cluster, ariane, query, until):
    """Lose the home of a sink while its stream runs, move the sink, and have the home come back."""
    sink = await sink_of(cluster, ariane)
    if sink["home"] == "broker-c":
        # A home that lives is moved beneath the running stream.
        words = ("sink", "move", sink["name"], "broker-a", "--yes")
        assert (await ariane(cluster, *words))[0] == 0
        await query.commits(2, until)
        sink = await sink_of(cluster, ariane)
    [target] = {"broker-a", "broker-b"} - {sink["home"]}
    gone = broker_of(cluster, sink["home"])
    gone.kill()
    await gone.wait()
    words = ("sink", "move", sink["name"], target, "--home-is-gone", "--yes")
    assert (await ariane(cluster, *words))[0] == 0
    await query.commits(3, until)
    assert (await sink_of(cluster, ariane))["home"] == target
    await gone.restart()


def crashes_of(chance, homes, crashes):
    """All kinds in turn, each turn in another order."""
    # What an older checkpoint does has nothing to do with where its rows are.
    known = KINDS if homes == 1 else KINDS[:-2]
    kinds = [kind for _ in range(crashes) for kind in chance.sample(known, len(known))][:crashes]
    if crashes < len(known):
        # The short form has them in any case.
        kinds[:2] = ("restored", "copied") if homes == 1 else ("home", "before commit")
    if homes > 1:
        kinds.insert(len(kinds) // 2, "lost home")
    return kinds


async def fill(cluster, rows, until):
    """Fill the topic that is copied; it lies on the last broker, which is never lost."""
    names = cluster.name_servers
    async with ClusterClient(names) as client, Producer(names) as producer:
        wanted = Topic(topic="flights", read_queue_count=3, write_queue_count=3)
        async with open_aio_channel(str(cluster.brokers[-1].address)) as channel:
            await TopicServiceStub(channel).CreateTopic(CreateTopicRequest(topic=wanted))
        await client.create_topic("copies", queue_count=4)

        async def is_routed():
            with contextlib.suppress(ArianeError):
                return (await client.route("flights")).brokers

        await until(is_routed)
        for first in range(0, rows, 80):
            batch = range(first, first + 80)
            await producer.send_batch(
                [Message("flights", b"%d" % n, tag=f"t{n % 9}") for n in batch]
            )


async def killed_and_back(cluster, name, chance):
    """Kill a broker, or any, and start it again."""
    broker = chance.choice(cluster.brokers) if name is None else broker_of(cluster, name)
    await asyncio.sleep(chance.uniform(0, 1.0))
    broker.kill()
    await broker.wait()
    await asyncio.sleep(chance.uniform(0, 1.5))
    await broker.restart()


async def strike(query, kind, folder, chance, until):
    """Kill the driver, go back to an older checkpoint, or have a fault within the query."""
    if kind == "driver":
        await asyncio.sleep(chance.uniform(0, 1.0))
        await query.kill()
        await query.start()
    elif kind in {"restored", "copied"}:
        await goes_back(query, kind, folder, until)
    else:
        query.arm(kind, chance.randrange(3))

        async def struck():
            return query.has_struck()

        await until(struck, seconds=STEP_S)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("homes", "crashes"), sorted({(1, 3), (1, CRASHES), (3, 3), (3, CRASHES)}))
async def test_each_row_once_through_crashes(
    local_cluster, until, ariane, tmp_path, monkeypatch, homes, crashes
):
    """With three brokers, the home of the sink is lost in the middle, and comes back later."""
    monkeypatch.setenv("ARIANE_NAMESRV_WARM_UP_S", "0")
    monkeypatch.setenv("ARIANE_NAMESRV_HEARTBEAT_INTERVAL_S", "1")
    monkeypatch.setenv("ARIANE_NAMESRV_SILENCE_S_MAX", "10")
    monkeypatch.setattr("ariane_servicekit.running.processes.READY_S_MAX", STEP_S)
    chance = random.Random(SEED)
    kinds = crashes_of(chance, homes, crashes)
    rows = ROWS_OF_CRASH * (len(kinds) + 1)
    begun_s = time.monotonic()
    async with local_cluster(brokers=homes) as cluster:
        names = cluster.name_servers
        await fill(cluster, rows, until)
        query = CopyingQuery(tmp_path / "spark", names, "flights", "copies")
        await query.start()
        try:
            await query.commits(1, until)
            for number, kind in enumerate(kinds):
                count, now_s = await message_count(names, "copies"), time.monotonic() - begun_s
                # Commands of the test take what is printed.
                with (tmp_path / "crashes.log").open("a") as log:
                    print(f"{now_s:.0f} s", number, kind, count, file=log)
                if kind in {"broker", "home"}:
                    home = (await sink_of(cluster, ariane))["home"]
                    await killed_and_back(cluster, home if kind == "home" else None, chance)
                elif kind == "lost home":
                    await home_is_lost(cluster, ariane, query, until)
                else:
                    await strike(query, kind, tmp_path / f"back-{number}", chance, until)
                assert await message_count(names, "copies") < rows, f"too early: {number} {kinds}"
                # A fault in a micro-batch that was committed already would be another fault.
                await query.commits(1, until)

            # What is left needs no crash: some large micro-batches have it.
            await query.go_on(until, rows=2000)

            async def complete():
                query.check_alive()
                return await message_count(names, "copies") >= rows

            await until(complete, seconds=STEP_S)
            # Whoever writes twice would do it now, and what is for later would come.
            await asyncio.sleep(4)
        finally:
            await query.kill()
        found, early = await numbers_of(names, "copies")
    print(dict(Counter(kinds)), f"rows {rows}, found {found.total()}, different {len(found)}")
    assert "refused as itself" not in query.log_path.read_text(), "the same batch is refused"
    assert [row for row, count in found.items() if count > 1] == [], f"twice: {SEED} {kinds}"
    assert sorted(found) == list(range(rows)), f"lost: seed {SEED} {kinds}"
    assert early == [], f"early: seed {SEED} {kinds}"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_a_stream_goes_on_at_another_broker_when_its_own_is_gone(
    local_cluster, until, ariane, tmp_path, monkeypatch
):
    monkeypatch.setenv("ARIANE_NAMESRV_WARM_UP_S", "0")
    monkeypatch.setenv("ARIANE_NAMESRV_HEARTBEAT_INTERVAL_S", "1")
    monkeypatch.setenv("ARIANE_NAMESRV_SILENCE_S_MAX", "10")
    rows = 600
    async with (
        local_cluster(brokers=3) as cluster,
        ClusterClient(cluster.name_servers) as client,
        Producer(cluster.name_servers) as producer,
    ):
        names = cluster.name_servers
        for broker, topic in zip(cluster.brokers, ("copies", "copies", "flights"), strict=True):
            wanted = Topic(topic=topic, read_queue_count=3, write_queue_count=3)
            async with open_aio_channel(str(broker.address)) as channel:
                await TopicServiceStub(channel).CreateTopic(CreateTopicRequest(topic=wanted))

        async def is_routed():
            brokers = (await client.route("copies")).brokers
            return len(brokers) == 2 and (await client.route("flights")).brokers

        await until(is_routed)
        for first in range(0, rows, 60):
            batch = range(first, first + 60)
            await producer.send_batch(
                [Message("flights", b"%d" % n, tag=f"t{n % 9}") for n in batch]
            )
        query = CopyingQuery(tmp_path / "spark", names, "flights", "copies")
        await query.start()
        try:
            await query.commits(4, until)
            # The driver dies before it commits: its next batch is open, and nowhere.
            query.arm("before commit", 0)

            async def struck():
                return query.has_struck()

            await until(struck, seconds=STEP_S)
            await query.kill()
            [sink] = (await ariane(cluster, "sink", "list"))[1]
            assert sink["staged_rows"] > 0
            [target] = {"broker-a", "broker-b"} - {sink["home"]}
            gone = cluster.brokers["ab".index(sink["home"][-1])]
            gone.kill()
            await gone.wait()

            async def is_dropped():
                return sink["home"] not in {
                    each.broker_name for each in await client.list_brokers()
                }

            await until(is_dropped)

            words = ("sink", "move", sink["name"], target, "--home-is-gone", "--yes")
            status, told = await ariane(cluster, *words)
            assert (status, told["home"]) == (0, target)
            await query.start()
            await query.commits(3, until)
            await gone.restart()

            async def complete():
                query.check_alive()
                return await message_count(names, "copies") >= rows

            await until(complete, seconds=STEP_S)
        finally:
            await query.kill()
        found, early = await numbers_of(names, "copies")
        assert (found, early) == (Counter(range(rows)), [])
        [after] = (await ariane(cluster, "sink", "list"))[1]
        assert (after["home"], after["state"], after["failure"]) == (target, "ok", "")
        assert after["batch"] > sink["batch"]
