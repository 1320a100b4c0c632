"""Databases of both kinds, empty and up to date, and half messages."""

from __future__ import annotations

import pytest

from ariane_servicekit import Loop, SystemClock
from ariane_servicekit.database import Database
from ariane_testkit.postgresql import empty_database, postgresql_or_skip
from ariane_testkit.virtual_clock import VirtualClock
from ariane_txn_checker.database import SCHEMA, LeaseStore
from ariane_txn_checker.lease_keeper import LeaseKeeper
from ariane_txn_checker.testing import TwinBroker, TwinBrokers
from ariane_txn_checker.transaction import BrokerKey, HalfMessage
from ariane_txn_checker.watching.broker_watch import BrokerWatch
from ariane_txn_checker.watching.questioner import CheckRules
from ariane_txn_checker.watching.survey import SurveyTimes

BROKER = BrokerKey("c1", "broker-a")


@pytest.fixture(scope="session")
def postgresql_url(request):
    with postgresql_or_skip(request.config) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request, tmp_path):
    """An empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/checker.db"
        return
    with empty_database(request.getfixturevalue("postgresql_url"), "checker") as url:
        yield url


@pytest.fixture
async def database(database_url):
    """A database of this version."""
    opened = Database(database_url, SCHEMA, SystemClock())
    await opened.open(wait_s=0)
    yield opened
    opened.close()


@pytest.fixture
def lease(database):
    """A lease of broker-a, held by checker-1 for long."""
    return LeaseStore(database).take(BROKER, "checker-1", 60_000)


@pytest.fixture
def half():
    """Make a half message from what differs from an ordinary one."""

    def half(number=1, *, group="payments", **rest):
        fields = {
            "transaction_id": f"T{number}",
            "unique_id": f"U{number}",
            "topic": "orders",
            "producer_group": group,
            "keys": (f"order-{number}",),
            "store_ms": 1_000_000 + number,
            "immunity_ms": None,
            "half_queue_offset": number,
            "parked": False,
        }
        return HalfMessage(**{**fields, **rest})

    return half


class CheckerInMemory:
    """A checker over twin brokers, on a virtual clock."""

    def __init__(self, name, brokers, database, clock, **changes):
        rules = {
            "interval_ms": 60_000,
            "check_count_max": 15,
            "retry_ms": 5_000,
            "concurrency": 16,
            "group_concurrency": 4,
        }
        self.watch = BrokerWatch(
            brokers,
            database,
            SurveyTimes(first_check_ms=6_000, note_age_ms=3_000, keep_decided_ms=86_400_000),
            CheckRules(**{**rules, **changes}),
            clock,
            survey_interval_s=2,
        )
        self.keeper = LeaseKeeper(name, brokers, database, self.watch.run, clock, lease_s=15)
        self._loop = Loop(name, self.keeper.turn, interval_s=self.keeper.interval_s, clock=clock)
        self.counts = self.watch.counts

    def start(self):
        self._loop.start(at_once=True)

    async def stop(self):
        """Stop in order."""
        await self._loop.stop()
        await self.keeper.close()

    async def kill(self):
        """Vanish: nothing more is written, and no lease is given back."""
        await self._loop.stop()
        await self.keeper.drop_all()


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def brokers(clock):
    twins = TwinBrokers()
    twins.brokers[BROKER] = TwinBroker(clock)
    return twins


@pytest.fixture
def broker(brokers):
    return brokers.brokers[BROKER]


@pytest.fixture
async def memory(clock, tmp_path):
    """A database whose calls take no time of the virtual clock."""
    opened = Database(f"sqlite:///{tmp_path}/virtual.db", SCHEMA, clock, threads=0)
    await opened.open(wait_s=0)
    yield opened
    opened.close()


@pytest.fixture
async def checker(brokers, memory, clock):
    """Start checkers."""
    started = []

    def checker(name="checker-1", **changes):
        made = CheckerInMemory(name, brokers, memory, clock, **changes)
        made.start()
        started.append(made)
        return made

    yield checker
    for made in started:
        await made.stop()
