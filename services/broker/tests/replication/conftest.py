"""A database that two brokers of one replica set share."""

from __future__ import annotations

import pytest

from ariane_broker.replication.database_row import SCHEMA, DatabaseRow
from ariane_servicekit import SystemClock
from ariane_servicekit.database import Database


@pytest.fixture
async def rows(tmp_path):
    """The row of broker-a as two brokers reach it."""
    url = f"sqlite:///{tmp_path}/set.db"
    databases = [
        Database(url, SCHEMA, SystemClock(), threads=1, survives_power_loss=True) for _ in range(2)
    ]
    for database in databases:
        await database.open(wait_s=10)
    yield [DatabaseRow(database, "c", "broker-a", wait_s_max=10) for database in databases]
    for database in databases:
        database.close()
