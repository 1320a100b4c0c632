"""The bank: moves the money of each payment once, however often it is told to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from sqlalchemy import bindparam
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from ariane_sdk import PushConsumer, PushSettings, ReceivedMessage
from ariane_sdk.sql import Inbox
from payment_demo.books import ACCOUNT, ENTRY, SHOP, Order
from payment_demo.shop import TOPIC
from payment_demo.trouble import BANK_DIED, BANK_FAILED, SKIPPED, Trouble, Troubles


def order_number(message: ReceivedMessage) -> str:
    """What makes a payment the same payment, also when it was sent twice."""
    return message.keys[0]


class Bank:
    """Takes payments, and books them with the inbox in one transaction."""

    def __init__(self, sessions: async_sessionmaker[AsyncSession], troubles: Troubles) -> None:
        """Have booked nothing."""
        self._sessions = sessions
        self._inbox = Inbox("bank", key=order_number)
        self._troubles = troubles

    def member(self, name_servers: str) -> PushConsumer:
        """A member of the bank's consumer group; the payments of a customer stay in order."""
        return PushConsumer(
            name_servers,
            group="bank",
            subscriptions={TOPIC: "*"},
            listener=self.book,
            start="earliest",
            ordered=True,
            settings=PushSettings(suspend_s=0.05, rebalance_gap_s_min=0.2),
        )

    async def book(self, messages: Sequence[ReceivedMessage]) -> None:
        """The listener."""
        async with self._sessions.begin() as session:
            fresh = await self._inbox.take_async(session, messages)
            self._troubles.counts[SKIPPED] += len(messages) - len(fresh)
            await self._move_money(
                session, [Order(**json.loads(bytes(message.body))) for message in fresh]
            )
            if self._troubles.is_due(BANK_FAILED, 7):
                raise Trouble(BANK_FAILED)
        if self._troubles.is_due(BANK_DIED, 6):
            raise Trouble(BANK_DIED)

    @staticmethod
    async def _move_money(session: AsyncSession, payments: Sequence[Order]) -> None:
        if not payments:
            return
        moves: Counter[str] = Counter()
        for order in payments:
            moves[order.customer] -= order.amount_cents
            moves[SHOP] += order.amount_cents
        entries = [
            {
                "order_number": order.number,
                "customer": order.customer,
                "amount_cents": order.amount_cents,
            }
            for order in payments
        ]
        await session.execute(ENTRY.insert(), entries)
        balance = ACCOUNT.c.balance_cents
        move = (
            ACCOUNT.update()
            .where(ACCOUNT.c.name == bindparam("account"))
            .values(balance_cents=balance + bindparam("moved"))
        )
        connection = await session.connection()
        # Sorted: two members would otherwise wait for each other's accounts for ever.
        await connection.execute(
            move, [{"account": name, "moved": moved} for name, moved in sorted(moves.items())]
        )
