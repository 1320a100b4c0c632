"""Addresses at which another broker is by now."""

import asyncio
from random import Random

from ariane_sdk.client.session import Session
from ariane_sdk.routing.route import BrokerRoute, Route
from ariane_sdk.runtime.clock import SystemClock


async def test_an_address_of_another_broker_leaves_all_routes_that_name_it():
    session = Session(("h:9",), timeout_s=60.0, clock=SystemClock(), random=Random(1))
    routes, changes, there = session.routes, [], {}
    routes.on_change(lambda route: changes.append((route.topic, route.primary_addresses)))

    async def get_route(topic):
        broker = BrokerRoute("c", there[topic][0], there[topic][1], 1, 1)
        return Route(topic, (broker,), complete=topic != "young")

    session.name_servers.get_route = get_route
    there["old"] = there["young"] = "a", {0: "h:1", 1: "h:9"}
    for topic in there:
        await routes.get(topic)
    there["old"] = "a", {0: "h:2", 1: "h:9"}
    there["young"] = there["new"] = "b", {0: "h:1"}
    await routes.get("new")
    async with asyncio.timeout(60):
        while len(changes) < 7:  # noqa: ASYNC110 - of the background
            await asyncio.sleep(0.001)
    assert changes[2:5] == [("old", {}), ("young", {}), ("new", {"b": "h:1"})]
    assert sorted(changes[5:]) == [("old", {"a": "h:2"}), ("young", {"b": "h:1"})]
    # What an incomplete answer lacks is kept, but not where others are by now.
    assert [each.addresses for each in routes.known["young"].brokers] == [{1: "h:9"}, {0: "h:1"}]
    await session.close()
