"""What a listener has done, by topic, for operators."""

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from ariane_sdk.consumer.delivery.consume_counts import TOPICS_MAX, ConsumeCounts
from ariane_sdk.errors import ConsumptionHeld, MessagesFailed


class Clock:
    now_s = 1000.0

    def __call__(self):
        return self.now_s


def messages(count, topic="orders"):
    return [SimpleNamespace(topic=topic) for _ in range(count)]


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def counts(clock):
    return ConsumeCounts(clock)


@pytest.fixture
def deliver(clock, counts):
    async def deliver(batch, *, seconds=0.0, error=None):
        async def listen(_batch):
            clock.now_s += seconds
            if error is not None:
                raise error

        expected = nullcontext() if error is None else pytest.raises(type(error))
        with expected:
            await counts.around(listen)(batch)

    return deliver


async def test_counts_of_consumed_messages_have_rates_and_times(clock, counts, deliver):
    for _ in range(10):
        await deliver(messages(4), seconds=0.5)
        clock.now_s += 0.5
    batch = messages(4)
    await deliver(batch, seconds=1.0, error=MessagesFailed(batch[:1], "bad"))
    await deliver(messages(2), seconds=1.0, error=ValueError("all"))
    clock.now_s += 8.0
    assert counts.facts() == {
        "consumed.orders.done": "43",
        "consumed.orders.failed": "3",
        "consumed.orders.done_per_second": "2.15",
        "consumed.orders.failed_per_second": "0.15",
        "consumed.orders.milliseconds_each": f"{7000 / 46:.3f}",
    }


async def test_a_wish_to_be_held_is_no_failure(counts, deliver):
    await deliver(messages(3), error=ConsumptionHeld(5, "a dependency is down"))
    assert counts.facts()["consumed.orders.failed"] == "0"


async def test_a_call_that_was_cancelled_has_done_nothing(counts, deliver):
    await deliver(messages(3), error=asyncio.CancelledError())
    await deliver(messages(2))
    assert counts.facts()["consumed.orders.done"] == "2"


async def test_rates_are_of_the_last_minute_and_counts_of_all(clock, counts, deliver):
    await deliver(messages(300))
    clock.now_s += 29.0
    await deliver(messages(60))
    clock.now_s += 30.9
    assert counts.facts()["consumed.orders.done_per_second"] == f"{360 / 59.9:.2f}"
    clock.now_s += 61.0
    told = counts.facts()
    assert told["consumed.orders.done"] == "360"
    assert told["consumed.orders.done_per_second"] == "0.00"
    assert "consumed.orders.milliseconds_each" not in told


async def test_topics_are_told_apart_up_to_a_limit(counts, deliver):
    for number in range(TOPICS_MAX + 5):
        await deliver(messages(1, f"topic-{number}"))
    assert sum(name.endswith(".done") for name in counts.facts()) == TOPICS_MAX
