"""Leases in the database, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select

from ariane_txn_checker.database import (
    CheckStore,
    LeaseStore,
    Stretch,
    SurveyStore,
)
from ariane_txn_checker.database.tables import CHECK, TRANSACTION
from ariane_txn_checker.errors import LeaseLost
from ariane_txn_checker.transaction import (
    Answer,
    BrokerKey,
    Outcome,
    TransactionKey,
)

BROKER = BrokerKey("c1", "broker-a")
ALL = range(1_000_000)


def key(number=1):
    return TransactionKey(BROKER, f"T{number}")


def stretch(*halves, wait_ms=0, offsets=ALL, began_ms=0):
    return Stretch({each.transaction_id: (each, wait_ms) for each in halves}, offsets, began_ms)


def rows(database, table):
    with database.reading() as connection:
        return connection.execute(select(table)).all()


def test_a_lease_is_one_checkers_until_it_runs_out(database):
    leases = LeaseStore(database)
    first = leases.take(BROKER, "one", 60_000)
    assert first.fencing_token == 1
    assert leases.free([BROKER]) == []
    assert leases.take(BROKER, "two", 60_000) is None
    leases.release(first)
    assert leases.free([BROKER]) == [BROKER]
    second = leases.take(BROKER, "two", 60_000)
    assert (second.checker_id, second.fencing_token) == ("two", 2)
    leases.release(first)
    assert leases.free([BROKER]) == []


async def test_a_lease_runs_out_by_itself(database):
    leases = LeaseStore(database)
    assert leases.take(BROKER, "one", 20) is not None
    async with asyncio.timeout(60):
        while (taken := leases.take(BROKER, "two", 60_000)) is None:  # noqa: ASYNC110 - time passes
            await asyncio.sleep(0.01)
    assert taken.fencing_token == 2


def test_a_lease_that_nobody_took_can_be_prolonged_late(database):
    leases = LeaseStore(database)
    leases.take(BROKER, "one", -1)
    [renewed] = leases.renew("one", 60_000)
    assert renewed.fencing_token == 1
    assert leases.take(BROKER, "two", 60_000) is None
    leases.release(renewed)
    assert leases.renew("one", 60_000) == []


def test_of_many_takers_one_gets_the_lease(database):
    leases = LeaseStore(database)
    with ThreadPoolExecutor(4) as pool:
        for broker in (BrokerKey("c1", f"broker-{number}") for number in range(5)):
            taken = list(pool.map(lambda name, of=broker: leases.take(of, name, 60_000), "abcd"))
            assert sum(lease is not None for lease in taken) == 1


def test_checkers_know_of_each_other(database):
    leases = LeaseStore(database)
    assert leases.beat("one", 60_000) == ["one"]
    assert leases.beat("two", 60_000) == ["one", "two"]
    lease = leases.take(BROKER, "two", 60_000)
    leases.leave("two")
    assert leases.beat("one", 60_000) == ["one"]
    assert leases.take(BROKER, "one", 60_000).fencing_token == lease.fencing_token + 1
    leases.beat("three", -1)
    assert leases.beat("one", 60_000) == ["one"]


def test_leases_are_listed_by_broker(database):
    leases = LeaseStore(database)
    brokers = [BrokerKey("c1", "b"), BrokerKey("c2", "a"), BrokerKey("c1", "a")]
    for broker in brokers:
        leases.take(broker, "one", 60_000)
    listed = [lease.broker for lease in leases.all(after=None, limit=10)]
    assert listed == sorted(brokers)
    [second] = leases.all(after=listed[0], limit=1)
    assert second.broker == listed[1]
    leases.note_progress(second, half_queue_offset=7, op_queue_offset=5)
    [second] = leases.all(after=listed[0], limit=1)
    assert (second.half_queue_offset, second.op_queue_offset) == (7, 5)


def test_who_lost_the_lease_writes_nothing_more(database, lease, half):
    leases = LeaseStore(database)
    surveys, checks = SurveyStore(database), CheckStore(database)
    surveys.take_in(lease, stretch(half()))
    number = checks.begin_check(lease, key(), interval_ms=0)
    leases.release(lease)
    leases.take(BROKER, "checker-2", 60_000)
    before = rows(database, TRANSACTION), rows(database, CHECK)
    for write in (
        lambda: surveys.take_in(lease, stretch(half(2))),
        lambda: surveys.purge(lease, keep_ms=-1),
        lambda: leases.note_progress(lease, half_queue_offset=1, op_queue_offset=1),
        lambda: checks.begin_check(lease, key(), interval_ms=0),
        lambda: checks.end_check(lease, key(), number, Answer(Outcome.UNKNOWN, "p")),
        lambda: checks.undo_check(lease, key(), number, wait_ms=0),
        lambda: checks.postpone(lease, key(), wait_ms=0),
        lambda: checks.note_listed(lease, key(), interval_ms=0),
        lambda: checks.park(lease, key()),
        lambda: checks.decide(lease, key(), Outcome.COMMIT),
    ):
        with pytest.raises(LeaseLost):
            write()
    assert (rows(database, TRANSACTION), rows(database, CHECK)) == before
