import asyncio
from random import Random

import grpc
import pytest

from ariane.namesrv.v1.route_service_pb2 import GetRouteResponse
from ariane_record.names import TEMPLATE_TOPIC
from ariane_sdk import MessageQueue, errors
from ariane_sdk.client.session import Session
from ariane_sdk.routing import routes as _routes
from ariane_sdk.routing.broker_addresses import broker_named
from ariane_sdk.routing.name_servers import QUERIES_AT_ONCE
from ariane_sdk.routing.route import BrokerRoute, Route
from ariane_sdk.runtime.clock import SystemClock


def test_queues_of_a_route_are_sorted_and_permitted():
    route = Route(
        "orders",
        (
            BrokerRoute("c", "b", {0: "b:1"}, read_queue_count=2, write_queue_count=1),
            BrokerRoute("c", "a", {1: "a:1"}, read_queue_count=1, write_queue_count=1),
            BrokerRoute("c", "r", {0: "r:1"}, 1, 1, writable=False),
            BrokerRoute("c", "w", {0: "w:1"}, 1, 1, readable=False),
        ),
    )

    def queues(*names):
        return tuple(MessageQueue("orders", name[0], int(name[1])) for name in names)

    assert route.read_queues == queues("a0", "b0", "b1", "r0")
    # "a" has no primary alive: it is read from a replica and not written.
    assert route.write_queues == queues("b0", "w0")
    assert route.broker("a").read_address == "a:1"
    assert route.broker("nobody") is None


def test_message_groups_keep_to_the_queue_order_while_a_broker_is_away():
    there = BrokerRoute("c", "a", {0: "a:1"}, 2, 2)
    order = "b:1; a:2;mistyped;c:x"
    route = Route("orders", (there,), queue_order=order)
    assert [str(queue) for queue in route.group_queues] == [
        "orders@a#0",
        "orders@a#1",
        "orders@b#0",
    ]
    assert route.write_queues == route.group_queues[:2]
    assert Route("orders", (there,), queue_order="mistyped").group_queues == route.write_queues


@pytest.fixture
def make_session(monkeypatch):
    monkeypatch.setattr(_routes, "REFRESH_GAP_S_MIN", 0.0)

    def make(*addresses, seed=0):
        return Session(addresses, timeout_s=60.0, clock=SystemClock(), random=Random(seed))

    return make


async def test_the_first_name_server_to_be_asked_is_drawn(world, make_session):
    drawn = set()
    for seed in range(20):
        session = make_session("a:1", "b:1", "c:1", seed=seed)
        drawn.add(await session.name_servers._in_turn())
        await session.close()

    assert drawn == {
        ("a:1", "b:1", "c:1"),
        ("b:1", "c:1", "a:1"),
        ("c:1", "a:1", "b:1"),
    }


async def test_one_that_does_not_answer_is_left_for_the_next(world, make_session):
    dead = "127.0.0.1:1"
    session = make_session(dead, world.name_servers, dead)
    for _ in range(3):
        route = await session.name_servers.get_route("orders")

        assert [broker.broker_name for broker in route.brokers] == ["broker-a"]
        assert (await session.name_servers._in_turn())[0] == world.name_servers
    await session.close()


async def test_a_topic_that_no_name_server_knows(world, make_session):
    session = make_session("127.0.0.1:1", world.name_servers)

    with pytest.raises(errors.RouteNotFound):
        await session.routes.get("nowhere")
    await session.close()


@pytest.mark.parametrize("knows", ["first", "second"])
async def test_the_name_server_that_knows_who_had_a_topic_is_believed(world, make_session, knows):
    """One that has started since knows of nobody."""
    second = await world.add_name_server()
    knowing = world.name_server if knows == "first" else second
    knowing.away["refunds"] = "broker-b"
    session = make_session(world.name_servers, second.address)

    with pytest.raises(errors.RouteNotFound) as unknown:
        await session.name_servers.get_route("refunds")

    assert unknown.value.may_come_back
    assert unknown.value.metadata["away_brokers"] == "broker-b"
    await session.close()


async def test_a_route_is_asked_for_once_by_all_who_want_it(world, make_session):
    session = make_session(world.name_servers)

    routes = await asyncio.gather(*(session.routes.get("orders") for _ in range(10)))

    assert len(set(map(id, routes))) == 1
    assert world.name_server.asked == ["orders"]
    await session.close()


async def test_a_session_that_is_closed_looks_for_no_route(world, make_session):
    session = make_session(world.name_servers)
    await session.routes.get("orders")
    await session.close()
    others = asyncio.all_tasks()

    session.routes.confirm("orders")
    session.routes.watch("nowhere")

    assert asyncio.all_tasks() == others


