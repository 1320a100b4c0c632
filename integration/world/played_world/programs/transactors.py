"""Producers whose messages depend on something: on a transaction, or on time."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from ariane_sdk import Message, Producer, TransactionCheck, TransactionOutcome
from ariane_sdk.errors import ArianeError, SendError
from played_world.history import Sent

if TYPE_CHECKING:
    from played_world.machines.process import Process
    from played_world.programs.services import Program
    from played_world.programs.stage import Stage


def transactor(stage: Stage, name: str, topic: str, *, pause_s: float) -> Program:
    """A producer of transactions: it decides, and tells the broker, or leaves it to the check."""

    async def answer(check: TransactionCheck) -> TransactionOutcome:
        sent = stage.history.sent[check.body.decode()]
        if sent.outcome == "open":
            return TransactionOutcome.UNKNOWN
        if sent.outcome == "acknowledged":
            return TransactionOutcome.COMMIT
        return TransactionOutcome.ROLLBACK

    async def run(process: Process) -> None:
        machine, chance = process.machine, process.chance
        number = 0
        producer = Producer(
            stage.name_servers,
            group="transactors",
            transaction_checker=answer,
            clock=machine.clock,
            random=chance,
        )
        async with producer:
            while stage.wants_more:
                number += 1
                value = f"{name}/{process.process_id}/{number}"
                sent = Sent(value, topic, "", number, stage.world.timeline.now, is_half=True)
                stage.history.sent[value] = sent
                try:
                    half = await producer.send_half(Message(topic, value.encode()))
                except (SendError, ArianeError):
                    sent.outcome = "rolled back"  # Nothing depends on it: nobody will commit it.
                    # It may be refused at once, while no broker takes messages of the topic.
                    await asyncio.sleep(chance.uniform(0.0, 2 * pause_s))
                    continue
                await asyncio.sleep(chance.choice((0.0, 0.0, 0.05, 1.0)))
                commits = chance.random() < 0.7
                sent.end("acknowledged" if commits else "rolled back", stage.world.timeline.now)
                stage.world.timeline.note(f"decided {value} {sent.outcome}")
                if chance.random() < 0.7:
                    try:
                        await (producer.commit(half) if commits else producer.rollback(half))
                        stage.happens("decided")
                    except ArianeError as error:
                        stage.world.timeline.note(f"left to the check: {value} {error!r:.80}")
                await asyncio.sleep(chance.uniform(0.0, 2 * pause_s))
            # Whoever answers checks stays until all are decided.
            while not stage.is_drained:  # noqa: ASYNC110 - nobody tells it.
                await asyncio.sleep(1.0)

    return run


def delayer(stage: Stage, name: str, topic: str, *, pause_s: float) -> Program:
    """A producer of messages that are delivered later."""

    async def send(producer: Producer, sent: Sent, delay_s: float) -> None:
        message = Message(topic, sent.value.encode(), delay=timedelta(seconds=delay_s))
        try:
            await producer.send(message)
        except SendError as error:
            sent.end("unknown" if error.outcome_unknown else "refused", stage.world.timeline.now)
        else:
            sent.end("acknowledged", stage.world.timeline.now)
        stage.world.timeline.note(f"sent {sent.value} {sent.outcome}, {delay_s:.1f} s")

    async def run(process: Process) -> None:
        machine, chance = process.machine, process.chance
        number = 0
        async with (
            Producer(stage.name_servers, clock=machine.clock, random=chance) as producer,
            asyncio.TaskGroup() as sending,
        ):
            while stage.wants_more:
                number += 1
                value = f"{name}/{process.process_id}/{number}"
                delay_s = chance.choice((0.5, 2.0, 6.0, 20.0)) * chance.uniform(0.5, 1.5)
                now_s = stage.world.timeline.now
                sent = Sent(value, topic, "", number, now_s, now_s + delay_s)
                stage.history.sent[value] = sent
                sending.create_task(send(producer, sent, delay_s))
                await asyncio.sleep(chance.uniform(0.0, 2 * pause_s))

    return run
