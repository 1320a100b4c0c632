"""Topics that keep messages for a shorter time than the broker."""

import asyncio

import pytest
from grpc import StatusCode, aio

from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane_broker import replica_app
from ariane_broker.app import on_this_machine
from ariane_broker.read import topic_retention
from ariane_servicekit import Address, StopRequest
from ariane_storage.store import Store

HOUR_MS = 3_600_000


@pytest.fixture
def ahead(monkeypatch):
    """How far the store's time is ahead, for ages alone."""
    moved = {"ms": 0}
    believed_ms = Store.believed_ms
    monkeypatch.setattr(Store, "believed_ms", lambda store: believed_ms(store) + moved["ms"])
    return moved


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr("ariane_broker.app.HIDING_S", 0.01)


async def begin_of(broker, topic):
    request = pull_pb.ListQueueBoundsRequest(topic=topic)
    (queue,) = (await broker.pulls.ListQueueBounds(request)).queues
    return queue.min_queue_offset, queue.max_queue_offset


async def wait_for_begin(broker, topic, begin):
    async with asyncio.timeout(60):
        while (await begin_of(broker, topic))[0] != begin:  # noqa: ASYNC110 - of the broker
            await asyncio.sleep(0.005)


async def retain(broker, topic, text):
    request = topic_pb.UpdateTopicRequest(topic=topic, attributes={"retention.ms": text})
    return (await broker.topics.UpdateTopic(request)).topic


async def test_queues_begin_behind_what_is_too_old_for_their_topic(running, ahead, soon):
    hour = {"attributes": {"retention.ms": str(HOUR_MS)}}
    async with running() as broker:
        await broker.create_topic("short", **hour)
        await broker.create_topic("long")
        for topic in "short", "long":
            await broker.store(topic, [b"old", b"older"])
        assert await broker.bodies("short") == [b"old", b"older"]
        ahead["ms"] = HOUR_MS - 600_000
        await asyncio.sleep(0.05)
        assert await begin_of(broker, "short") == (0, 2)
        ahead["ms"] = HOUR_MS + 600_000
        await wait_for_begin(broker, "short", 2)
        assert await begin_of(broker, "long") == (0, 2)
        (pulled,) = await broker.pull(("short", 0, 0))
        assert (pulled.error.code, pulled.min_queue_offset) == (StatusCode.OUT_OF_RANGE.value[0], 2)
    # Before the first call is answered, also after a start.
    async with running() as broker:
        assert await begin_of(broker, "short") == (2, 2)
        told = await retain(broker, "short", str(2 * HOUR_MS))
        assert dict(told.attributes) == {"retention.ms": str(2 * HOUR_MS)}
        await wait_for_begin(broker, "short", 0)
        assert await broker.bodies("short") == [b"old", b"older"]
        await retain(broker, "short", str(HOUR_MS))
        await wait_for_begin(broker, "short", 2)
        assert dict((await retain(broker, "short", "")).attributes) == {}
        await wait_for_begin(broker, "short", 0)
        ahead["ms"] = 0
        await broker.store("short", [b"new"])
        assert await broker.bodies("short", 0, 2) == [b"new"]


async def test_what_was_stored_before_a_time_is_hidden_until_that_is_undone(running, soon):
    async with running() as broker:
        await broker.create_topic("orders")
        await broker.store("orders", [b"old"])
        await asyncio.sleep(0.002)
        stored = await broker.store("orders", [b"new"])
        since = str(stored.store_time.ToMilliseconds())
        await show_since(broker, since)
        await wait_for_begin(broker, "orders", 1)
        assert await broker.bodies("orders", 0, 1) == [b"new"]
    async with running() as broker:
        assert await begin_of(broker, "orders") == (1, 2)
        with pytest.raises(aio.AioRpcError, match="no time in ms"):
            await show_since(broker, "yesterday")
        await show_since(broker, "")
        await wait_for_begin(broker, "orders", 0)


async def test_a_replica_hides_the_same(running, settings_for, tmp_path, monkeypatch, ahead):
    monkeypatch.setattr("ariane_broker.replica_app.HIDING_S", 0.01)
    async with running() as broker:
        await broker.create_topic("orders", attributes={"retention.ms": str(HOUR_MS)})
        await broker.store("orders", [b"old"])
        await asyncio.sleep(0.002)
        stored = await broker.store("orders", [b"new"])
        await show_since(broker, str(stored.store_time.ToMilliseconds()))
    url = f"sqlite:///{tmp_path}/set.db"
    settings = settings_for(replica_set_url=url, broker_id=1, primary_lease_s=0.2)
    life = replica_app.compose_replica(on_this_machine(settings, StopRequest()), lambda _: None)

    def begin():
        return life._log.store.queue_bounds("orders", 0)[0]

    async def wait_until_begin(offset):
        async with asyncio.timeout(60):
            while begin() != offset:  # noqa: ASYNC110 - of the replica
                await asyncio.sleep(0.005)

    await life.recover(Address("127.0.0.1", 1))
    try:
        assert begin() == 1
        topics = settings.store_path / "config" / "topics.json"
        topics.write_text(topics.read_text().replace("shown.since.ms", "else"))
        await life._parts.client._pulls._on_state()
        await life.serve_started(Address("127.0.0.1", 1))
        await wait_until_begin(0)
        ahead["ms"] = HOUR_MS + 600_000
        await wait_until_begin(2)
    finally:
        await life.stop()


async def show_since(broker, text):
    request = topic_pb.UpdateTopicRequest(topic="orders", attributes={"shown.since.ms": text})
    await broker.topics.UpdateTopic(request)


@pytest.mark.parametrize("text", ["0", "-5", "1h", "\u0661", "9" * 15, "1" * 20])
async def test_an_invalid_time_is_refused(running, text):
    async with running() as broker:
        await broker.create_topic("orders")
        with pytest.raises(aio.AioRpcError, match="no time in ms, 1 to 3162240000000: "):
            await retain(broker, "orders", text)


async def test_thousands_of_topics_without_their_own_time_cost_no_reads():
    class Reads:
        async def in_turns(self, _reader, steps):
            assert list(steps) == []

    class Configs:
        retention_ms = shown_since_ms = None
        topic = "orders"

    class Topics:
        def walk(self):
            return iter([Configs] * 1000)

    class Clock:
        def believed_ms(self):
            return 0

    await topic_retention.TopicRetention(Clock(), Topics(), None, Reads()).apply()
