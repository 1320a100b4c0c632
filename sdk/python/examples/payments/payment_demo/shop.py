"""The shop: an order is stored if, and only if, its payment is asked for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Final

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from ariane_sdk import Message, Producer
from ariane_sdk.errors import SendError, TransactionDecided
from ariane_sdk.sql import AsyncTransactionOutcomes
from payment_demo.books import ORDER, Order
from payment_demo.trouble import (
    CLICKED_TWICE,
    DATABASE_FAILED,
    SENT_TWICE,
    SHOP_DIED,
    SHOP_DIED_BEFORE,
    Trouble,
    Troubles,
)

TOPIC: Final = "payments"
IMMUNITY_S: Final = 3
"""How long a half message rests before it is checked: longer than placing an order takes."""


class Shop:
    """Places orders."""

    def __init__(
        self,
        name_servers: str,
        sessions: async_sessionmaker[AsyncSession],
        troubles: Troubles,
    ) -> None:
        """Nothing is connected before the first order."""
        self._sessions = sessions
        self._outcomes = AsyncTransactionOutcomes(sessions)
        self._producer = Producer(name_servers, group="shop", transaction_checker=self._outcomes)
        self._troubles = troubles

    async def open(self) -> None:
        """Begin, and be there when brokers ask how transactions ended."""
        await self._producer.start()
        await self._producer.wait_attached()

    async def close(self) -> None:
        """End; what is undecided by then waits for the next shop."""
        await self._producer.close()

    async def place_all(self, orders: Iterable[Order], *, at_once: int) -> None:
        """Place orders, some at the same time, until each of them stands."""
        turns = asyncio.Semaphore(at_once)

        async def place(order: Order) -> None:
            async with turns:
                await self._place(order)
                if self._troubles.is_due(CLICKED_TWICE, 10):
                    await self._place(order)
                if self._troubles.is_due(SENT_TWICE, 12):
                    await self._producer.send(_payment_of(order))

        async with asyncio.TaskGroup() as tasks:
            for order in orders:
                tasks.create_task(place(order))

    async def _place(self, order: Order) -> None:
        """Try until the order stands. Trying again is harmless: its number is the key."""
        while True:
            try:
                await self._try(order)
            except IntegrityError:
                return  # It stands already; this transaction is rolled back.
            except (Trouble, TransactionDecided, SendError):
                continue
            return

    async def _try(self, order: Order) -> None:
        async with self._producer.transaction(
            _payment_of(order), immunity_s=IMMUNITY_S
        ) as transaction:
            async with self._sessions.begin() as session:
                await self._outcomes.record_async(session, transaction)
                await session.execute(ORDER.insert().values(**order._asdict()))
                if self._troubles.is_due(DATABASE_FAILED, 9):
                    raise Trouble(DATABASE_FAILED)
                if self._troubles.is_due(SHOP_DIED_BEFORE, 25):
                    transaction.leave()
                    raise Trouble(SHOP_DIED_BEFORE)
            if self._troubles.is_due(SHOP_DIED, 15):
                transaction.leave()


def _payment_of(order: Order) -> Message:
    return Message(
        TOPIC,
        json.dumps(order._asdict()).encode(),
        keys=(order.number,),
        message_group=order.customer,
    )
