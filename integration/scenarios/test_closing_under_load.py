"""A loaded cluster is closed, gets other certificates and authorities, and loses a user."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from contextlib import AsyncExitStack

import pytest

from ariane.broker.v1.topic_service_pb2 import GetTopicRequest
from ariane.broker.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane_admin.cli import main
from ariane_sdk import ClusterClient, Message, Producer, PushConsumer, Tls

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

LOOKS_S = 5.0
"""How often processes look for other certificates."""

GRACE_S = 30.0
"""How long calls in work have where a connection ends."""


class Load:
    """What users do all the time."""

    def __init__(self):
        self.done = Counter()
        """Calls that went well, by their kind."""
        self.failed = {}
        """The first error of each kind of call that failed."""
        self.received = set()
        """Bodies that the consumer has had."""
        self.sent = set()
        """Bodies that a broker has acknowledged."""

    async def repeat(self, kind, call):
        while True:
            try:
                await call()
            except Exception as error:  # noqa: BLE001 - whatever it is, it counts.
                self.failed.setdefault(kind, f"{error!r:.300}")
                await asyncio.sleep(0.1)
            else:
                self.done[kind] += 1
            await asyncio.sleep(0.01)

    def sender(self, name, producer):
        async def send():
            body = f"{name}-{self.done[name]}".encode()
            await producer.send(Message("orders", body))
            self.sent.add(body)

        return send

    def listen(self, messages):
        self.received.update(each.body for each in messages)
        self.done["listen"] += len(messages)

    async def goes_on(self, *kinds):
        """Wait until each kind of call was made some times more."""
        goal = {kind: self.done[kind] + 20 for kind in kinds}

        def reached():
            return all(self.done[kind] >= count for kind, count in goal.items())

        await waited(reached, lambda: (goal, self.done, self.failed))

    async def fails(self, kind):
        """Wait until a kind of call fails."""
        await waited(lambda: kind in self.failed, lambda: self.failed)


async def waited(fulfilled, state):
    end_s = time.monotonic() + 60
    while not fulfilled():
        assert time.monotonic() < end_s, state()
        await asyncio.sleep(0.05)


def refused_of(folder, user):
    """Lines of processes about calls of a user that a closed cluster refused."""
    lines = [line for log in (folder / "logs").iterdir() for line in log.read_text().splitlines()]
    told = [json.loads(line) for line in lines if '"access_refused"' in line]
    return [
        each
        for each in told
        if each.get("access") == "closed" and user in each.get("caller", "").split()
    ]


@pytest.fixture
async def stack():
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def cluster(local_cluster, monkeypatch, stack):
    """Closed, with the environment of its super user."""
    closed = {"tls": True, "super_users": ["root"], "admin": True}
    cluster = await stack.enter_async_context(local_cluster(**closed))
    for name, file in cluster.certificates.user("root").items():
        monkeypatch.setenv(f"ARIANE_TLS_{name.upper()}", str(file))
    monkeypatch.setenv("ARIANE_NAME_SERVERS", cluster.name_servers)
    monkeypatch.setenv("ARIANE_ADMIN", cluster.admins[0].address)
    return cluster


@pytest.fixture
def command(cluster, capfd):
    async def command(*words):
        capfd.readouterr()
        assert await asyncio.to_thread(main, [*words, "-o", "json"]) == 0, words
        return json.loads(capfd.readouterr().out or "null")

    return command


@pytest.fixture
async def prepared(cluster, command, stack, until):
    """A topic and two users, in a cluster that everybody may use."""
    root = await stack.enter_async_context(ClusterClient(cluster.name_servers))
    await until(root.list_brokers)
    await root.create_topic("orders", queue_count=2)
    for user in ("anna", "ben"):
        await command("user", "create", user)
    await change_access(command, "open")


@pytest.fixture
async def load(cluster, prepared, stack):
    """Three users who send; anna also receives and makes single calls, which nobody repeats."""
    load, servers = Load(), cluster.name_servers
    tls = {user: Tls(**cluster.certificates.user(user)) for user in ("anna", "ben", "stranger")}
    calls = {}
    for user, each in tls.items():
        producer = await stack.enter_async_context(Producer(servers, tls=each))
        calls[user] = load.sender(user, producer)
    anna = await stack.enter_async_context(ClusterClient(servers, tls=tls["anna"]))
    consumer = PushConsumer(
        servers,
        group="billing",
        subscriptions={"orders": "*"},
        listener=load.listen,
        start="earliest",
        tls=tls["anna"],
    )
    await stack.enter_async_context(consumer)

    async def one_call():
        stub = TopicServiceStub(anna.channel(cluster.brokers[0].address))
        await stub.GetTopic(GetTopicRequest(topic="orders"), timeout=30)

    calls |= {"call": one_call, "list": anna.list_brokers}
    tasks = [asyncio.create_task(load.repeat(kind, call)) for kind, call in calls.items()]
    yield load
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def change_access(command, mode):
    for service in ("namesrv", "broker", "admin"):
        await command("setting", "set", service, f"access={mode}")


async def test_no_call_fails_of_those_who_may_while_a_cluster_is_closed(load, cluster, command):
    """It goes from open by learn to closed, gets other certificates and authorities."""
    folder = cluster.certificates.folder
    hers = ("anna", "call", "list", "listen")
    await load.goes_on(*hers, "ben", "stranger")
    await change_access(command, "learn")
    await load.goes_on(*hers, "ben", "stranger")
    for user in ("anna", "ben"):
        for row in await command("access", "suggest", user):
            words = (",".join(row["actions"]), row["resource"], row["name"])
            await command("access", "grant", user, *filter(None, words))
    await asyncio.sleep(LOOKS_S)
    await change_access(command, "closed")
    await load.goes_on(*hers, "ben")
    await load.fails("stranger")
    # All certificates, then both authorities, in the three steps of the page on security.
    folder.renew(days=30, within=None)
    await asyncio.sleep(LOOKS_S)
    await load.goes_on(*hers, "ben")
    for authority in ("members", "users"):
        folder.replace_authority(authority)
    await asyncio.sleep(2 * LOOKS_S)
    await load.goes_on(*hers, "ben")
    folder.renew(days=30, within=None)
    await asyncio.sleep(2 * LOOKS_S)
    await load.goes_on(*hers, "ben")
    folder.drop_old_authorities()
    await asyncio.sleep(GRACE_S + 2 * LOOKS_S)
    await load.goes_on(*hers, "ben")
    assert load.failed.keys() == {"stranger"}, load.failed
    await command("user", "update", "ben", "--disable")
    await load.fails("ben")
    await load.goes_on(*hers)
    await waited(lambda: load.sent <= load.received, lambda: load.sent - load.received)
    assert load.failed.keys() == {"stranger", "ben"}, load.failed
    assert refused_of(cluster.data_path, "anna") == []
