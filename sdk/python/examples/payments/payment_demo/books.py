"""The tables of shop and bank, and the sums that must agree in the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    MetaData,
    String,
    Table,
    func,
    select,
)

BOOKS: Final = MetaData()
ORDER: Final = Table(
    "shop_order",
    BOOKS,
    Column("number", String(20), primary_key=True),
    Column("customer", String(20), nullable=False),
    Column("amount_cents", BigInteger, nullable=False),
)
ACCOUNT: Final = Table(
    "bank_account",
    BOOKS,
    Column("name", String(20), primary_key=True),
    Column("balance_cents", BigInteger, nullable=False),
)
ENTRY: Final = Table(
    "bank_entry",
    BOOKS,
    Column("entry_id", Integer, primary_key=True),
    # Not unique, on purpose: a payment that is booked twice is to be seen.
    Column("order_number", String(20), nullable=False),
    Column("customer", String(20), nullable=False),
    Column("amount_cents", BigInteger, nullable=False),
)

SHOP: Final = "shop"
START_CENTS: Final = 10_000_000


class Order(NamedTuple):
    """What somebody buys."""

    number: str
    customer: str
    amount_cents: int


def draw_orders(count: int, customers: int, random: Random) -> list[Order]:
    """Orders of a day."""
    return [
        Order(f"o-{number:06}", f"c-{random.randrange(customers):03}", random.randint(1, 99_99))
        for number in range(count)
    ]


def open_accounts(connection: Connection, customers: int) -> None:
    """Tables, and money for each customer."""
    BOOKS.create_all(connection)
    accounts = [{"name": SHOP, "balance_cents": 0}]
    accounts += [
        {"name": f"c-{number:03}", "balance_cents": START_CENTS} for number in range(customers)
    ]
    connection.execute(ACCOUNT.insert(), accounts)


@dataclass(frozen=True)
class Sums:
    """What is in the books."""

    orders: int
    """How many orders the shop has."""
    ordered_cents: int
    """What they cost."""
    entries: int
    """How many payments the bank has booked."""
    paid_orders: int
    """How many different orders they are for."""
    shop_cents: int
    """What the shop has got."""
    all_cents: int
    """What all accounts hold together."""
    wrong_customers: Sequence[str]
    """Those who did not pay what they ordered."""

    def faults(self, orders: Iterable[Order], customers: int) -> list[str]:
        """What does not agree with the orders that were placed."""
        placed = list(orders)
        cost = sum(order.amount_cents for order in placed)
        wanted = {
            "orders": len(placed),
            "ordered_cents": cost,
            "entries": len(placed),
            "paid_orders": len(placed),
            "shop_cents": cost,
            "all_cents": customers * START_CENTS,
            "wrong_customers": [],
        }
        return [
            f"{name}: {getattr(self, name)}, not {value}"
            for name, value in wanted.items()
            if getattr(self, name) != value
        ]


def add_up(connection: Connection) -> Sums:
    """Look into the books."""
    orders, ordered = connection.execute(
        select(func.count(), func.coalesce(func.sum(ORDER.c.amount_cents), 0))
    ).one()
    entries, paid = connection.execute(
        select(func.count(), func.count(ENTRY.c.order_number.distinct())).select_from(ENTRY)
    ).one()
    balances = dict(connection.execute(select(ACCOUNT.c.name, ACCOUNT.c.balance_cents)).all())
    costs = dict(
        connection.execute(
            select(ORDER.c.customer, func.sum(ORDER.c.amount_cents)).group_by(ORDER.c.customer)
        ).all()
    )
    wrong = [
        name
        for name, balance in sorted(balances.items())
        if name != SHOP and START_CENTS - balance != costs.get(name, 0)
    ]
    return Sums(orders, int(ordered), entries, paid, balances[SHOP], sum(balances.values()), wrong)


def booked_count(connection: Connection) -> int:
    """How many different orders are paid."""
    return connection.execute(select(func.count(ENTRY.c.order_number.distinct()))).scalar_one()
