"""Brisk settings, and a listener that tests can wait for."""

import asyncio

from ariane_sdk import PushSettings

BRISK = PushSettings(
    rebalance_gap_s_min=0.05,
    handover_s=0.3,
    offset_store_interval_s=0.2,
    redelivery_delay_s_min=0.01,
    suspend_s=0.01,
    hold_s=2.0,
)


class Book:
    """A listener that writes down what it gets, and lets others wait for it."""

    def __init__(self):
        self.messages = []
        self.batches = []
        self.changed = asyncio.Condition()

    async def __call__(self, messages):
        self.batches.append(messages)
        self.messages += messages
        async with self.changed:
            self.changed.notify_all()

    @property
    def bodies(self):
        return [message.body.decode() for message in self.messages]

    async def wait(self, count):
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(lambda: len(self.messages) >= count)


async def wait_until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - there is nothing to be told by.
            await asyncio.sleep(0.02)
