"""A dependency of an ordered group is down for five minutes: nothing is given up or overtaken."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager

import pytest

from ariane_sdk import ClusterClient, DeadLetters, Message, Producer, PushConsumer
from ariane_sdk.errors import ConsumptionHeld

DOWN_S = 300
"""How long it is down; many times the sixteen tries after which others give up."""

PER_S = 20
BEFORE, AFTER = 100, 100
"""Messages while it is there, before and after."""

GROUPS = ("raising", "holding")


class Bank:
    """A server that an accountant needs for each message."""

    def __init__(self):
        self.port = 0

    @asynccontextmanager
    async def open(self):
        async def answer(reader, writer):
            await reader.readexactly(1)
            writer.write(b"1")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield

    async def ask(self):
        """Ask it; raises OSError while it is down."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"?")
        try:
            await reader.readexactly(1)
        finally:
            writer.close()


class Accountants:
    """Members of a group, and what they have booked, queue by queue."""

    def __init__(self, cluster, bank, group):
        self.booked = defaultdict(list)
        self._bank = bank
        self._group = group
        self.failed_count = 0
        self.members = [
            PushConsumer(
                cluster.name_servers,
                group=group,
                subscriptions={"orders": "*"},
                listener=self._book,
                start="earliest",
                ordered=True,
            )
            for _ in range(2)
        ]

    async def _book(self, messages):
        try:
            await self._bank.ask()
        except OSError as error:
            self.failed_count += 1
            if self._group == "holding":
                raise ConsumptionHeld(5, "the bank is down", all_queues=True) from error
            raise
        for message in messages:
            self.booked[message.queue_id].append(message.queue_offset)

    @property
    def count(self):
        return sum(map(len, self.booked.values()))


async def send(producer, count):
    """Send so many messages, in some seconds."""
    for number in range(count):
        await producer.send(Message("orders", b"%d" % number, message_group=str(number % 50)))
        await asyncio.sleep(1 / PER_S)


@pytest.mark.slow
@pytest.mark.timeout(DOWN_S + 300)
async def test_a_dependency_that_is_down_for_minutes_costs_no_order_and_no_message(
    local_cluster, ariane, until, capfd
):
    bank = Bank()
    async with local_cluster() as cluster:
        await ariane(cluster, "topic", "create", "orders", "--queues", "4")
        all_groups = [Accountants(cluster, bank, group) for group in GROUPS]
        async with (
            Producer(cluster.name_servers) as producer,
            ClusterClient(cluster.name_servers) as client,
        ):

            async def all_booked(count):
                async def all_have():
                    return all(each.count >= count for each in all_groups)

                await until(all_have)

            async with bank.open():
                for member in (each for group in all_groups for each in group.members):
                    await member.start()
                await send(producer, BEFORE)
                await all_booked(BEFORE)
            await send(producer, PER_S * DOWN_S)
            while_down = [each.count for each in all_groups]
            lags = [await client.consumer_lag(group) for group in GROUPS]
            async with bank.open():
                await send(producer, AFTER)
                sent = BEFORE + PER_S * DOWN_S + AFTER
                begun_s = asyncio.get_running_loop().time()
                await all_booked(sent)
                drained_s = asyncio.get_running_loop().time() - begun_s
                for member in (each for group in all_groups for each in group.members):
                    await member.close()
            async with DeadLetters(cluster.name_servers) as reader:
                letters = [letter for group in GROUPS async for letter in reader.read(group)]
    with capfd.disabled():
        tries = [each.failed_count for each in all_groups]
        print(f"\n{sent} sent, failed tries {tries}, drained {drained_s:.1f} s after the last send")
    assert while_down == [BEFORE] * len(GROUPS)
    assert all(sum(each.message_count for each in lag) == PER_S * DOWN_S for lag in lags)
    for each in all_groups:
        assert each.count == sent
        assert all(offsets == sorted(set(offsets)) for offsets in each.booked.values())
    assert letters == []