async def test_a_route_that_is_forgotten_is_asked_for_when_it_is_wanted_again(world, make_session):
    session = make_session(world.name_servers)
    routes = session.routes
    await routes.get("orders")
    routes.watch("orders")
    routes.confirm("orders")
    routes.doubt("orders")
    routes.forget("orders")
    for _ in range(3):
        await asyncio.sleep(0)
    assert routes.cached("orders") is None
    assert (routes.young, routes.is_confirmed("orders")) == (False, False)
    world.name_server.routes.clear()
    for _ in range(2):
        with pytest.raises(errors.RouteNotFound):
            await routes.get("orders")
    # Of what is not there nothing stays behind.
    assert (
        {**routes.known, **routes._asked_s, **routes._confirmed_s} == routes._doubts._doubts == {}
    )
    await session.close()


@pytest.mark.parametrize("trouble", ["gone", "away"])
async def test_the_last_good_route_is_kept(world, make_session, trouble):
    session = make_session(world.name_servers)
    told = []
    session.routes.on_change(told.append)
    route = await session.routes.get("orders")
    if trouble == "gone":
        world.name_server.routes.clear()
    else:
        world.name_server.refusal = grpc.StatusCode.UNAVAILABLE

    assert await session.routes.refresh("orders") is route
    assert await session.routes.get("orders") is route
    assert told == [route]
    await session.close()


async def test_a_change_is_told_once(world, make_session):
    session = make_session(world.name_servers)
    told = []
    session.routes.on_change(told.append)
    await session.routes.get("orders")
    await session.routes.refresh("orders")
    world.name_server.set_route("orders", {"broker-b": "127.0.0.1:2"})
    await session.routes.refresh("orders")
    await session.routes.refresh("orders")

    assert [[broker.broker_name for broker in route.brokers] for route in told] == [
        ["broker-a"],
        ["broker-b"],
    ]
    await session.close()


async def test_routes_in_use_are_refreshed_by_and_by(world, make_session, monkeypatch):
    monkeypatch.setattr(_routes, "REFRESH_INTERVAL_S", 0.02)
    session = make_session(world.name_servers)
    await session.routes.get("orders")
    changed = asyncio.Event()
    session.routes.on_change(lambda _: changed.set())
    session.routes.start()
    world.name_server.set_route("orders", {"broker-b": "127.0.0.1:2"})

    async with asyncio.timeout(60):
        await changed.wait()
    await session.close()


async def known_topics(world, session, count):
    """So many topics with a route that the session knows."""
    topics = [f"topic-{number}" for number in range(count)]
    for topic in topics:
        world.name_server.set_route(topic, {"broker-a": "127.0.0.1:1"})
        await session.routes.get(topic)
    return topics


async def test_routes_are_refreshed_a_few_at_a_time(world, make_session, monkeypatch):
    session = make_session(world.name_servers)
    topics = await known_topics(world, session, 2 * _routes.BACKGROUND_QUERIES_AT_ONCE + 1)
    asking, most = 0, 0

    async def get_route(topic):
        nonlocal asking, most
        asking += 1
        most = max(most, asking)
        await asyncio.sleep(0)
        asking -= 1
        refreshed.append(topic)
        if len(refreshed) == len(topics):
            all_done.set()
        return session.routes.known[topic]

    refreshed, all_done = [], asyncio.Event()
    monkeypatch.setattr(session.name_servers, "get_route", get_route)
    monkeypatch.setattr(_routes, "REFRESH_GAP_S_MIN", 0.0)
    monkeypatch.setattr(_routes, "REFRESH_INTERVAL_S", 0.01)
    session.routes.start()
    async with asyncio.timeout(60):
        await all_done.wait()
    await session.close()
    assert sorted(refreshed[: len(topics)]) == sorted(topics)
    assert most == _routes.BACKGROUND_QUERIES_AT_ONCE


async def test_routes_of_many_topics_are_asked_for_by_and_by(world, make_session, monkeypatch):
    session = make_session(world.name_servers)
    topics = [f"topic-{number}" for number in range(2 * QUERIES_AT_ONCE)]
    asking, most = 0, 0

    async def ask(call, *, is_enough):
        nonlocal asking, most
        asking += 1
        most = max(most, asking)
        await asyncio.sleep(0.001)
        asking -= 1
        return [GetRouteResponse()]

    monkeypatch.setattr(session.name_servers, "_ask", ask)

    await asyncio.gather(*map(session.routes.get, topics))

    assert most == QUERIES_AT_ONCE
    await session.close()


