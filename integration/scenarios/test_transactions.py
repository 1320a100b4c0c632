"""Transactions of real producers, with whatever dies at each place of one.

Cashiers take payments: a half message, a row in their own database, a commit. They are killed in
between, and so are the broker in a commit and the checker in a check; answers are lost. What the
database has is visible then, each payment once, and nothing else ever was.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import create_engine, select, text

from ariane.broker.v1.transaction_service_pb2 import ListHalfMessagesRequest
from ariane.broker.v1.transaction_service_pb2_grpc import TransactionServiceStub
from ariane_sdk import ClusterClient, PushConsumer, PushSettings, QueueReader
from ariane_sdk.sql import METADATA, create_tables
from ariane_servicekit.running.processes import ServiceProcess
from ariane_servicekit.security.caller import MemberKind
from ariane_testkit.closed_clusters import open_aio_channel
from ariane_testkit.postgresql import postgresql_or_skip

CASHIER = Path(__file__).with_name("cashier.py")
TOPIC = "payments"
OUTCOME = METADATA.tables["ariane_transaction_outcome"]
BRISK = PushSettings(rebalance_gap_s_min=0.05, handover_s=0.05, call_timeout_s=5.0)
QUICK = (
    *("--first-check-s", "0.5", "--check-interval-s", "0.5", "--survey-interval-s", "0.2"),
    *("--note-age-s", "0", "--retry-s", "0.3", "--lease-s", "1.5", "--check-count-max", "60"),
)
FAULTS = {
    "the cashier dies with a half message": ("half", "kill_cashier"),
    "the cashier dies in its local transaction": ("recorded", "kill_cashier"),
    "the cashier dies before it commits": ("stored", "kill_cashier"),
    "the cashier dies in its commit": ("commit", "kill_cashier_soon"),
    "the broker dies in a commit": ("commit", "kill_broker_soon"),
    "the answer to a commit is lost": ("commit", "lose_answer"),
    "the checker dies in a check": ("asked", "kill_checkers"),
    "the answer to a check, or to what the checker does then, is lost": ("asked", "lose_answer"),
}
"""By name: at which place of a transaction, and what happens there."""


class LossyProxy:
    """Stands before a broker; whoever asks something that names a marked thing gets no answer."""

    def __init__(self, chance):
        self.target = ""
        self.address = ""
        self.lost_count = 0
        self._chance = chance
        self._marked = set()
        self._links = set()

    async def open(self):
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        return server

    def lose_answer_to(self, marked):
        self._marked.add(marked.encode())

    async def _serve(self, reader, writer):
        link = asyncio.current_task()
        self._links.add(link)
        with suppress(OSError):
            there = await asyncio.open_connection(*self.target.split(":"))
            deaf = asyncio.Event()
            ways = [
                asyncio.create_task(self._copy(reader, there[1], deaf, watch=True)),
                asyncio.create_task(self._copy(there[0], writer, deaf, watch=False)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
                there[1].close()
        writer.close()
        self._links.discard(link)

    async def _copy(self, reader, writer, deaf, *, watch):
        with suppress(OSError):
            while chunk := await reader.read(1 << 16):
                if deaf.is_set():
                    continue  # What comes from there is heard by nobody.
                writer.write(chunk)
                await writer.drain()
                marked = {each for each in self._marked if each in chunk} if watch else ()
                if marked:
                    self._marked -= marked
                    self.lost_count += 1
                    deaf.set()
                    await asyncio.sleep(self._chance.uniform(0, 0.05))
                    return


class Cashier:
    """A process that takes payments, and asks at each place whether it may go on."""

    def __init__(self, name, arguments, reached):
        self.name = name
        self._arguments = arguments
        self._reached = reached
        self._lives = 0
        self._following = None
        self.idle = asyncio.Event()

    @property
    def running(self):
        return self._process.returncode is None

    async def start(self):
        self._lives += 1
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(CASHIER), *self._arguments, f"{self.name}.{self._lives}"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert await self._process.stdout.readline() == b"ready -\n"
        self._following = asyncio.create_task(self._follow())

    def say(self, line):
        with suppress(OSError):
            self._process.stdin.write(f"{line}\n".encode())

    async def kill(self):
        if self.running:
            self._process.kill()
        await self._process.wait()

    async def end(self):
        if self._following is not None:
            self._following.cancel()
            await self.kill()

    async def _follow(self):
        while line := (await self._process.stdout.readline()).decode().strip():
            if line == "idle -":
                self.idle.set()
            else:
                await self._reached(self, line)


class Trade:
    """Cashiers, a broker behind a proxy, checkers, and what goes wrong among them."""

    def __init__(self, seed, database_url):
        self.chance = random.Random(seed)
        self.proxy = LossyProxy(self.chance)
        self.engine = create_engine(database_url)
        self.seen = {}
        self.early = set()
        self._armed = None
        self._struck = asyncio.Event()

    async def open(self, stack, cluster, checkers, cashiers):
        self.broker = cluster.brokers[0]
        self.proxy.target = self.broker.address
        self.checkers, self.cashiers = checkers, cashiers
        with self.engine.begin() as connection:
            if connection.dialect.name == "sqlite":
                connection.execute(text("PRAGMA journal_mode=WAL"))
            create_tables(connection)
            connection.execute(
                text("CREATE TABLE payment (number VARCHAR(60) PRIMARY KEY, transaction_id TEXT)")
            )
        for each in (*checkers, *cashiers):
            stack.push_async_callback(each.stop if each in checkers else each.end)
        await asyncio.gather(*(each.start() for each in (*checkers, *cashiers)))

    # What happens.

    async def strike(self, name):
        """Have one thing go wrong at its place, and mend what died."""
        self._struck.clear()
        self._armed = FAULTS[name]
        async with asyncio.timeout(120):
            await self._struck.wait()
        dead = [each for each in (self.broker, *self.checkers, *self.cashiers) if not each.running]
        await asyncio.gather(*(each.start() for each in dead))

    async def reached(self, cashier, line):
        """A cashier waits at a place: it goes on, or something happens there."""
        place, transaction_id = line.split()
        if self._armed is None or self._armed[0] != place:
            cashier.say(line)
            return
        _, what = self._armed
        self._armed = None
        await getattr(self, f"_{what}")(cashier, line, transaction_id)
        self._struck.set()

    async def _kill_cashier(self, cashier, _line, _transaction_id):
        await cashier.kill()

    async def _kill_cashier_soon(self, cashier, line, _transaction_id):
        cashier.say(line)
        await asyncio.sleep(self.chance.uniform(0, 0.006))
        await cashier.kill()

    async def _kill_broker_soon(self, cashier, line, _transaction_id):
        cashier.say(line)
        await asyncio.sleep(self.chance.uniform(0, 0.006))
        self.broker.kill()
        await self.broker.wait()

    async def _kill_checkers(self, cashier, line, _transaction_id):
        for checker in self.checkers:
            checker.kill()
            await checker.wait()
        cashier.say(line)

    async def _lose_answer(self, cashier, line, transaction_id):
        self.proxy.lose_answer_to(transaction_id)
        cashier.say(line)

    # What is seen of it.

    async def listen(self, messages):
        numbers = {bytes(message.body).decode() for message in messages}
        self.early |= numbers - await asyncio.to_thread(self._paid, numbers)
        for message in messages:
            place = (message.message_queue, message.queue_offset)
            self.seen[place] = bytes(message.body).decode()

    def _paid(self, numbers):
        with self.engine.connect() as connection:
            wanted = text("SELECT number FROM payment")
            return numbers & set(connection.scalars(wanted))

    async def undecided(self):
        """Half messages without an outcome, each with whether it is parked."""
        async with open_aio_channel(self.broker.address) as channel:
            stub = TransactionServiceStub(channel)
            answer = await stub.ListHalfMessages(ListHalfMessagesRequest(page_size=1000))
        return {half.transaction_id: half.parked for half in answer.half_messages}

    async def close_up(self, cluster, until):
        """Take no payments any more; wait until all are decided, and all that is there is seen."""
        for cashier in self.cashiers:
            cashier.say("stop")
        for cashier in self.cashiers:
            async with asyncio.timeout(120):
                await cashier.idle.wait()

        async def all_decided():
            return not await self.undecided()

        async def all_seen():
            async with QueueReader(cluster.name_servers) as reader:
                bounds = await reader.bounds(TOPIC)
            return len(self.seen) == sum(end for _, end in bounds.values())

        await until(all_decided, seconds=180)
        await until(all_seen, seconds=120)

    def check(self):
        """What is visible is what the database has, each once; nothing was ever visible before."""
        with self.engine.connect() as connection:
            paid = dict(
                connection.execute(text("SELECT transaction_id, number FROM payment")).all()
            )
            outcomes = dict(
                connection.execute(select(OUTCOME.c.transaction_id, OUTCOME.c.outcome)).all()
            )
        assert Counter(self.seen.values()) == Counter(paid.values())
        assert self.early == set()
        assert {name for name, outcome in outcomes.items() if outcome == "COMMIT"} == set(paid)
        counts = Counter(outcomes.values())
        assert min(counts["COMMIT"], counts["ROLLBACK"]) > 0
        return counts


@asynccontextmanager
async def trading(local_cluster, seed, database_url, checker_url, checker_count, tmp_path):
    trade = Trade(seed, database_url)
    async with AsyncExitStack() as stack:
        stack.callback(trade.engine.dispose)
        await stack.enter_async_context(await trade.proxy.open())
        flags = ("--advertised-address", trade.proxy.address)
        cluster = await stack.enter_async_context(local_cluster(*flags))
        trade.proxy.target = cluster.brokers[0].address
        async with ClusterClient(cluster.name_servers) as client:
            await client.create_topic(TOPIC, queue_count=2)
        where = ("--name-servers", cluster.name_servers, "--database-url", checker_url)
        checkers = [
            ServiceProcess(
                name,
                "ariane_txn_checker",
                (*where, *QUICK, *cluster.shown(MemberKind.CHECKER, name)),
                tmp_path / f"{name}.log",
            )
            for name in [f"checker-{number}" for number in range(checker_count)]
        ]
        arguments = (cluster.name_servers, database_url)
        cashiers = [Cashier(name, arguments, trade.reached) for name in ("anna", "ben")]
        await trade.open(stack, cluster, checkers, cashiers)
        consumer = PushConsumer(
            cluster.name_servers,
            group="ledger",
            subscriptions={TOPIC: "*"},
            listener=trade.listen,
            start="earliest",
            settings=BRISK,
        )
        await stack.enter_async_context(consumer)
        yield trade, cluster


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_each_committed_row_is_visible_once_whatever_dies(local_cluster, tmp_path, until):
    faults = list(FAULTS)
    random.Random(3).shuffle(faults)
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in ("shop", "checker")]
    async with trading(local_cluster, 3, *urls, 1, tmp_path) as (trade, cluster):
        for fault in faults:
            await trade.strike(fault)
        await trade.close_up(cluster, until)
        trade.check()
        assert trade.proxy.lost_count > 0


@pytest.fixture
def postgresql_url(request):
    with postgresql_or_skip(request.config) as url:
        yield url


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_the_same_for_long(local_cluster, tmp_path, until, request, kind, seed):
    if kind == "sqlite":
        urls = [f"sqlite:///{tmp_path}/{name}.db" for name in ("shop", "checker")]
    else:
        urls = [request.getfixturevalue("postgresql_url")] * 2
    chance = random.Random(seed)
    faults = list(FAULTS) * 4
    chance.shuffle(faults)
    checkers = 2 if kind == "postgresql" else 1
    async with trading(local_cluster, seed, *urls, checkers, tmp_path) as (trade, cluster):
        for fault in faults:
            await asyncio.sleep(chance.uniform(0, 0.5))
            await trade.strike(fault)
        await trade.close_up(cluster, until)
        trade.check()
        assert trade.proxy.lost_count > 0
