"""Two brokers exchange their addresses: what a client sends goes to whom it means."""

from __future__ import annotations

import asyncio
import base64
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from languages import COMMANDS, Worker, build, missing

from ariane_broker.app import compose
from ariane_broker.settings import BrokerSettings
from ariane_namesrv.app import NamesrvApp
from ariane_namesrv.settings import NamesrvSettings
from ariane_sdk import ClusterClient, MessageQueue, QueueReader
from ariane_servicekit import Address, serving
from ariane_testkit.free_ports import free_port
from ariane_testkit.small_store import SMALL_STORE_SETTINGS

TOPIC = "moved"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def message(text: bytes) -> dict[str, object]:
    """One of a group, which has its queue on one of the brokers."""
    return {
        "topic": TOPIC,
        "body": base64.b64encode(text).decode(),
        "tag": "",
        "keys": [],
        "group": "table-7",
        "properties": {},
        "id": "",
    }


@pytest.mark.parametrize("language", COMMANDS)
@pytest.mark.parametrize("clusters", [("one", "one"), ("one", "other")], ids=["broker", "cluster"])
async def test_who_has_taken_over_an_address_gets_nothing_of_another(language, clusters, tmp_path):
    if lacks := missing(language):
        pytest.skip(f"{lacks} is not on this machine")
    await asyncio.to_thread(build, language)
    ports = free_port(), free_port()

    @asynccontextmanager
    async def brokers(places, name_server):
        """Brokers by the ports that they listen on: those of different clusters have one name."""
        async with AsyncExitStack() as stack:
            for place, port in zip(places, ports, strict=True):
                settings = BrokerSettings(
                    cluster_name=clusters[place],
                    broker_name="a" if place == 0 or clusters[0] != clusters[1] else "b",
                    listen=Address("127.0.0.1", port),
                    name_servers=(name_server if clusters[place] == "one" else elsewhere,),
                    store_path=tmp_path / f"{place}",
                    **SMALL_STORE_SETTINGS,
                )
                await stack.enter_async_context(serving(settings, compose))
            yield

    async def stored(name_server):
        """What lies at each broker that this name server knows."""
        found = {}
        async with ClusterClient(name_server) as cluster, QueueReader(name_server) as reader:
            for each in (await cluster.route(TOPIC)).read_queues:
                queue = MessageQueue(TOPIC, each.broker_name, each.queue_id)
                pulled = await reader.pull(queue, 0)
                found[each.broker_name] = [one.body for one in pulled.messages]
        return found

    async with AsyncExitStack() as stack:
        both = [
            await stack.enter_async_context(
                serving(
                    NamesrvSettings(listen=Address("127.0.0.1", 0), data_path=tmp_path / name),
                    NamesrvApp,
                )
            )
            for name in ("names", "others")
        ]
        name_server, elsewhere = both
        worker = stack.enter_context(Worker(language))

        async def ask(verb, **given):
            return await asyncio.to_thread(worker.ask, verb, **given)

        async with brokers((0, 1), name_server):
            for at in {str(name_server), str(both[clusters[0] != clusters[1]])}:
                async with ClusterClient(at) as cluster:
                    await cluster.create_topic(TOPIC, queue_count=1)
            await ask("connect", name_servers=[str(name_server)])
            await ask("send", messages=[message(b"before")])
        async with brokers((1, 0), name_server):
            await ask("send", messages=[message(b"after")])
            found = await stored(str(name_server))
            assert sorted(found.values()) == [[]] * (len(found) - 1) + [[b"before", b"after"]]
            if clusters[0] != clusters[1]:
                assert await stored(str(elsewhere)) == {"a": []}