async def test_a_query_waits_for_its_turn_and_the_template_for_none(world, make_session):
    for topic in ("orders", TEMPLATE_TOPIC):
        world.name_server.set_route(topic, {"broker-a": "127.0.0.1:1"})
    session = make_session(world.name_servers)
    for _ in range(QUERIES_AT_ONCE):
        await session.name_servers._turns.acquire()
    waiting = asyncio.create_task(session.routes.get("orders"))

    assert await session.name_servers.get_route(TEMPLATE_TOPIC)
    assert world.name_server.asked == [TEMPLATE_TOPIC]
    assert not waiting.done()
    session.name_servers._turns.release()
    assert names_of(await waiting) == ["broker-a"]
    await session.close()


async def test_queries_that_callers_wait_for_pass_those_of_the_background(
    world, make_session, monkeypatch
):
    session = make_session(world.name_servers)
    begun, asked, go_on = [], asyncio.Event(), asyncio.Event()

    async def get_route(topic):
        begun.append(topic)
        if topic == "orders":
            asked.set()
        await go_on.wait()
        raise errors.RouteNotFound("none")

    monkeypatch.setattr(session.name_servers, "get_route", get_route)
    looks = [asyncio.create_task(session.routes._look(f"new-{n}")) for n in range(QUERIES_AT_ONCE)]
    await asyncio.sleep(0.01)
    waiting = asyncio.create_task(session.routes.get("orders"))
    async with asyncio.timeout(60):
        await asked.wait()

    assert len(begun) == _routes.BACKGROUND_QUERIES_AT_ONCE + 1
    go_on.set()
    await asyncio.gather(*looks, waiting, return_exceptions=True)
    await session.close()


async def test_new_topics_share_the_query_of_the_template(world, make_session):
    world.name_server.set_route(TEMPLATE_TOPIC, {"broker-a": "127.0.0.1:1"})
    session = make_session(world.name_servers)

    await asyncio.gather(*(session.routes.get_for_send(f"new-{number}") for number in range(20)))

    # Those whose own query ends later ask once more.
    assert world.name_server.asked.count(TEMPLATE_TOPIC) <= 3
    assert TEMPLATE_TOPIC not in session.routes.known
    await session.close()


async def test_many_new_topics_are_looked_for_more_rarely(world, make_session, monkeypatch):
    slept = []

    async def sleep(delay_s):
        slept.append(delay_s)
        await asyncio.Event().wait()

    session = make_session(world.name_servers)
    monkeypatch.setattr(session.routes._clock, "sleep", sleep)
    for number in range(1000):
        session.routes.watch(f"new-{number}")
        session.routes.confirm(f"new-{number}")
    await asyncio.sleep(0)

    assert min(slept) == 2.0
    await session.close()


async def test_kept_routes_are_told_once_and_a_few_by_name(
    world, make_session, monkeypatch, caplog
):
    session = make_session(world.name_servers)
    topics = await known_topics(world, session, 20)
    for topic in topics:
        del world.name_server.routes[topic]

    for topic in topics * 2:
        await session.routes.refresh(topic)

    assert len(caplog.records) == _routes.KEPT_WARNED_MAX
    world.name_server.set_route(topics[0], {"broker-a": "127.0.0.1:1"})
    await session.routes.refresh(topics[0])
    assert len(session.routes._kept) == len(topics) - 1
    await session.close()


async def test_name_servers_that_do_not_answer_are_told_once_each_time(
    world, make_session, monkeypatch, caplog
):
    session = make_session(world.name_servers)
    topics = await known_topics(world, session, 20)
    monkeypatch.setattr(_routes, "REFRESH_GAP_S_MIN", 0.0)

    async def silence(_):
        raise errors.NameServersUnreachable("no name server answered")

    for _ in range(2):
        with monkeypatch.context() as context:
            context.setattr(session.name_servers, "get_route", silence)
            for topic in topics:
                await session.routes.refresh(topic)
        await session.routes.refresh(topics[0])

    assert [record.levelname for record in caplog.records].count("WARNING") == 2
    await session.close()


def names_of(route):
    return [broker.broker_name for broker in route.brokers]


async def test_a_name_server_that_has_just_started_takes_nothing_away(world, make_session):
    session = make_session(world.name_servers)
    told = []
    session.routes.on_change(told.append)
    world.name_server.set_route("orders", {"broker-a": "127.0.0.1:2", "broker-b": "127.0.0.1:3"})
    await session.routes.get("orders")
    world.name_server.warming_up = True
    world.name_server.set_route("orders", {"broker-b": "127.0.0.1:4", "broker-c": "127.0.0.1:5"})
    early = await session.routes.refresh("orders")

    assert names_of(early) == ["broker-a", "broker-b", "broker-c"]
    assert early.broker("broker-b").read_address == "127.0.0.1:4"
    assert not early.complete
    world.name_server.warming_up = False
    late = await session.routes.refresh("orders")
    assert names_of(late) == ["broker-b", "broker-c"]
    assert late.complete
    assert list(map(names_of, told)) == [
        ["broker-a", "broker-b"],
        ["broker-a", "broker-b", "broker-c"],
        ["broker-b", "broker-c"],
    ]
    await session.close()


