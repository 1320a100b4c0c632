"""Name servers that a client is told of by a file or by DNS move while it runs."""

from __future__ import annotations

import asyncio
import base64
from contextlib import AsyncExitStack

import pytest
from languages import COMMANDS, Worker, build, missing

from ariane_broker.app import compose
from ariane_broker.settings import BrokerSettings
from ariane_namesrv.app import NamesrvApp
from ariane_namesrv.settings import NamesrvSettings
from ariane_sdk import ClusterClient
from ariane_servicekit import Address, serving
from ariane_testkit.small_store import SMALL_STORE_SETTINGS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def message(topic: str) -> dict[str, object]:
    return {
        "topic": topic,
        "body": base64.b64encode(b"here").decode(),
        "tag": "",
        "keys": [],
        "group": "",
        "properties": {},
        "id": "",
    }


@pytest.mark.parametrize("language", COMMANDS)
async def test_name_servers_move_and_are_found_by_a_file_and_by_dns(language, tmp_path):
    if lacks := missing(language):
        pytest.skip(f"{lacks} is not on this machine")
    await asyncio.to_thread(build, language)
    listed = tmp_path / "names"

    def name_server(name):
        settings = NamesrvSettings(listen=Address("127.0.0.1", 0), data_path=tmp_path / name)
        return serving(settings, NamesrvApp)

    async with AsyncExitStack() as stack:
        stays = await stack.enter_async_context(name_server("stays"))
        goes_away = AsyncExitStack()
        goes = await goes_away.enter_async_context(name_server("goes"))
        stack.push_async_callback(goes_away.aclose)
        settings = BrokerSettings(
            listen=Address("127.0.0.1", 0),
            name_servers=(goes, stays),
            store_path=tmp_path / "store",
            **SMALL_STORE_SETTINGS,
        )
        await stack.enter_async_context(serving(settings, compose))
        worker = stack.enter_context(Worker(language))

        async def ask(verb, **given):
            return await asyncio.to_thread(worker.ask, verb, **given)

        async with ClusterClient(str(stays)) as cluster:
            for topic in "first", "second", "third":
                await cluster.create_topic(topic, queue_count=1)
        listed.write_text(f"# where name servers are\n{goes}\n")
        await ask("connect", name_servers=[f"file:{listed}"])
        await ask("send", messages=[message("first")])
        listed.write_text(f"{stays}, ")
        await goes_away.aclose()
        await ask("send", messages=[message("second")])
        # All addresses of the name: nobody may listen at the first.
        await ask("connect", name_servers=[f"dns:localhost:{stays.port}"])
        [sent] = await ask("send", messages=[message("third")])
        assert sent["broker"] == "broker-a"
