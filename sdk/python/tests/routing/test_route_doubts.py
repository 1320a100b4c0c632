"""How often a route in doubt is asked for, by a clock that jumps."""

import asyncio
import heapq
from dataclasses import replace
from itertools import count, pairwise
from random import Random

import pytest

from ariane_sdk.client.session import Session
from ariane_sdk.routing import route_doubts as _route_doubts
from ariane_sdk.routing.route import BrokerRoute, Route
from ariane_sdk.routing.route_doubts import RouteDoubts
from ariane_sdk.runtime.clock import SystemClock

HOUR_S = 3600.0


class JumpingClock:
    """Sleepers wake when ``run_until`` comes to their time."""

    def __init__(self):
        self.now_s = 0.0
        self._sleepers = []
        self._ties = count()

    def monotonic_s(self):
        return self.now_s

    async def sleep(self, seconds):
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now_s + seconds, next(self._ties), woken))
        await woken

    async def run_until(self, until_s):
        await settle()
        while self._sleepers and self._sleepers[0][0] <= until_s:
            self.now_s, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)
            await settle()
        self.now_s = until_s


async def settle():
    for _ in range(4):
        await asyncio.sleep(0)


def route(*brokers, port=1):
    addresses = {0: f"127.0.0.1:{port}"}
    return Route("orders", tuple(BrokerRoute("c", name, addresses, 1, 1) for name in brokers))


class Client:
    """Doubts, and when they looked; ``found`` is what a look finds."""

    def __init__(self, clock, seed=0):
        self.clock = clock
        self.known = self.found = route("a", "b")
        self.looks_s = []
        self.doubts = RouteDoubts(self.look, clock, Random(seed))

    async def look(self, topic):
        assert topic == "orders"
        self.looks_s.append(self.clock.now_s)
        before, self.known = self.known, self.found
        self.doubts.compare(before, self.found)


@pytest.fixture
async def client():
    client = Client(JumpingClock())
    yield client
    await client.doubts.close()


def leave(client):
    """The next look finds that a broker has left."""
    client.found = route("a")
    client.doubts.report("orders")


async def test_the_first_failure_looks_at_once_and_a_swarm_not_again(client):
    for _ in range(100):
        client.doubts.report("orders")
    await client.clock.run_until(0.0)
    assert client.looks_s == [0.0]
    for _ in range(100):
        client.doubts.report("orders")
    await client.clock.run_until(100.0)
    assert len(client.looks_s) == 2
    assert 0.16 <= client.looks_s[1] <= 0.2


@pytest.mark.parametrize("away_s", [0.5, 3.0, 10.0])
async def test_a_broker_that_stopped_in_order_is_found_soon_after_it_is_back(client, away_s):
    leave(client)
    await client.clock.run_until(away_s)
    client.found = route("a", "b", port=2)
    await client.clock.run_until(away_s + 3.0)
    assert client.known == client.found
    assert client.looks_s[-1] - away_s <= max(1.0, away_s / 4) + 0.01
    looks_count = len(client.looks_s)
    await client.clock.run_until(HOUR_S)
    assert len(client.looks_s) == looks_count, "nothing is missing any longer"


async def test_a_primary_that_may_be_replaced_is_looked_for_every_half_second(client):
    while client.clock.now_s < _route_doubts.TAKEOVER_S:
        client.doubts.report("orders")
        await client.clock.run_until(client.clock.now_s + 0.05)
    gaps_s = [after - before for before, after in pairwise(client.looks_s)]
    assert max(gaps_s) <= _route_doubts.TAKEOVER_LOOK_S + 0.1


async def test_primaries_that_change_again_and_again_are_each_looked_for_soon(client):
    for port in range(2, 12):
        begin_s = client.clock.now_s
        while client.clock.now_s < begin_s + 6.0:
            client.doubts.report("orders")
            await client.clock.run_until(client.clock.now_s + 0.05)
        client.found = route("a", "b", port=port)
        for _ in range(12):
            client.doubts.report("orders")
            await client.clock.run_until(client.clock.now_s + 0.05)
        assert client.known == client.found


@pytest.mark.parametrize("quiet_s", [5.0, 17.0, 29.0])
async def test_a_primary_that_goes_a_while_after_another_is_looked_for_as_soon(client, quiet_s):
    for port in range(2, 5):
        begin_s = client.clock.now_s
        begin = len(client.looks_s)
        while client.clock.now_s < begin_s + 6.0:
            client.doubts.report("orders")
            await client.clock.run_until(client.clock.now_s + 0.05)
        looks_s = client.looks_s[begin:]
        assert looks_s[0] - begin_s <= 0.2
        assert max(after - before for before, after in pairwise(looks_s)) <= (
            _route_doubts.TAKEOVER_LOOK_S + 0.1
        )
        client.found = route("a", "b", port=port)
        while client.known != client.found:
            client.doubts.report("orders")
            await client.clock.run_until(client.clock.now_s + 0.05)
        await client.clock.run_until(client.clock.now_s + quiet_s)


