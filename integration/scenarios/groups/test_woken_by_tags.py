"""Members that wait for some tags cost a broker nothing while others are sent."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ariane_sdk import Message, Producer, PushConsumer
from ariane_testkit.free_ports import free_port

GROUPS, BLUE = 50, 200
READS = "ariane_read_duration_seconds_count"


def reads(address):
    """How often the broker has looked at queues for pulls."""
    with urlopen(f"http://{address}/metrics") as answer:
        text = answer.read().decode()
    families = text_string_to_metric_families(text)
    return sum(each.value for one in families for each in one.samples if each.name == READS)


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_a_message_wakes_those_that_want_its_tag_and_nobody_else(
    local_cluster, ariane, until
):
    got, address = Counter(), f"127.0.0.1:{free_port()}"

    async def listen(messages):
        got.update(message.body for message in messages)

    async with (
        local_cluster("--metrics-listen", address) as cluster,
        Producer(cluster.name_servers) as producer,
        AsyncExitStack() as members,
    ):
        await ariane(cluster, "topic", "create", "orders", "--queues", "1")
        for number in range(GROUPS):
            member = PushConsumer(
                cluster.name_servers,
                group=f"reds-{number}",
                subscriptions={"orders": "red"},
                listener=listen,
                start="earliest",
            )
            await members.enter_async_context(member)

        async def all_got(body):
            await producer.send(Message("orders", body, tag="red"))

            async def all_have():
                return got[body] == GROUPS

            await until(all_have)

        await all_got(b"first")
        before = await asyncio.to_thread(reads, address)
        for number in range(BLUE):
            await producer.send(Message("orders", b"%d" % number, tag="blue"))
        await all_got(b"last")
        looked = await asyncio.to_thread(reads, address) - before
    # The red one woke each; a few holds have ended meanwhile. Woken by all, it were 10,000.
    assert GROUPS <= looked < 10 * GROUPS
