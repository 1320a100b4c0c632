"""Outcomes of transactions in the application's own database: the check and the truth agree."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, create_engine, func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

from ariane_sdk import HalfMessage, TransactionCheck, TransactionOutcome
from ariane_sdk.errors import TransactionDecided
from ariane_sdk.sql import (
    METADATA,
    AsyncTransactionOutcomes,
    TransactionOutcomes,
    _transaction_outcomes,
    create_tables,
)

EFFECT = Table("paid", MetaData(), Column("amount", Integer, nullable=False))
DAY = datetime(2026, 1, 5, tzinfo=UTC)


def half(name):
    return HalfMessage(name, "orders", "broker-a")


def question(name):
    return TransactionCheck(half_message=half(name), body=b"", tag="", keys=(), properties={})


@pytest.fixture(params=["sqlite", "postgresql"])
def sessions(request, tmp_path):
    if request.param == "sqlite":
        engine = create_engine(f"sqlite:///{tmp_path}/shop.db", connect_args={"timeout": 0.2})
    else:
        engine = create_engine(request.getfixturevalue("postgresql_url"))
    with engine.begin() as connection:
        create_tables(connection)
        EFFECT.metadata.create_all(connection)
    yield sessionmaker(engine)
    with engine.begin() as connection:
        METADATA.drop_all(connection)
        EFFECT.metadata.drop_all(connection)
    engine.dispose()


def pay(sessions, outcomes, name):
    with sessions.begin() as session:
        outcomes.record(session, half(name))
        session.execute(EFFECT.insert().values(amount=1))


def paid(sessions):
    with sessions() as session:
        return session.scalar(select(func.count()).select_from(EFFECT))


def test_a_committed_transaction_is_answered_as_committed(sessions):
    outcomes = TransactionOutcomes(sessions)
    pay(sessions, outcomes, "t-1")
    assert outcomes(question("t-1")) is TransactionOutcome.COMMIT
    assert outcomes(question("t-1")) is TransactionOutcome.COMMIT


def test_who_comes_after_the_check_must_roll_back(sessions):
    outcomes = TransactionOutcomes(sessions)
    assert outcomes(question("t-1")) is TransactionOutcome.ROLLBACK
    with pytest.raises(TransactionDecided) as refused:
        pay(sessions, outcomes, "t-1")
    assert refused.value.outcome == "ROLLBACK"
    assert paid(sessions) == 0
    assert outcomes(question("t-1")) is TransactionOutcome.ROLLBACK


def test_a_local_transaction_that_failed_is_rolled_back(sessions):
    outcomes = TransactionOutcomes(sessions)
    with sessions() as session:
        outcomes.record(session, half("t-1"))
        session.rollback()
    assert outcomes(question("t-1")) is TransactionOutcome.ROLLBACK


def test_a_local_transaction_in_flight_is_no_answer(sessions, monkeypatch):
    monkeypatch.setattr(_transaction_outcomes, "LOCK_TIMEOUT_MS", 100)
    outcomes = TransactionOutcomes(sessions)
    with sessions.begin() as session:
        outcomes.record(session, half("t-1"))
        session.flush()
        with pytest.raises(DBAPIError):
            outcomes(question("t-1"))
    assert outcomes(question("t-1")) is TransactionOutcome.COMMIT


def test_a_check_and_a_local_transaction_at_once_agree(sessions):
    outcomes = TransactionOutcomes(sessions)
    answers, refusals = {}, set()

    def check(names):
        for name in names:
            try:
                answers[name] = outcomes(question(name))
            except DBAPIError:
                answers[name] = None

    def work(names):
        for name in names:
            try:
                pay(sessions, outcomes, name)
            except (TransactionDecided, DBAPIError):
                refusals.add(name)

    names = [f"t-{number}" for number in range(60)]
    threads = [threading.Thread(target=each, args=(names,)) for each in (check, work)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert paid(sessions) == len(names) - len(refusals)
    for name in names:
        final = outcomes(question(name))
        assert answers[name] in {None, final}
        assert (final is TransactionOutcome.COMMIT) is (name not in refusals)


def test_old_outcomes_are_purged(sessions):
    now = DAY
    outcomes = TransactionOutcomes(sessions, now=lambda: now)
    pay(sessions, outcomes, "t-1")
    now = DAY + timedelta(days=2)
    pay(sessions, outcomes, "t-2")
    with sessions.begin() as session:
        assert outcomes.purge(session, before=DAY + timedelta(days=1)) == 1
    assert outcomes(question("t-2")) is TransactionOutcome.COMMIT


async def test_the_same_with_asynchronous_sessions(tmp_path):
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/shop.db")
    async with engine.begin() as connection:
        await connection.run_sync(create_tables)
    sessions = async_sessionmaker(engine)
    outcomes = AsyncTransactionOutcomes(sessions)
    async with sessions.begin() as session:
        await outcomes.record_async(session, half("t-1"))
    assert await outcomes(question("t-1")) is TransactionOutcome.COMMIT
    assert await outcomes(question("t-2")) is TransactionOutcome.ROLLBACK
    with pytest.raises(TransactionDecided):
        async with sessions.begin() as session:
            await outcomes.record_async(session, half("t-2"))
    async with sessions.begin() as session:
        assert await outcomes.purge_async(session, before=datetime(2100, 1, 1, tzinfo=UTC)) == 2
    await engine.dispose()