@pytest.mark.parametrize("change", ["more or fewer queues", "another address"])
async def test_only_a_broker_that_is_found_ends_the_trouble(client, change):
    changed = route("a", "b", port=2 if change == "another address" else 1)
    if change == "more or fewer queues":
        more = replace(changed.brokers[0], read_queue_count=2)
        changed = replace(changed, brokers=(more, *changed.brokers[1:]))
    for second in range(300):
        client.doubts.report("orders")
        client.found = (route("a", "b"), changed)[second // 8 % 2]
        await client.clock.run_until(float(second))
    late = [look_s for look_s in client.looks_s if look_s > 200]
    assert (len(late) < 12) == (change == "more or fewer queues")


async def test_one_that_never_comes_back_is_given_up(client):
    leave(client)
    await client.clock.run_until(HOUR_S)
    assert 15 <= len(client.looks_s) <= 30
    assert client.looks_s[-1] <= 200


async def test_another_one_that_leaves_is_missed_as_eagerly(client):
    leave(client)
    await client.clock.run_until(60.0)
    client.known = client.found = route("a", "c")
    client.doubts.compare(route("a", "c"), route("a"))
    looks_count = len(client.looks_s)
    await client.clock.run_until(62.1)
    assert len(client.looks_s) > looks_count


async def test_new_trouble_after_a_quiet_time_looks_at_once(client):
    for second in range(100):
        client.doubts.report("orders")
        await client.clock.run_until(float(second))
    await client.clock.run_until(140.0)
    looks_count = len(client.looks_s)
    client.doubts.report("orders")
    await client.clock.run_until(140.0)
    client.doubts.report("orders")
    await client.clock.run_until(140.5)
    assert len(client.looks_s) == looks_count + 2


@pytest.mark.parametrize("failure_interval_s", [0.1, 2.0, 29.0])
async def test_an_hour_of_failures_asks_every_30_s_in_the_end(client, failure_interval_s):
    leave(client)
    at_s = 0.0
    while at_s < HOUR_S:
        client.doubts.report("orders")
        at_s += failure_interval_s
        await client.clock.run_until(at_s)
    assert len(client.looks_s) <= 40 + HOUR_S / 24
    late = [look_s for look_s in client.looks_s if look_s > 200]
    assert min(after - before for before, after in pairwise(late)) >= 24.0


@pytest.mark.parametrize("reason", ["a failure", "a broker that has left"])
async def test_who_is_closed_begins_no_look(client, reason):
    await client.doubts.close()
    before = asyncio.all_tasks()
    if reason == "a failure":
        client.doubts.report("orders")
    else:
        client.doubts.compare(route("a", "b"), route("a"))
    assert asyncio.all_tasks() == before


async def test_hundreds_of_clients_do_not_storm_a_name_server():
    clock = JumpingClock()
    clients = [Client(clock, seed) for seed in range(200)]
    for client in clients:
        leave(client)
    for second in range(0, 300, 5):
        for client in clients:
            client.doubts.report("orders")
        await clock.run_until(float(second))
    looks_s = sorted(look_s for client in clients for look_s in client.looks_s)
    await asyncio.gather(*(client.doubts.close() for client in clients))

    def looks_between(begin_s, end_s):
        return sum(begin_s <= look_s < end_s for look_s in looks_s)

    assert max(looks_between(second, second + 1) for second in range(20)) <= 3 * 200
    assert looks_between(200, 260) <= 200 * 60 / 24


async def test_a_route_finds_a_broker_that_is_back_elsewhere(world, monkeypatch):
    monkeypatch.setattr(_route_doubts, "MISSING_LOOK_S", 0.01)
    server = world.name_server
    server.set_route("orders", {"broker-a": "127.0.0.1:2", "broker-b": "127.0.0.1:3"})
    session = Session((world.name_servers,), timeout_s=60.0, clock=SystemClock(), random=Random(0))
    session.routes.start()
    await session.routes.get("orders")
    server.set_route("orders", {"broker-a": "127.0.0.1:2"})
    await session.routes.reconsider("orders")
    assert session.routes.cached("orders").broker("broker-b") is None
    server.set_route("orders", {"broker-a": "127.0.0.1:2", "broker-b": "127.0.0.1:4"})
    async with asyncio.timeout(60):
        # An answer is heard before it is taken in.
        while session.routes.cached("orders").broker("broker-b") is None:  # noqa: ASYNC110 - see above.
            await asyncio.sleep(0.01)
    assert session.routes.cached("orders").broker("broker-b").read_address == "127.0.0.1:4"
    await session.close()
