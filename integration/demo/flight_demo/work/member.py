"""One member of the consumer group, a process of its own (``python -m flight_demo.work.member``).

It writes ``assigned`` when its queues change, ``progress`` when it has some, and ``totals`` last;
it reads ``go`` (let messages through) and ``stop``. It joins while the topic is empty and holds
what arrives until it is told to go: so no queue changes hands under load, and the group's rate is
measured on a backlog.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ariane_sdk import PushConsumer, ReceivedMessage
from flight_demo.children import perform, say
from flight_demo.work.ledger import Ledger

_SECONDS_BETWEEN_REPORTS = 0.1
_LISTENER_BATCH = 1000


@dataclass(frozen=True, slots=True)
class MemberOrders:
    """What a member is told on its command line."""

    name_servers: str
    topic: str
    group: str

    event_count: int
    """Events of the run."""

    seen_path: Path
    """Where one byte an event says whether this member saw it."""

    def to_arguments(self) -> list[str]:
        """Return the command line."""
        return [
            f"--name-servers={self.name_servers}",
            f"--topic={self.topic}",
            f"--group={self.group}",
            f"--event-count={self.event_count}",
            f"--seen-path={self.seen_path}",
        ]

    @classmethod
    def parse(cls, arguments: Sequence[str] | None = None) -> MemberOrders:
        """Read the command line."""
        parser = argparse.ArgumentParser()
        parser.add_argument("--name-servers", required=True)
        parser.add_argument("--topic", required=True)
        parser.add_argument("--group", required=True)
        parser.add_argument("--event-count", type=int, required=True)
        parser.add_argument("--seen-path", type=Path, required=True)
        return cls(**vars(parser.parse_args(arguments)))


async def consume(orders: MemberOrders) -> None:
    """Consume until told to stop, then write down what was seen."""
    ledger = Ledger(orders.event_count)
    gate = asyncio.Event()

    async def book(messages: Sequence[ReceivedMessage]) -> None:
        await gate.wait()
        ledger.take(messages)

    async with PushConsumer(
        orders.name_servers,
        group=orders.group,
        subscriptions={orders.topic: "*"},
        listener=book,
        start="earliest",
        batch_size=_LISTENER_BATCH,
    ) as consumer:
        reporter = asyncio.create_task(_report(consumer, ledger))
        try:
            await _obey(gate)
        finally:
            reporter.cancel()
    orders.seen_path.write_bytes(ledger.seen)
    say("totals", totals=ledger.totals().to_json())


async def _obey(gate: asyncio.Event) -> None:
    words = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(words), sys.stdin)
    # The end of the input says stop: whoever held the other end is gone.
    while (word := (await words.readline()).strip()) not in (b"", b"stop"):
        if word == b"go":
            gate.set()


async def _report(consumer: PushConsumer, ledger: Ledger) -> None:
    queues: list[str] | None = None
    distinct: int | None = None
    while True:
        assigned = sorted(str(queue) for queue in consumer.assignment)
        if assigned != queues:
            queues = assigned
            say("assigned", queues=queues)
        if ledger.distinct != distinct:
            distinct = ledger.distinct
            say("progress", distinct=distinct)
        await asyncio.sleep(_SECONDS_BETWEEN_REPORTS)


if __name__ == "__main__":
    perform(lambda: asyncio.run(consume(MemberOrders.parse())))
