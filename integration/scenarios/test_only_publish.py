"""Who may only send to some topics does that by every way of a client, and nothing else by any."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType
from sqlalchemy import create_engine
from sqlalchemy.orm import sessionmaker

from ariane_sdk import (
    ClusterClient,
    Message,
    Producer,
    PullConsumer,
    QueueReader,
    ReceiveConsumer,
    Tls,
)
from ariane_sdk.errors import ArianeError
from ariane_sdk.sql import Outbox, OutboxRelay, create_tables
from ariane_servicekit import SystemClock
from ariane_servicekit.security.gate.access_mode import AccessMode
from ariane_servicekit.security.gate.gate import Gate
from ariane_servicekit.security.gate.rules_keeper import RulesKeeper
from ariane_spark.calls.batch_transactions import BatchTransactions
from ariane_spark.calls.sink_batches import Sink, SinkBatch
from ariane_spark.options.options import RequestPolicy
from ariane_spark.records.contents import Contents
from ariane_spark.records.rows import IdentitySeed, RowPlan
from ariane_spark.sink.staging import StagedAttempt
from ariane_testkit.access_rules import rules_of

pytestmark = pytest.mark.slow

RULES = rules_of(1, "shop: allow PUBLISH topic order-*")
SOON = timedelta(seconds=0.2)
DENIED = re.compile(r"ACCESS_DENIED|shop may not (GET|PUBLISH|SUBSCRIBE|CREATE|DELETE) ")
ONE_TRY = RequestPolicy(timeout_ms=10_000, retries_max=0, backoff_ms=1)


@pytest.fixture
def rules(tmp_path, monkeypatch):
    """What admin would tell, for the processes that are started."""
    monkeypatch.setenv("ARIANE_NAMESRV_WARM_UP_S", "0")
    for service in ("BROKER", "NAMESRV"):
        path = tmp_path / f"rules-{service}"
        RulesKeeper(Gate(AccessMode.CLOSED, int), path, SystemClock(), hold_s_max=1).save(RULES)
        monkeypatch.setenv(f"ARIANE_{service}_ACCESS_RULES_FILE", str(path))


def by_spark(name_servers, topic, bodies):
    """Write as the exactly-once sink does: a task stages, the driver commits."""
    calls = BatchTransactions(name_servers, ONE_TRY)
    plan = RowPlan.of(StructType([StructField("body", StringType())]), topic)
    batch = SinkBatch(Sink(f"query/{topic}", topic), 0)
    assert not calls.is_committed(batch)  # It is the shop's own sink from now on.
    staged = StagedAttempt(calls, batch, 0, name="test", block_bytes_max=1024)
    rows = pa.record_batch({"body": pa.array(bodies)})
    for part in plan.tables(rows, IdentitySeed("test"), 0):
        staged.add(part)
    calls.commit(batch, staged.finish(), Contents(len(bodies), 0))


async def by_outbox(name_servers, topic, body, folder):
    """Send what a transaction of a database has left."""
    engine = create_engine(f"sqlite:///{folder}/{topic}.db")
    with engine.begin() as connection:
        create_tables(connection)
    sessions, outbox = sessionmaker(engine), Outbox("shop")
    with sessions.begin() as session:
        outbox.add(session, Message(topic, body))
    async with OutboxRelay(outbox, sessions, name_servers, poll_s=0.02, attempts_max=1):
        async with asyncio.timeout(60):
            while waiting(sessions, outbox):  # noqa: ASYNC110 - nobody tells.
                await asyncio.sleep(0.05)
    with sessions() as session:
        parked = outbox.parked(session)
    engine.dispose()
    if parked:
        raise ArianeError(f"[{parked[0].reason}] {parked[0].error}")


def waiting(sessions, outbox):
    with sessions() as session:
        return outbox.lag(session).waiting_count


async def by_transaction(producer, topic):
    half = await producer.send_half(Message(topic, b"half"))
    await producer.commit(half)


def ways_to_send(producer, name_servers, topic, folder):
    """Each way, with what it leaves in the topic."""
    yield b"single", lambda: producer.send(Message(topic, b"single"))
    yield b"batch", lambda: producer.send_batch([Message(topic, b"batch")])
    yield b"delayed", lambda: producer.send(Message(topic, b"delayed", delay=SOON))
    yield b"ordered", lambda: producer.send(Message(topic, b"ordered", message_group="g"))
    yield b"half", lambda: by_transaction(producer, topic)
    yield b"outbox", lambda: by_outbox(name_servers, topic, b"outbox", folder)
    yield b"spark", lambda: asyncio.to_thread(by_spark, name_servers, topic, ["spark"])


def other_things(shop, name_servers, topic):
    """What else a client does with a topic and its cluster."""
    one = {"subscriptions": {topic: "*"}, "group": "g"}
    yield "read", lambda: read(name_servers, topic, None)
    yield "pull", lambda: first_of(PullConsumer(name_servers, start="earliest", **one))
    yield "receive", lambda: first_of(ReceiveConsumer(name_servers, **one))
    yield "create", lambda: shop.create_topic("order-3", queue_count=1)
    yield "delete", lambda: shop.delete_topic(topic)


async def first_of(consumer):
    async with consumer:
        ask = consumer.poll if isinstance(consumer, PullConsumer) else consumer.receive_batch
        return await ask(timeout_s=10)


async def read(name_servers, topic, tls):
    """The bodies in a topic."""
    found = set()
    async with QueueReader(name_servers, tls=tls) as reader:
        for queue, (begin, end) in (await reader.bounds(topic)).items():
            async for columns in reader.read_range(queue, begin, end):
                found |= {bytes(columns.message(row).body) for row in range(len(columns))}
    return found


async def refusal(call):
    """Why a call is refused; empty if it is not."""
    try:
        await call
    except ArianeError as error:
        return f"[{getattr(error, 'reason', '')}] {error}"
    return ""


async def test_a_user_with_the_right_to_send_to_some_topics_does_nothing_else(
    local_cluster, rules, monkeypatch, tmp_path, until
):
    async with local_cluster(tls=True, super_users=["root"]) as cluster:
        servers = cluster.name_servers
        root = Tls(**cluster.certificates.user("root"))
        for name, file in cluster.certificates.user("shop").items():
            monkeypatch.setenv(f"ARIANE_TLS_{name.upper()}", str(file))
        async with ClusterClient(servers, tls=root) as client:
            await until(client.list_brokers)
            for topic in ("order-1", "bills"):
                await client.create_topic(topic, queue_count=1)
        async with Producer(servers, group="tellers") as producer, ClusterClient(servers) as shop:
            expected = set()
            for body, send in ways_to_send(producer, servers, "order-1", tmp_path):
                await send()
                expected.add(body)

            async def all_are_there():
                return await read(servers, "order-1", root) == expected

            await until(all_are_there)
            for body, send in ways_to_send(producer, servers, "bills", tmp_path):
                assert DENIED.search(await refusal(send())), body
            for thing, do in other_things(shop, servers, "order-1"):
                assert DENIED.search(await refusal(do())), thing
        assert await read(servers, "bills", root) == set()
        assert await read(servers, "order-1", root) == expected
