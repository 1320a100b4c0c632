"""Relays in processes of their own, killed and frozen, before a real cluster and real databases."""

import asyncio
import itertools
import os
import signal
import sys
from collections import Counter
from contextlib import asynccontextmanager
from random import Random

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import sessionmaker

from ariane_sdk import ClusterClient, Message, QueueReader
from ariane_sdk.sql import METADATA, Outbox, OutboxRelay, create_tables

RELAYS = """
import asyncio, os, signal, sys
from sqlalchemy import create_engine
from sqlalchemy.orm import sessionmaker
from ariane_sdk.sql import Outbox, OutboxRelay

async def main():
    relay = OutboxRelay(
        Outbox("shop", partitions=4),
        sessionmaker(create_engine(sys.argv[1])),
        sys.argv[2],
        lease_s=1.0, call_timeout_s=0.5, poll_s=0.02, batch_rows_max=7, repeat_delay_s_max=0.2,
    )
    async with relay:
        print(os.getpid(), flush=True)
        await asyncio.Event().wait()

# Importing takes a relay longest: this process does it for all, and forks one for each line.
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while sys.stdin.readline():
    if not os.fork():
        asyncio.run(main())
"""
GROUPS = 6
_numbers = itertools.count()


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request, tmp_path):
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/shop.db"
    else:
        url = request.getfixturevalue("postgresql_url")
    engine = create_engine(url)
    with engine.begin() as connection:
        create_tables(connection)
    yield engine
    with engine.begin() as connection:
        METADATA.drop_all(connection)
    engine.dispose()


@pytest.fixture
async def relaying(engine, cluster):
    """Have a process of its own relay; its process id."""
    url = engine.url.render_as_string(hide_password=False)
    command = (sys.executable, "-c", RELAYS, url, cluster.name_servers)
    pipe = asyncio.subprocess.PIPE
    parent = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)

    @asynccontextmanager
    async def relaying():
        parent.stdin.write(b"\n")
        async with asyncio.timeout(90):
            process_id = int(await parent.stdout.readline())
        try:
            yield process_id
        finally:
            await end(process_id)

    yield relaying
    parent.kill()
    await parent.wait()


async def end(process_id):
    """Kill a process that is nobody's child here; harmless when it has ended."""
    async with asyncio.timeout(60):
        while True:
            try:
                os.kill(process_id, signal.SIGKILL)
            except ProcessLookupError:
                return
            await asyncio.sleep(0.01)


class Shop:
    """Writes numbered messages, some in groups, and looks at what came of them."""

    def __init__(self, engine, topic):
        self.sessions = sessionmaker(engine)
        self.outbox = Outbox("shop", partitions=4)
        self.topic = topic
        self.written = 0

    def write(self, count):
        with self.sessions.begin() as session:
            numbers = range(self.written, self.written + count)
            self.outbox.add(session, *map(self._message, numbers))
        self.written += count

    async def write_on(self, seconds):
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < end:
            await asyncio.to_thread(self.write, 10)
            await asyncio.sleep(0.01)

    async def wait_sent(self):
        async with asyncio.timeout(40):
            while await asyncio.to_thread(self._waiting):  # noqa: ASYNC110 - of a database.
                await asyncio.sleep(0.05)

    def _waiting(self):
        with self.sessions() as session:
            return self.outbox.lag(session).waiting_count

    def _message(self, number):
        group = f"g{number % GROUPS}" if number % GROUPS else ""
        return Message(self.topic, b"%d" % number, message_group=group)

    async def check(self, cluster):
        """Each message is stored once, and those of a group are in order."""
        found = {}
        async with QueueReader(cluster.name_servers) as reader:
            for queue, (begin, end) in (await reader.bounds(self.topic)).items():
                found[queue] = []
                async for columns in reader.read_range(queue, begin, end):
                    found[queue] += [int(columns.message(row).body) for row in range(len(columns))]
        counts = Counter(itertools.chain.from_iterable(found.values()))
        assert sorted(counts) == list(range(self.written))
        assert max(counts.values()) == 1
        for group in range(1, GROUPS):
            (ordered,) = filter(
                None, ([n for n in q if n % GROUPS == group] for q in found.values())
            )
            assert ordered == sorted(ordered)


@pytest.fixture
async def shop(cluster, engine):
    topic = f"shop-{next(_numbers)}"
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic(topic)
    return Shop(engine, topic)


@pytest.mark.parametrize(
    "engine", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True
)
async def test_killed_relays_lose_nothing_and_store_nothing_twice(cluster, relaying, shop):
    random = Random(11)
    async with relaying():
        for _ in range(3):
            async with relaying():
                await shop.write_on(random.uniform(0.2, 0.6))
    assert shop.written > 100
    # All are dead now; what the last ones had written down goes on with these two.
    async with relaying(), relaying():
        shop.write(20)
        await shop.wait_sent()
    await shop.check(cluster)


# Not SQLite: who is frozen in a transaction holds the whole file there, relay or not.
@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
async def test_a_frozen_relay_comes_back_and_stores_nothing_twice(cluster, relaying, shop):
    async with relaying() as frozen:
        await shop.write_on(0.3)
        os.kill(frozen, signal.SIGSTOP)
        async with relaying():
            await shop.write_on(0.3)
            await shop.wait_sent()
            os.kill(frozen, signal.SIGCONT)
            await shop.write_on(0.5)
            await shop.wait_sent()
    await shop.check(cluster)


@pytest.mark.slow
async def test_a_broker_is_killed_while_relays_send(fragile_cluster, engine):
    (broker,) = fragile_cluster.brokers
    topic = f"shop-{next(_numbers)}"
    async with ClusterClient(fragile_cluster.name_servers) as client:
        await client.create_topic(topic)
    shop = Shop(engine, topic)
    relays = [
        OutboxRelay(
            shop.outbox,
            shop.sessions,
            fragile_cluster.name_servers,
            lease_s=2.0,
            call_timeout_s=0.5,
            poll_s=0.02,
            batch_rows_max=7,
            repeat_delay_s_max=0.3,
        )
        for _ in range(2)
    ]
    async with relays[0], relays[1]:
        for _ in range(2):
            await shop.write_on(0.3)
            broker.kill()
            await broker.wait()
            await shop.write_on(0.1)
            await broker.restart()
        await shop.wait_sent()
    await shop.check(fragile_cluster)
