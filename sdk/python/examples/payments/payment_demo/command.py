"""The whole of it: a cluster, a database, a shop, a bank, trouble, and the sums."""

# ruff: noqa: T201 - an example prints.

from __future__ import annotations

import argparse
import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker, create_async_engine

from ariane_sdk import ClusterClient
from ariane_sdk.sql import create_tables
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.postgresql import running_postgresql
from payment_demo.bank import Bank
from payment_demo.books import add_up, booked_count, draw_orders, open_accounts
from payment_demo.shop import TOPIC, Shop
from payment_demo.trouble import FORCED, Troubles

CUSTOMERS: Final = 100
AT_ONCE: Final = 32
CONNECTIONS: Final = 40
PATIENCE_S: Final = 180
SMALL_STORE: Final = (
    *("--segment-bytes", str(64 << 20)),
    *("--disk-clean-ratio", "0.97", "--disk-force-ratio", "0.98", "--disk-refuse-ratio", "0.99"),
)


def main() -> int:
    """Run it; 0 when every sum agrees."""
    parser = argparse.ArgumentParser(prog="payments", description=__doc__)
    parser.add_argument("--orders", type=int, default=10_000, help="how many (10000)")
    parser.add_argument("--seed", type=int, default=7, help="draws the orders (7)")
    parser.add_argument(
        "--database-url", help="an empty PostgreSQL, by SQLAlchemy's URL; else one is started"
    )
    arguments = parser.parse_args()
    # What is forced to fail is counted; what the client says of it would fill the screen.
    logging.getLogger("ariane_sdk").setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        url = arguments.database_url or stack.enter_context(
            running_postgresql(cache_folder=Path(".cache/postgresql"))
        )
        folder = Path(stack.enter_context(TemporaryDirectory()))
        cluster = stack.enter_context(
            LocalCluster(folder, brokers=2, checkers=1, extra_broker_args=SMALL_STORE)
        )
        return asyncio.run(_run(url, cluster.name_servers, arguments.orders, arguments.seed))


async def _run(url: str, name_servers: str, count: int, seed: int) -> int:
    orders = draw_orders(count, CUSTOMERS, Random(seed))  # noqa: S311 - an example.
    troubles = Troubles()
    begin = perf_counter()
    async with _database(url) as engine:
        await _make_topic(name_servers)
        sessions = async_sessionmaker(engine)
        bank, shop = Bank(sessions, troubles), Shop(name_servers, sessions, troubles)
        await shop.open()
        try:
            async with bank.member(name_servers), asyncio.TaskGroup() as tasks:
                tasks.create_task(_come_and_go(bank, name_servers))
                tasks.create_task(shop.place_all(orders, at_once=AT_ONCE))
            async with bank.member(name_servers):
                await _wait_booked(engine, name_servers, count)
        finally:
            await shop.close()
        async with engine.connect() as connection:
            sums = await connection.run_sync(add_up)
    print(f"{count} orders in {perf_counter() - begin:.0f} s")
    for name in FORCED:
        print(f"{troubles.counts[name]:8} x {name}")
    print(f"ordered {sums.ordered_cents / 100:15,.2f} in {sums.orders} orders")
    print(f"paid    {sums.shop_cents / 100:15,.2f} in {sums.entries} payments")
    print(f"all     {sums.all_cents / 100:15,.2f} on {CUSTOMERS + 1} accounts")
    faults = sums.faults(orders, CUSTOMERS)
    faults += [f"never happened: {name}" for name in FORCED if not troubles.counts[name]]
    print("\n".join(faults) or "every sum agrees: each order was paid exactly once")
    return 1 if faults else 0


@asynccontextmanager
async def _database(url: str) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(url, pool_size=CONNECTIONS)
    try:
        async with engine.begin() as connection:
            await connection.run_sync(create_tables)
            await connection.run_sync(open_accounts, CUSTOMERS)
        yield engine
    finally:
        await engine.dispose()


async def _make_topic(name_servers: str) -> None:
    async with ClusterClient(name_servers) as client:
        await client.create_topic(TOPIC)


async def _come_and_go(bank: Bank, name_servers: str) -> None:
    """Have a second member share queues for a moment, and hand them back."""
    for _ in range(2):
        async with bank.member(name_servers):
            await asyncio.sleep(1.0)


async def _wait_booked(engine: AsyncEngine, name_servers: str, count: int) -> None:
    """Wait until every order is paid at least once, and nothing more is there to be taken.

    Raises:
        TimeoutError: That takes too long.
    """
    async with asyncio.timeout(PATIENCE_S), ClusterClient(name_servers) as client:
        while True:
            async with engine.connect() as connection:
                booked = await connection.run_sync(booked_count)
            lags = await client.consumer_lag("bank", TOPIC)
            if booked >= count and not sum(lag.message_count for lag in lags):
                return
            await asyncio.sleep(0.1)
