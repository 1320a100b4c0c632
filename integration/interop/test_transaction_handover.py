"""A store with half messages changes hands: whoever has it asks, and decides each once."""

from __future__ import annotations

import asyncio
import shutil
import time
from contextlib import asynccontextmanager

import pytest
from grpc import aio
from rocketmq import rocketmq, run_java_tool

from ariane.broker.v1.transaction_service_pb2 import ListHalfMessagesRequest
from ariane.broker.v1.transaction_service_pb2_grpc import TransactionServiceStub
from ariane_sdk import (
    ClusterClient,
    HalfMessage,
    Message,
    Producer,
    QueueReader,
    TransactionOutcome,
)
from ariane_sdk.errors import TransactionDecided
from ariane_servicekit.running.processes import LocalCluster

MISSING = [tool for tool in ("java", "mvn") if not shutil.which(tool)]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(bool(MISSING), reason=f"missing: {', '.join(MISSING)}"),
]

TOPIC, GROUP = "orders", "payers"
SEGMENT_BYTES = 1 << 20
FLAGS = (
    *("--segment-bytes", str(SEGMENT_BYTES), "--message-bytes-max", str(1 << 16)),
    *("--consume-queue-entries", "1000", "--index-slots", "1000", "--index-items", "40000"),
    *("--disk-clean-ratio", "0.97", "--disk-force-ratio", "0.98", "--disk-refuse-ratio", "0.99"),
)
JAVA_SETTINGS = {
    "mappedFileSizeCommitLog": SEGMENT_BYTES,
    "mappedFileSizeConsumeQueue": 1000 * 20,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 40_000,
    # RocketMQ may ask again until its op record is written.
    "transactionOpBatchInterval": 100,
    "transactionTimeOut": 1000,
}


def asking(interval_ms, check_max=100_000):
    """How RocketMQ asks: it counts also when nobody lives who could answer."""
    return JAVA_SETTINGS | {
        "transactionCheckInterval": interval_ms,
        "transactionCheckMax": check_max,
    }


@pytest.fixture
def ours(tmp_path):
    """Start our own cluster over the store."""

    @asynccontextmanager
    async def ours(checkers=0):
        async with LocalCluster(
            tmp_path / "ours", checkers=checkers, extra_broker_args=FLAGS
        ) as cluster:
            yield cluster

    return ours


@pytest.fixture
def theirs(tmp_path):
    """Have work done while RocketMQ has the store."""

    async def theirs(work, settings):
        def run():
            store = tmp_path / "ours" / "broker-a"
            with rocketmq(store, tmp_path / "home", settings) as name_server:
                return work(name_server)

        return await asyncio.to_thread(run)

    return theirs


async def undecided(cluster):
    """Half messages without an outcome, each with whether it is parked."""
    async with aio.insecure_channel(cluster.brokers[0].address) as channel:
        request = ListHalfMessagesRequest(page_size=1000)
        answer = await TransactionServiceStub(channel).ListHalfMessages(request)
    return {half.transaction_id: half.parked for half in answer.half_messages}


async def visible(cluster):
    found = []
    async with QueueReader(cluster.name_servers) as reader:
        for queue, (begin, end) in (await reader.bounds(TOPIC)).items():
            async for columns in reader.read_range(queue, begin, end):
                found += [body.decode() for body in columns.bodies()]
    return sorted(found)


def read_by_java(name_server, topic=TOPIC):
    rows = run_java_tool("ReadTopics.java", [name_server, topic])[:-1]
    return sorted(bytes.fromhex(row["body"]).decode() for row in rows)


def answer_by_java(name_server, how, count, seconds):
    """Live as a producer in Java until so many were asked about, and for so long then."""
    arguments = [name_server, TOPIC, GROUP, how, str(count), str(seconds)]
    rows = run_java_tool("AnswerChecks.java", arguments, seconds=300)
    return {row["body"]: row["asked"] for row in rows}


def named(word, numbers):
    return [f"{word}{number}" for number in numbers]


