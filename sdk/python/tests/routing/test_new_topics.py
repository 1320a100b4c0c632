"""Topics that nobody has created: the first send does, and consumers wait for it."""

import asyncio
import itertools
from uuid import uuid4

import grpc
import pytest

from ariane_sdk import (
    Message,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushSettings,
    QueueReader,
    errors,
)
from ariane_sdk.routing import routes as _routes

TEMPLATE = "TBW102"
IMPATIENT = ProducerSettings(send_timeout_s=0.1)


@pytest.fixture
def eager_watch(monkeypatch):
    """Look for a topic without a route all the time."""
    monkeypatch.setattr(_routes, "WATCH_INTERVAL_S_MIN", 0.02)


@pytest.fixture
def templated(two_brokers):
    """Two brokers, one of which creates topics as they are sent to."""
    address = two_brokers.brokers["broker-b"].address
    two_brokers.name_server.set_route(TEMPLATE, {"broker-b": address}, queue_count=16)
    return two_brokers


async def test_an_unknown_topic_goes_where_topics_are_created(templated):
    async with Producer(templated.name_servers) as producer:
        results = [await producer.send(Message("new", b"one")) for _ in range(12)]
        [result] = await producer.send_batch([Message("newer", b"two", message_group="g")])

    queues = {sent.message_queue for sent in results}
    assert {(queue.topic, queue.broker_name) for queue in queues} == {("new", "broker-b")}
    assert sorted(queue.queue_id for queue in queues) == [0, 1, 2, 3]
    assert result.message_queue.topic == "newer"
    assert not templated.brokers["broker-a"].calls


async def test_the_own_route_of_a_new_topic_is_soon_followed(templated, eager_watch):
    async with Producer(templated.name_servers) as producer:
        first = await producer.send(Message("new", b"one"))
        templated.name_server.set_route("new", {"broker-a": templated.brokers["broker-a"].address})
        async with asyncio.timeout(60):
            while not templated.brokers["broker-a"].messages:
                await producer.send(Message("new", b"two"))

    assert first.message_queue.broker_name == "broker-b"


async def test_the_route_of_the_template_serves_until_there_is_a_better_one(
    templated, eager_watch, make_status
):
    busy = make_status(grpc.StatusCode.UNAVAILABLE, "SERVICE_BUSY")
    templated.brokers["broker-b"].script.append(busy)  # Makes it ask again.
    async with Producer(templated.name_servers) as producer:
        await producer.send(Message("new", b"one"))
        asked_count = templated.name_server.asked.count("new")
        async with asyncio.timeout(60):
            while templated.name_server.asked.count("new") < asked_count + 3:
                templated.name_server.heard.clear()
                await templated.name_server.heard.wait()
        await producer.send(Message("new", b"two"))

    assert templated.brokers["broker-b"].bodies == [b"one", b"two"]


async def test_a_template_that_nobody_may_write_creates_nothing(templated):
    templated.name_server.routes[TEMPLATE].brokers[0].addresses.clear()
    async with Producer(templated.name_servers) as producer:
        with pytest.raises(errors.SendError):
            await producer.send(Message("new", b""))


async def test_a_name_server_that_has_just_started_is_not_believed(templated, world):
    world.name_server.routes.clear()  # The other world's has heard of no broker yet.
    templated.name_server.set_route("orders", {"broker-a": templated.brokers["broker-a"].address})
    both = f"{world.name_servers},{templated.name_servers}"
    for _ in range(4):  # Whichever is asked first.
        async with Producer(both, settings=ProducerSettings(send_timeout_s=60.0)) as producer:
            result = await producer.send(Message("orders", b"one"))

            assert result.message_queue.broker_name == "broker-a"
    assert TEMPLATE not in templated.name_server.asked + world.name_server.asked


@pytest.fixture
def eager_refresh(monkeypatch):
    """Look again at known routes all the time."""
    monkeypatch.setattr(_routes, "REFRESH_GAP_S_MIN", 0.0)
    monkeypatch.setattr(_routes, "REFRESH_INTERVAL_S", 0.02)


async def asked_again(name_server, topic, count=3):
    """Wait until the route of a topic was asked for some times more."""
    wanted = name_server.asked.count(topic) + count
    async with asyncio.timeout(60):
        while name_server.asked.count(topic) < wanted:
            name_server.heard.clear()
            await name_server.heard.wait()


async def refused(producer, topic):
    with pytest.raises(errors.SendError) as caught:
        await producer.send(Message(topic, b"nowhere"))
    return caught.value.reason


