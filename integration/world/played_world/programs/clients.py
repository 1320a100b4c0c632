"""Clients of a cluster, as programs of played processes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ariane_sdk import Message, Producer, SendResult
from ariane_sdk.errors import ArianeError, SendError
from played_world.history import Place, Sent

if TYPE_CHECKING:
    from played_world.machines.process import Process
    from played_world.programs.services import Program
    from played_world.programs.stage import Stage


def place_of(result: SendResult) -> Place:
    """Where a message was said to lie."""
    return Place(*result.message_queue, result.queue_offset)


def producer(stage: Stage, name: str, topic: str, *, pause_s: float, groups: int) -> Program:
    """A producer that sends now and then, until the stage has enough."""

    async def send(sender: Producer, sent: Sent) -> None:
        message = Message(topic, sent.value.encode(), message_group=sent.group)
        timeline = stage.world.timeline
        try:
            result = await sender.send(message)
        except SendError as error:
            sent.end("unknown" if error.outcome_unknown else "refused", timeline.now)
        except ArianeError:
            sent.end("unknown", timeline.now)
        else:
            sent.end("acknowledged", timeline.now, place_of(result))
            stage.happens("sent", result.message_queue.broker_name)
        timeline.note(f"sent {sent.value} {sent.outcome} {sent.place}")

    async def run(process: Process) -> None:
        machine, chance = process.machine, process.chance
        history = stage.history
        life = process.process_id
        number = 0
        async with (
            Producer(stage.name_servers, group=name, clock=machine.clock, random=chance) as sender,
            asyncio.TaskGroup() as sending,
        ):
            while stage.wants_more:
                for _ in range(chance.choice((1, 1, 2, 5))):
                    number += 1
                    group = f"{name}/{life}/{number % groups}" if groups else ""
                    value = f"{name}/{life}/{number}"
                    sent = Sent(value, topic, group, number, stage.world.timeline.now)
                    history.sent[value] = sent
                    sending.create_task(send(sender, sent))
                await asyncio.sleep(chance.uniform(0.0, 2 * pause_s))

    return run
