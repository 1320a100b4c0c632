"""A message that kills each consumer that gets it, and the messages around it."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path

import pytest

from ariane_sdk import DeadLetters, Message, Producer
from ariane_sdk.errors import RouteNotFound

MEMBER = Path(__file__).parent / "doomed_member.py"
COUNT = 400
POISON = 137
DEATHS_MAX = 3
DEATHS = 2 + DEATHS_MAX
"""One death tells where to look, one which messages to have alone; the rest are counted."""

FLAGS = (
    *("--delay-levels", " ".join(["1s"] * 18)),
    *("--consumer-grace-s", "0.5"),
    *("--consumer-deaths-max", str(DEATHS_MAX)),
    *("--queue-lock-lease-s", "2"),
)


class Regiment:
    """Members of a group as processes; whoever falls is replaced at once."""

    def __init__(self, *arguments):
        self.done = Counter()
        self.death_count = 0
        self._arguments = arguments
        self._members = set()
        self._posts = []

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        for post in self._posts:
            post.cancel()
        await asyncio.gather(*self._posts, return_exceptions=True)
        for member in self._members:
            if member.returncode is None:
                member.kill()
            await member.wait()

    def man(self, count):
        self._posts += [asyncio.create_task(self._man_post()) for _ in range(count)]

    async def _man_post(self):
        while True:
            member = await asyncio.create_subprocess_exec(
                sys.executable, str(MEMBER), *self._arguments, stdout=asyncio.subprocess.PIPE
            )
            self._members.add(member)
            async for line in member.stdout:
                if line == b"died\n":
                    self.death_count += 1
                else:
                    self.done[int(line)] += 1


async def dead_letters(cluster):
    async with DeadLetters(cluster.name_servers) as letters:
        try:
            return [letter async for letter in letters.read("billing")]
        except RouteNotFound:
            return []


@pytest.mark.slow
@pytest.mark.parametrize("ordered", ["", "ordered"])
async def test_only_a_message_that_kills_its_consumers_becomes_a_dead_letter(
    local_cluster, ariane, until, ordered
):
    numbers = set(range(COUNT))
    async with local_cluster(*FLAGS) as cluster:
        await ariane(cluster, "topic", "create", "orders", "--queues", "4")
        async with Producer(cluster.name_servers) as producer:
            await producer.send_batch([Message("orders", b"%d" % each) for each in numbers])

        async def dead():
            return await dead_letters(cluster)

        arguments = (cluster.name_servers, "billing", "orders", ordered, str(POISON))
        async with Regiment(*arguments) as regiment:
            regiment.man(2)
            letters = await until(dead, seconds=90)

            async def rest_done():
                return regiment.done.keys() >= numbers - {POISON}

            await until(rest_done, seconds=120)
            # Who is alive now stays so.
            assert regiment.death_count == DEATHS
            assert [int(letter.message.body) for letter in letters] == [POISON]
            assert letters[0].reason == "CONSUMER_DIED"
            assert letters[0].message.attempts == DEATHS_MAX
            assert POISON not in regiment.done
            assert len(await dead()) == 1
        _, rows = await ariane(cluster, "dead-letter", "list", "billing")
        assert [row["reason"] for row in rows] == ["CONSUMER_DIED"]


@pytest.mark.slow
async def test_several_are_found_over_a_killed_broker(local_cluster, ariane, until):
    numbers, poisons = set(range(COUNT)), {20, 21, 350}
    async with local_cluster(*FLAGS) as cluster:
        await ariane(cluster, "topic", "create", "orders", "--queues", "2")
        async with Producer(cluster.name_servers) as producer:
            await producer.send_batch([Message("orders", b"%d" % each) for each in numbers])
        arguments = (cluster.name_servers, "billing", "orders", "", ",".join(map(str, poisons)))
        async with Regiment(*arguments) as regiment:
            regiment.man(2)

            async def some_died():
                return regiment.death_count >= 3

            async def all_dead():
                found = await dead_letters(cluster)
                return found if len(found) >= len(poisons) else None

            async def rest_done():
                return regiment.done.keys() >= numbers - poisons

            await until(some_died, seconds=120)
            cluster.brokers[0].kill()
            await cluster.brokers[0].restart()
            letters = await until(all_dead, seconds=120)
            await until(rest_done, seconds=120)
            assert {int(letter.message.body) for letter in letters} == poisons
            assert {letter.reason for letter in letters} == {"CONSUMER_DIED"}
            assert {letter.message.attempts for letter in letters} == {DEATHS_MAX}
            # One more where a death was not seen, because the broker was dead itself.
            assert regiment.death_count <= DEATHS * len(poisons) + 2
            assert poisons.isdisjoint(regiment.done)
