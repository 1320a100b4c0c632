"""Consumers that receive, without owning queues."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ariane_sdk import ReceiveConsumer
from ariane_sdk.errors import ArianeError

if TYPE_CHECKING:
    from played_world.process import Process
    from played_world.programs import Program
    from played_world.stage import Stage

INVISIBLE_S: Final = 10.0


def receive_consumer(stage: Stage, name: str, group: str, topics: list[str]) -> Program:
    """A member of a group that receives, settles most messages, and gives some back."""

    async def run(process: Process) -> None:
        machine, chance = process.machine, process.chance
        consumer = ReceiveConsumer(
            stage.name_servers,
            group=group,
            subscriptions=dict.fromkeys(topics, "*"),
            invisible_s=INVISIBLE_S,
            clock=machine.clock,
            random=chance,
        )
        async with consumer:
            async for batch in consumer.batches(32):
                for message in batch:
                    stage.got(group, name, message)
                if chance.random() < 0.2:
                    await asyncio.sleep(chance.choice((0.1, 1.0, INVISIBLE_S + 1.0)))
                draw = chance.random()
                try:
                    if draw < 0.9:
                        await consumer.ack(*batch)
                    elif draw < 0.95:
                        await consumer.nack(*batch, delay_s=1.0)
                except ArianeError as error:
                    stage.world.timeline.note(f"not settled by {name}: {error!r:.80}")
                else:
                    if draw < 0.9:
                        stage.settle(group, batch)

    return run
