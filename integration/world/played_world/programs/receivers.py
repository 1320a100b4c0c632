"""Consumers that receive, without owning queues."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ariane_sdk import ReceiveConsumer
from ariane_sdk.errors import ArianeError

if TYPE_CHECKING:
    from ariane_sdk import ReceivedMessage
    from played_world.machines.process import Process
    from played_world.programs.services import Program
    from played_world.programs.stage import Stage

INVISIBLE_S: Final = 10.0

SETTLED: Final = 0.9
GIVEN_BACK: Final = 0.95
"""Shares of what is received: settled, and given back beyond that; the rest is left alone."""


def receive_consumer(stage: Stage, name: str, group: str, topics: list[str]) -> Program:
    """A member of a group that receives, settles most messages, and gives some back."""

    async def settle(
        consumer: ReceiveConsumer, batch: Sequence[ReceivedMessage], draw: float
    ) -> None:
        try:
            if draw < SETTLED:
                stage.finish(group, batch)
                await consumer.ack(*batch)
                stage.settle(group, batch)
            elif draw < GIVEN_BACK:
                await consumer.nack(*batch, delay_s=1.0)
        except ArianeError as error:
            stage.world.timeline.note(f"not settled by {name}: {error!r:.80}")

    async def run(process: Process) -> None:
        chance = process.chance
        process.leave_by(asyncio.current_task())
        consumer = ReceiveConsumer(
            stage.name_servers,
            group=group,
            subscriptions=dict.fromkeys(topics, "*"),
            invisible_s=INVISIBLE_S,
            clock=process.machine.clock,
            random=chance,
        )
        async with consumer:
            async for batch in consumer.batches(32):
                draw = chance.random()
                for message in batch:
                    stage.got(group, name, message)
                if chance.random() < 0.2:
                    await asyncio.sleep(chance.choice((0.1, 1.0, INVISIBLE_S + 1.0)))
                if process.drags_s:
                    await asyncio.sleep(process.drags_s)
                await settle(consumer, batch, draw)

    return run
