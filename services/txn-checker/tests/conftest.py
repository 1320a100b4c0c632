"""Databases of both kinds, empty and up to date, and half messages."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, text

from ariane_servicekit import SystemClock
from ariane_servicekit.postgresql import PostgresqlUnavailable, running_postgresql
from ariane_txn_checker.database import Database, LeaseStore
from ariane_txn_checker.transaction import BrokerKey, HalfMessage

BROKER = BrokerKey("c1", "broker-a")


@pytest.fixture(scope="session")
def postgresql_url(request):
    cache = request.config.rootpath / ".cache" / "postgresql"
    try:
        with running_postgresql(cache_folder=cache) as url:
            yield url
    except PostgresqlUnavailable as missing:
        pytest.skip(str(missing))


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request, tmp_path):
    """An empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/checker.db"
        return
    server = create_engine(request.getfixturevalue("postgresql_url"), isolation_level="AUTOCOMMIT")
    with server.connect() as link:
        link.execute(text("CREATE DATABASE checker"))
        yield server.url.set(database="checker").render_as_string(hide_password=False)
        link.execute(text("DROP DATABASE checker WITH (FORCE)"))
    server.dispose()


@pytest.fixture
async def database(database_url):
    """A database of this version."""
    opened = Database(database_url, SystemClock())
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
