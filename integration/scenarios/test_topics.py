"""Topics while they are in use: fewer queues, less permission, gone."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from contextlib import asynccontextmanager, suppress

import pytest

from ariane_sdk import (
    ClusterClient,
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushSettings,
    QueueReader,
)
from ariane_sdk.errors import ArianeError, RouteNotFound, SendError, TopicRefused
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.small_store import SMALL_STORE

BRISK = PushSettings(rebalance_gap_s_min=0.05, handover_s=0.05, offset_store_interval_s=0.2)


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """A cluster of one broker for all tests that bring their own topic."""
    folder = tmp_path_factory.mktemp("one")
    with LocalCluster(folder, extra_broker_args=SMALL_STORE) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """The same with two brokers."""
    folder = tmp_path_factory.mktemp("two")
    with LocalCluster(folder, brokers=2, extra_broker_args=SMALL_STORE) as cluster:
        yield cluster


class Traffic:
    """Sends numbered messages until it is stopped, and counts what a group receives."""

    def __init__(self, name_servers, topic, *, group="readers"):
        self.producer = Producer(name_servers, group="writers")
        self.consumer = PushConsumer(
            name_servers,
            group=group,
            subscriptions={topic: "*"},
            listener=self._listen,
            start="earliest",
            settings=BRISK,
        )
        self.topic = topic
        self.acknowledged = []
        self.failures = []
        self.received = Counter()
        self._number = 0

    async def send(self, count):
        """Send so many messages, one by one; return where they went."""
        results = []
        for _ in range(count):
            body = b"%d" % self._number
            self._number += 1
            result = await self.producer.send(Message(self.topic, body))
            self.acknowledged.append(body)
            results.append(result)
        return results

    async def send_for_ever(self):
        """Send until cancelled; what fails is kept."""
        while True:
            try:
                await self.send(1)
            except ArianeError as error:
                self.failures.append(error)
            await asyncio.sleep(0.002)

    async def all_received(self):
        return not set(self.acknowledged) - set(self.received)

    async def _listen(self, messages):
        self.received.update(bytes(message.body) for message in messages)


@asynccontextmanager
async def running(traffic):
    async with traffic.producer, traffic.consumer:
        yield traffic


@asynccontextmanager
async def sending(traffic):
    task = asyncio.create_task(traffic.send_for_ever())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_message_groups_follow_to_fewer_queues(one, ariane, until):
    async with Producer(one.name_servers) as producer:
        status, _ = await ariane(one, "topic", "create", "grouped", "--queues", "8")
        assert status == 0
        sends = []

        async def send_for_ever():
            while True:
                for group in range(50):
                    message = Message("grouped", b"", message_group=f"g{group}")
                    sends.append(producer.send_nowait(message))
                await asyncio.sleep(0.002)

        task = asyncio.create_task(send_for_ever())
        for queues in (3, 1):
            enough = len(sends) + 1000
            await until(lambda enough=enough: _true(len(sends) > enough))
            status, _ = await ariane(
                one, "topic", "update", "grouped", "--write-queues", str(queues)
            )
            assert status == 0
            results = await producer.send_batch(
                [Message("grouped", b"", message_group=f"g{group}") for group in range(50)]
            )
            assert all(result.message_queue.queue_id < queues for result in results)
        task.cancel()
        results = await asyncio.gather(*sends)
    # Within a queue, the messages of a group lie in the order in which they were sent.
    places = defaultdict(list)
    for position, result in enumerate(results):
        places[position % 50, result.message_queue].append(result.queue_offset)
    assert all(offsets == sorted(offsets) for offsets in places.values())


async def test_sixteen_queues_become_eight_without_losing_a_message(one, ariane, until):
    async with QueueReader(one.name_servers) as reader:
        assert (await ariane(one, "topic", "create", "orders", "--queues", "16"))[0] == 0
        traffic = Traffic(one.name_servers, "orders")
        async with running(traffic):
            async with sending(traffic):
                await until(lambda: filled(reader, "orders", 16))

                # First: nobody writes to the queues that are to go. Consumers still read them.
                status, _ = await ariane(one, "topic", "update", "orders", "--write-queues", "8")
                assert status == 0
                ends = await ends_of_upper(reader, "orders")
                assert len(ends) == 8
                sent_before = len(traffic.acknowledged)

                # Second: the group consumes what they keep.
                async def drained():
                    _, shown = await ariane(one, "group", "show", "readers")
                    upper = [
                        q for q in shown["queues"] if q["topic"] == "orders" and q["queue_id"] > 7
                    ]
                    return len(upper) == 8 and all(queue["lag"] == 0 for queue in upper)

                await until(drained)
                await until(lambda: _true(len(traffic.acknowledged) > sent_before + 100))
                assert await ends_of_upper(reader, "orders") == ends

                # Third: nobody reads them any more.
                status, _ = await ariane(one, "topic", "update", "orders", "--read-queues", "8")
                assert status == 0
                assert {queue.queue_id for queue in await reader.bounds("orders")} == set(range(8))
                sent_before = len(traffic.acknowledged)
                await until(lambda: _true(len(traffic.acknowledged) > sent_before + 100))
            await until(traffic.all_received)
        assert traffic.failures == []


async def _true(value):
    return value


async def filled(reader, topic, queue_count):
    bounds = await reader.bounds(topic)
    return len(bounds) == queue_count and all(end > begin for begin, end in bounds.values())


async def ends_of_upper(reader, topic):
    bounds = await reader.bounds(topic)
    return {queue.queue_id: end for queue, (_, end) in bounds.items() if queue.queue_id > 7}


@pytest.mark.parametrize("way", ["topic", "broker"])
async def test_a_producer_writes_to_other_brokers_where_one_is_not_writable(
    two, ariane, way, until
):
    """A producer that has an older route meets the refusal, and no send fails."""
    topic = f"written-by-{way}"
    take, give = {
        "topic": (
            ("topic", "update", topic, "--permission", "4", "--broker", "broker-a"),
            ("topic", "update", topic, "--permission", "6", "--broker", "broker-a"),
        ),
        "broker": (("broker", "drain", "broker-a", "--yes"), ("broker", "restore", "broker-a")),
    }[way]
    await ariane(two, "topic", "create", topic, "--queues", "2")
    traffic = Traffic(two.name_servers, topic)
    async with running(traffic):

        async def both():
            return {r.message_queue.broker_name for r in await traffic.send(10)} == {
                "broker-a",
                "broker-b",
            }

        await until(both)
        assert (await ariane(two, *take))[0] == 0
        results = await traffic.send(50)
        assert {result.message_queue.broker_name for result in results} == {"broker-b"}
        assert (await ariane(two, *give))[0] == 0
        # Where it was refused it comes back with the next route.
        await traffic.producer.close()
        traffic.producer = Producer(two.name_servers, group="writers")
        async with traffic.producer:
            await until(both)
            await until(traffic.all_received)


async def test_a_topic_that_may_only_be_written(one, ariane, until):
    async with QueueReader(one.name_servers) as reader:
        await ariane(one, "topic", "create", "write-only", "--queues", "1", "--permission", "2")
        async with Producer(one.name_servers, group="writers") as producer:
            result = await producer.send(Message("write-only", b"kept"))
        assert await reader.bounds("write-only") == {}
        with pytest.raises(TopicRefused):
            await anext(reader.read_range(result.message_queue, 0, 1))
        await ariane(one, "topic", "update", "write-only", "--permission", "6")
        kept = {result.message_queue: (0, 1)}

        async def readable():
            return await reader.bounds("write-only") == kept

        await until(readable)


async def test_a_topic_is_deleted_while_it_is_in_use(local_cluster, ariane, until, tmp_path):
    async with (
        local_cluster("--no-auto-create-topics") as cluster,
        ClusterClient(cluster.name_servers) as client,
    ):
        unmade = asyncio.create_task(check_that_no_send_creates_one(cluster))
        await ariane(cluster, "topic", "create", "orders", "--queues", "4")
        traffic = Traffic(cluster.name_servers, "orders")
        queues = tmp_path / "broker-a" / "consumequeue" / "orders"
        async with running(traffic), sending(traffic):
            await until(lambda: _true(len(traffic.received) > 50))
            await until(lambda: _true(queues.exists()))
            status, _ = await ariane(cluster, "topic", "delete", "orders", "--yes")
            assert status == 0
            await until(lambda: _true(len(traffic.failures) > 3))
            assert all(isinstance(error, ArianeError) for error in traffic.failures)
            assert {cause_of(error).reason for error in traffic.failures} <= {
                "TOPIC_NOT_FOUND",
                "ROUTE_NOT_FOUND",
            }
            with pytest.raises(RouteNotFound):
                await client.route("orders")
            # The files go with the next flush of queues.
            await until(lambda: _true(not queues.exists()))
            assert await client.consumer_lag("readers", "orders") == []

            # Made again it is another topic: it begins empty, and all go on with it.
            await ariane(cluster, "topic", "create", "orders", "--queues", "4")
            received_before, failed_before = sum(traffic.received.values()), len(traffic.failures)
            await until(
                lambda: _true(sum(traffic.received.values()) > received_before + 50), seconds=60
            )
            assert len(traffic.failures) < failed_before + 5000
        await unmade
        assert cluster.brokers[0].running


def cause_of(error):
    while isinstance(error, SendError) and error.__cause__ is not None:
        error = error.__cause__
    return error


async def check_that_no_send_creates_one(cluster):
    hasty = ProducerSettings(send_timeout_s=1)
    async with Producer(cluster.name_servers, group="writers", settings=hasty) as producer:
        with pytest.raises(ArianeError) as caught:
            await producer.send(Message("fresh", b"a"))
    assert isinstance(cause_of(caught.value), RouteNotFound)


async def test_a_send_creates_a_topic_with_four_queues_where_it_may(one, ariane):
    async with Producer(one.name_servers, group="writers") as producer:
        await producer.send(Message("fresh", b"a"))
    _, [row] = await ariane(one, "topic", "show", "fresh", "--brokers")
    assert (row["read_queues"], row["write_queues"]) == (4, 4)


async def test_a_topic_takes_the_messages_that_it_is_for(two, ariane):
    await ariane(two, "topic", "create", "trades", "--type", "fifo")
    async with Producer(two.name_servers, group="writers") as producer:
        with pytest.raises(ArianeError) as caught:
            await producer.send(Message("trades", b"no group"))
        assert cause_of(caught.value).reason == "MESSAGE_TYPE_MISMATCH"
        assert not caught.value.outcome_unknown
        sent = await producer.send(Message("trades", b"grouped", message_group="g"))
    async with QueueReader(two.name_servers) as reader:
        bounds = await reader.bounds("trades")
    assert {queue: end for queue, (_, end) in bounds.items() if end} == {sent.message_queue: 1}