@pytest.mark.parametrize("grouped", [False, True])
async def test_a_topic_that_was_deleted_while_nobody_could_write_it_is_made_anew(
    templated, eager_refresh, eager_watch, grouped
):
    server, a = templated.name_server, templated.brokers["broker-a"].address
    message = Message("orders", b"two", message_group="g" if grouped else "")
    async with Producer(templated.name_servers) as producer:
        await producer.send(Message("orders", b"one"))
        # A replica set without a primary: one of its replicas can be read.
        route = server.routes["orders"]
        del route.brokers[1:]
        route.brokers[0].addresses.clear()
        route.brokers[0].addresses[1] = a
        await asked_again(server, "orders")
        assert await refused(producer, "orders") == "TOPIC_NOT_WRITABLE"
        del server.routes["orders"]
        await asked_again(server, "orders")

        result = await producer.send(message)
        assert result.message_queue.broker_name == "broker-b"
        server.set_route("orders", {"broker-a": a})
        await asked_again(server, "orders")
        result = await producer.send(message)
        assert result.message_queue.broker_name == "broker-a"


@pytest.mark.parametrize("before", ["refuses", "is silent", "is gone"])
@pytest.mark.parametrize("warming_up", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
async def test_a_topic_that_was_deleted_behind_a_change_of_its_primary_is_made_anew(
    two_brokers, make_status, grouped, warming_up, before
):
    server = two_brokers.name_server
    first, second = two_brokers.brokers["broker-a"], two_brokers.brokers["broker-b"]
    for topic in ("orders", TEMPLATE):
        server.set_route(topic, {"broker-a": first.address}, queue_count=4)
    message = Message("orders", b"two", message_group="g" if grouped else "")
    settings = ProducerSettings(call_timeout_s=0.1)
    async with Producer(two_brokers.name_servers, settings=settings) as producer:
        await producer.send(Message("orders", b"one"))
        replica = make_status(grpc.StatusCode.UNAVAILABLE, "BROKER_NOT_PRIMARY")
        answer = {"refuses": replica, "is gone": grpc.StatusCode.UNAVAILABLE}.get(before, "hang")
        first.script.extend([answer] * 1000)
        # The primary is another process of the same set, and the topic was deleted there.
        server.set_route(TEMPLATE, {"broker-a": second.address}, queue_count=4)
        del server.routes["orders"]
        server.warming_up = warming_up

        result = await producer.send(message)
    assert (result.message_queue.topic, result.message_queue.broker_name) == ("orders", "broker-a")
    assert second.bodies == [b"two"]


@pytest.mark.parametrize("why", ["order", "away"])
async def test_a_topic_that_exists_is_not_made_anew_by_the_next_primary(
    two_brokers, make_status, why
):
    server = two_brokers.name_server
    first, second = two_brokers.brokers["broker-a"], two_brokers.brokers["broker-b"]
    server.set_route("orders", {"broker-a": first.address})
    async with Producer(two_brokers.name_servers, settings=IMPATIENT) as producer:
        await producer.send(Message("orders", b"one"))
        replica = make_status(grpc.StatusCode.UNAVAILABLE, "BROKER_NOT_PRIMARY")
        first.script.extend([replica] * 1000)
        server.set_route(TEMPLATE, {"broker-a": second.address})
        {"order": server.orders, "away": server.away}[why]["orders"] = "broker-c:2"
        asked_count = server.asked.count("orders")
        del server.routes["orders"]

        assert await refused(producer, "orders") == "BROKER_NOT_PRIMARY"
        assert server.asked.count("orders") > asked_count
    assert not second.calls


async def test_a_topic_is_made_where_the_primary_is_by_the_time_of_its_first_message(
    two_brokers, make_status, eager_watch
):
    server = two_brokers.name_server
    first, second = two_brokers.brokers["broker-a"], two_brokers.brokers["broker-b"]
    server.set_route(TEMPLATE, {"broker-a": first.address})
    replica = make_status(grpc.StatusCode.UNAVAILABLE, "BROKER_NOT_PRIMARY")
    refusing = asyncio.Event()
    first.script.extend([refusing, *[replica] * 1000])
    async with Producer(two_brokers.name_servers) as producer:
        sending = asyncio.create_task(producer.send(Message("new", b"one")))
        await first.wait_called(1)
        server.set_route(TEMPLATE, {"broker-a": second.address})
        refusing.set()
        await sending
        await producer.send(Message("new", b"two"))
    assert second.bodies == [b"two"]


@pytest.mark.parametrize("why", ["warming_up", "order", "away", "silent"])
async def test_a_topic_that_may_exist_is_not_made_anew(templated, eager_refresh, why):
    server = templated.name_server
    async with Producer(templated.name_servers) as producer:
        await producer.send(Message("orders", b"one"))
        for broker in server.routes["orders"].brokers:
            broker.addresses.clear()
        await asked_again(server, "orders")
        match why:
            case "warming_up":
                server.warming_up = True
            case "order":
                server.orders["orders"] = "broker-a:2"
            case "away":
                server.away["orders"] = "broker-a"
            case "silent":
                server.refusal = grpc.StatusCode.UNAVAILABLE
        del server.routes["orders"]
        await asked_again(server, "orders")
        assert await refused(producer, "orders") == "TOPIC_NOT_WRITABLE"


async def test_a_topic_whose_only_broker_is_away_is_waited_for_and_not_made_elsewhere(templated):
    server, a = templated.name_server, templated.brokers["broker-a"]
    server.away["refunds"] = "broker-a"
    async with Producer(templated.name_servers) as producer:
        sending = asyncio.create_task(producer.send(Message("refunds", b"one")))
        await asked_again(server, "refunds", 2)
        assert not sending.done()
        server.set_route("refunds", {"broker-a": a.address})
        assert (await sending).message_queue.broker_name == "broker-a"
    server.away["bills"] = "broker-a"
    async with Producer(templated.name_servers, settings=IMPATIENT) as producer:
        with pytest.raises(errors.SendError) as unsent:
            await producer.send(Message("bills", b"two"))
    assert (unsent.value.reason, unsent.value.retriable) == ("ROUTE_NOT_FOUND", True)
    assert unsent.value.metadata["away_brokers"] == "broker-a"
    assert not templated.brokers["broker-b"].messages


def test_a_topic_is_looked_for_often_while_its_first_message_may_be_new():
    looks, waited_s = [], 0.0
    while waited_s < 7200:
        waited_s += _routes.watch_delay_s(waited_s)
        looks.append(waited_s)
    gaps = {late: late - early for early, late in itertools.pairwise(looks)}
    assert looks[0] <= 0.1
    assert max(gap for at, gap in gaps.items() if at < 60) < 1.001
    assert max(gap / at for at, gap in gaps.items() if at > 60) <= 1 / 59
    assert max(gaps.values()) == 30.0
    assert len(looks) < 500


async def test_a_new_topic_does_not_wait_for_the_gap_between_two_rebalances(cluster):
    topic, got = f"new-{uuid4()}", asyncio.Event()

    async def listen(_messages):
        got.set()

    async with (
        Producer(cluster.name_servers) as producer,
        PushConsumer(
            cluster.name_servers,
            group=topic,
            subscriptions={topic: "*"},
            listener=listen,
            # Whoever waits for it once gets nothing in this test.
            settings=PushSettings(rebalance_gap_s_min=3600.0),
        ) as consumer,
    ):
        await consumer.wait_assigned()
        await producer.send(Message(topic, b"the first"))
        async with asyncio.timeout(60):
            await got.wait()


@pytest.mark.parametrize("start", ["earliest", "latest"])
async def test_a_consumer_waits_for_a_topic_that_does_not_exist_yet(cluster, start):
    topic, got = f"new-{uuid4()}", asyncio.Queue()

    async def listen(messages):
        for message in messages:
            got.put_nowait(message.body)

    async with (
        Producer(cluster.name_servers) as producer,
        PushConsumer(
            cluster.name_servers,
            group=f"g-{uuid4()}",
            subscriptions={topic: "*"},
            listener=listen,
            start=start,
            settings=PushSettings(rebalance_gap_s_min=0.05, hold_s=2.0),
        ) as consumer,
    ):
        await consumer.wait_assigned()
        assert not consumer.assignment
        await producer.send(Message(topic, b"the first"))
        async with asyncio.timeout(60):
            assert await got.get() == b"the first"
        assert len(consumer.assignment) == 4


async def test_only_a_send_creates_a_topic(cluster):
    async with (
        QueueReader(cluster.name_servers) as reader,
        Producer(cluster.name_servers) as producer,
    ):
        with pytest.raises(errors.RouteNotFound):
            await reader.bounds("never-sent-to")
        with pytest.raises(errors.RouteNotFound):
            await producer.route("never-sent-to")