async def test_a_route_that_becomes_complete_without_a_change_is_not_told(world, make_session):
    session = make_session(world.name_servers)
    world.name_server.warming_up = True
    assert not (await session.routes.get("orders")).complete
    told = []
    session.routes.on_change(told.append)
    world.name_server.warming_up = False

    assert (await session.routes.refresh("orders")).complete
    assert told == []
    await session.close()


async def test_one_that_has_just_started_gives_way_to_one_that_knows(world, make_session):
    second = await world.add_name_server()
    second.warming_up = True
    second.set_route("orders", {"broker-b": "127.0.0.1:2"})
    session = make_session(second.address, world.name_servers, seed=1)
    session.name_servers._current = second.address

    route = await session.name_servers.get_route("orders")

    assert (names_of(route), route.complete) == (["broker-a"], True)
    assert (await session.name_servers._in_turn())[0] == world.name_servers
    world.name_server.warming_up = True
    route = await session.name_servers.get_route("orders")
    assert (names_of(route), route.complete) == (["broker-a", "broker-b"], False)
    world.name_server.routes.clear()
    route = await session.name_servers.get_route("orders")
    assert (names_of(route), route.complete) == (["broker-b"], False)
    await session.close()


async def test_a_template_gives_way_also_to_a_route_that_is_not_complete(world, make_session):
    session = make_session(world.name_servers)
    world.name_server.warming_up = True
    both = {"broker-a": "127.0.0.1:2", "broker-b": "127.0.0.1:3"}
    world.name_server.set_route("TBW102", both)
    assert names_of(await session.routes.get_for_send("new")) == ["broker-a", "broker-b"]
    world.name_server.set_route("new", {"broker-a": "127.0.0.1:2"})

    assert names_of(await session.routes.refresh("new")) == ["broker-a"]
    await session.close()


def test_routes_are_refreshed_as_often_as_documented():
    assert _routes.REFRESH_INTERVAL_S == 30.0


async def test_a_broker_that_was_away_when_its_route_was_learnt_is_found_soon(
    two_brokers, make_session, monkeypatch
):
    monkeypatch.setattr(_routes, "YOUNG_LOOK_S", 0.02)
    addresses = {name: broker.address for name, broker in two_brokers.brokers.items()}
    two_brokers.name_server.set_route("orders", {"broker-a": addresses["broker-a"]})
    session = make_session(two_brokers.name_servers)
    await session.routes.get("orders")
    found = asyncio.Event()
    session.routes.on_change(lambda _: found.set())
    session.routes.confirm("orders")
    two_brokers.name_server.set_route("orders", addresses)

    async with asyncio.timeout(60):
        await found.wait()
    await session.close()


async def test_a_young_route_is_looked_at_a_few_times_only(world, make_session, monkeypatch):
    monkeypatch.setattr(_routes, "YOUNG_LOOK_S", 0.001)
    monkeypatch.setattr(_routes, "REFRESH_INTERVAL_S", 0.03)
    session = make_session(world.name_servers)
    await session.routes.get("orders")
    session.routes.confirm("orders")
    session.routes.confirm("orders")
    async with asyncio.timeout(60):
        while session.routes.young:  # noqa: ASYNC110 - there is nothing to be told by.
            await asyncio.sleep(0.01)

    assert len(world.name_server.asked) == 1 + 5
    await session.close()


async def test_a_route_that_no_name_server_has_any_longer_comes_behind_others(world, make_session):
    session = make_session(world.name_servers)
    for topic in ("retries", "orders"):
        world.name_server.set_route(topic, {"broker-a": "127.0.0.1:1"})
        await session.routes.get(topic)
    del world.name_server.routes["retries"]
    world.name_server.set_route("orders", {"broker-a": "127.0.0.1:2"})
    await session.routes.refresh("orders")
    await session.routes.refresh("retries")
    routes = session.routes.latest_first(["retries", "unknown", "orders"])

    assert [route.topic for route in routes] == ["orders", "retries"]
    assert [route.brokers[0].read_address for route in routes] == ["127.0.0.1:2", "127.0.0.1:1"]
    assert broker_named(session.routes, "broker-a").read_address == "127.0.0.1:2"
    with pytest.raises(errors.ServiceUnavailable, match="broker-b is in no route now"):
        broker_named(session.routes, "broker-b")
    await session.close()
