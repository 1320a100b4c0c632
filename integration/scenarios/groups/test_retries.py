"""Messages that fail, through real processes, one of which is killed on the way."""

from __future__ import annotations

from collections import Counter

import pytest

from ariane_sdk import DeadLetters, Message, Producer, PushConsumer, PushSettings
from ariane_sdk.errors import MessagesFailed

COUNT = 400
HOPELESS = frozenset(range(0, COUNT, 100))
FICKLE = frozenset(range(5, COUNT, 40))
"""Fails at its first two tries."""

LEVELS = " ".join(["1s"] * 18)
BRISK = PushSettings(
    rebalance_gap_s_min=0.05, handover_s=0.05, attempts_max=4, offset_store_interval_s=0.2
)


@pytest.mark.slow
async def test_failed_messages_are_redelivered_over_a_killed_broker_or_become_dead_letters(
    local_cluster, ariane, until
):
    tries, done = Counter(), Counter()

    async def listen(messages):
        failed = []
        for message in messages:
            number = int(message.body)
            tries[number, message.attempts] += 1
            if number in HOPELESS or (number in FICKLE and message.attempts < 2):
                failed.append(message)
            else:
                done[number] += 1
        if failed:
            raise MessagesFailed(failed, "not this time")

    async with local_cluster("--delay-levels", LEVELS) as cluster:
        await ariane(cluster, "topic", "create", "orders", "--queues", "4")
        async with Producer(cluster.name_servers) as producer:
            await producer.send_batch([Message("orders", b"%d" % each) for each in range(COUNT)])

        async def dead():
            async with DeadLetters(cluster.name_servers) as letters:
                return [letter async for letter in letters.read("billing")]

        async def all_dead():
            found = await dead()
            return found if len(found) >= len(HOPELESS) else None

        async def repeated():
            return any(attempts for _, attempts in tries)

        async with PushConsumer(
            cluster.name_servers,
            group="billing",
            subscriptions={"orders": "*"},
            listener=listen,
            start="earliest",
            settings=BRISK,
        ):
            await until(repeated)
            cluster.brokers[0].kill()
            await cluster.brokers[0].restart()
            letters = await until(all_dead, seconds=120)
        assert {int(letter.message.body) for letter in letters} == HOPELESS
        # No return was taken twice, although answers were lost.
        assert len(letters) == len(HOPELESS)
        assert {letter.message.attempts for letter in letters} == {5}
        assert {letter.reason for letter in letters} == {"ATTEMPTS_EXHAUSTED"}
        assert done.keys() == set(range(COUNT)) - HOPELESS
        # What could not be sent back while the broker was dead was tried again where it was.
        assert all(sum(tries[number, each] for each in range(5)) >= 5 for number in HOPELESS)
