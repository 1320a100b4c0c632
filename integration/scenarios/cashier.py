"""Takes payments in transactions, as a process that is made to be killed at named places.

Run as ``python cashier.py NAME_SERVERS DATABASE_URL NAME``. It writes ``PLACE ID`` when it reaches
a place of transaction ID, and waits there until it is told the same back; ``stop`` on its standard
input ends the payments, and leaves it there to be asked. Places: ``half`` (stored by the broker),
``recorded`` (in the local transaction), ``stored`` (that one is committed), ``commit`` (about to
say so) and ``asked`` (how a transaction ended).
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from itertools import count

from sqlalchemy import Column, MetaData, String, Table
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from ariane_sdk import Message, Producer, ProducerSettings, TransactionCheck, TransactionOutcome
from ariane_sdk.errors import SendError, TransactionDecided
from ariane_sdk.sql import AsyncTransactionOutcomes

TOPIC = "payments"
AT_ONCE = 3
PAYMENT = Table(
    "payment",
    MetaData(),
    Column("number", String(60), primary_key=True),
    Column("transaction_id", String(64), nullable=False),
)
BRISK = ProducerSettings(call_timeout_s=1.0, send_timeout_s=8.0, repeat_delay_s_max=0.2)


class Trouble(Exception):
    """A payment that was made to fail."""


class Places:
    """Where the process waits until it is told to go on."""

    def __init__(self) -> None:
        self.stopped = asyncio.Event()
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}

    async def reach(self, place: str, transaction_id: str) -> None:
        line = f"{place} {transaction_id}"
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(line, []).append(told)
        os.write(1, line.encode() + b"\n")
        await told

    async def listen(self) -> None:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := (await reader.readline()).decode().strip():
            if line == "stop":
                self.stopped.set()
            for told in self._waiting.pop(line, ()):
                if not told.done():
                    told.set_result(None)


class Cashier:
    """Takes payments."""

    def __init__(self, name_servers: str, database_url: str, name: str) -> None:
        url = database_url.replace("sqlite:", "sqlite+aiosqlite:")
        self._sessions: async_sessionmaker[AsyncSession] = async_sessionmaker(
            create_async_engine(url)
        )
        self._outcomes = AsyncTransactionOutcomes(self._sessions)
        self._numbers = (f"{name}-{number}" for number in count())
        self._places = Places()
        self._producer = Producer(
            name_servers, group="cashiers", transaction_checker=self._check, settings=BRISK
        )

    async def run(self) -> None:
        listening = asyncio.create_task(self._places.listen())
        async with self._producer:
            await self._producer.wait_attached()
            os.write(1, b"ready -\n")
            async with asyncio.TaskGroup() as tasks:
                for _ in range(AT_ONCE):
                    tasks.create_task(self._pay_on())
            os.write(1, b"idle -\n")
            await listening

    async def _pay_on(self) -> None:
        while not self._places.stopped.is_set():
            try:
                await self._pay(next(self._numbers))
            except (Trouble, TransactionDecided, SendError, DBAPIError):
                await asyncio.sleep(0.01)

    async def _pay(self, number: str) -> None:
        chance = random.Random(number)
        message = Message(TOPIC, number.encode(), keys=(number,))
        async with self._producer.transaction(message) as transaction:
            transaction_id = transaction.transaction_id
            await self._places.reach("half", transaction_id)
            if chance.random() < 0.03:
                await asyncio.sleep(1.0)  # So long that a check may come first.
            async with self._sessions.begin() as session:
                await self._outcomes.record_async(session, transaction)
                row = {"number": number, "transaction_id": transaction_id}
                await session.execute(PAYMENT.insert().values(row))
                await self._places.reach("recorded", transaction_id)
                if chance.random() < 0.1:
                    raise Trouble("the local transaction failed")
            await self._places.reach("stored", transaction_id)
            if chance.random() < 0.1:
                raise Trouble("the block failed, and the local transaction stands")
            if chance.random() < 0.1:
                transaction.leave()
            else:
                await self._places.reach("commit", transaction_id)

    async def _check(self, check: TransactionCheck) -> TransactionOutcome:
        await self._places.reach("asked", check.transaction_id)
        return await self._outcomes(check)


if __name__ == "__main__":
    asyncio.run(Cashier(*sys.argv[1:]).run())