async def test_rocketmq_asks_about_our_half_messages_and_decides_them(ours, theirs):
    halves = {}
    async with ours() as cluster:
        async with ClusterClient(cluster.name_servers) as client:
            await client.create_topic(TOPIC, queue_count=2)
        async with Producer(cluster.name_servers, group=GROUP) as producer:
            for name in (*named("done", range(3)), *named("undone", range(2))):
                halves[name] = await producer.send_half(Message(TOPIC, name.encode()))
                end = producer.commit if name.startswith("done") else producer.rollback
                await end(halves[name])
            for name in named("open", range(10)):
                halves[name] = await producer.send_half(Message(TOPIC, name.encode(), tag="red"))
        assert len(await undecided(cluster)) == 10

    def decide(name_server):
        return answer_by_java(name_server, "decide", 10, 6), read_by_java(name_server)

    asked, read = await theirs(decide, asking(4000))
    expected = sorted(named("done", range(3)) + named("open", range(0, 10, 2)))
    assert sorted(asked) == named("open", range(10))
    assert read == expected

    # And back: it is known here how they ended.
    async with ours() as cluster, Producer(cluster.name_servers, group=GROUP) as producer:
        assert await undecided(cluster) == {}
        assert await visible(cluster) == expected
        for name, half in halves.items():
            committed = name in expected
            right, wrong = producer.commit, producer.rollback
            if not committed:
                right, wrong = wrong, right
            await right(half)
            with pytest.raises(TransactionDecided) as refused:
                await wrong(half)
            assert refused.value.outcome == ("COMMIT" if committed else "ROLLBACK")
        assert await visible(cluster) == expected


@pytest.mark.parametrize("asked_before", [False, True], ids=["fresh", "asked about by RocketMQ"])
async def test_our_checker_asks_about_half_messages_of_rocketmq(
    ours, theirs, until_is, asked_before
):
    def send(name_server):
        words = ("done:4", "undone:3", "open:10")
        assert run_java_tool("SendTransactions.java", [name_server, TOPIC, GROUP, *words]) == [
            {"sent": 17}
        ]
        # A half message that RocketMQ asks about is stored anew each time.
        return answer_by_java(name_server, "unknown", 10, 0) if asked_before else {}

    asked = await theirs(send, asking(3000 if asked_before else 600_000))
    assert bool(asked) is asked_before
    expected = sorted(named("done", range(4)) + named("open", range(0, 10, 2)))
    questions = []

    def decide(check):
        questions.append(check.body.decode())
        even = int(check.body[-1:]) % 2 == 0
        return TransactionOutcome.COMMIT if even else TransactionOutcome.ROLLBACK

    async with ours() as cluster:
        assert list((await undecided(cluster)).values()) == [False] * 10
        assert await visible(cluster) == named("done", range(4))
    async with (
        ours(checkers=1) as cluster,
        Producer(cluster.name_servers, group=GROUP, transaction_checker=decide),
    ):
        await until_is(lambda: undecided(cluster), {})
        assert sorted(questions) == named("open", range(10))
        assert await visible(cluster) == expected

    def look(name_server):
        return answer_by_java(name_server, "decide", 0, 10), read_by_java(name_server)

    assert await theirs(look, asking(2000)) == ({}, expected)


async def test_what_rocketmq_gave_up_asking_about_can_be_decided_here(ours, theirs):
    def give_up(name_server):
        run_java_tool("SendTransactions.java", [name_server, TOPIC, GROUP, "open:3"])
        deadline = time.monotonic() + 120
        while len(given_up := read_by_java(name_server, "TRANS_CHECK_MAX_TIME_TOPIC")) < 3:
            assert time.monotonic() < deadline
        return given_up

    # Nobody lives who could answer.
    assert await theirs(give_up, asking(2000, check_max=1)) == named("open", range(3))
    async with ours() as cluster, Producer(cluster.name_servers, group=GROUP) as producer:
        parked = await undecided(cluster)
        assert list(parked.values()) == [True] * 3
        first, *others = parked
        await producer.commit(HalfMessage(first, TOPIC, "broker-a"))
        for each in others:
            await producer.rollback(HalfMessage(each, TOPIC, "broker-a"))
        assert await undecided(cluster) == {}
        assert await visible(cluster) == ["open0"]


@pytest.fixture
def until_is():
    """Wait until a question is answered with something."""

    async def until_is(ask, wanted):
        async with asyncio.timeout(60):
            while await ask() != wanted:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.1)

    return until_is
