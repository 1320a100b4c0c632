"""The inbox on SQLite and on a real PostgreSQL: once, in the transaction of the effect."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from threading import Barrier

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Column, Integer, MetaData, Table, create_engine, event, func, select
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from ariane_sdk import MessageQueue
from ariane_sdk.errors import IllegalArgument
from ariane_sdk.sql import METADATA, Inbox, LatestKeys, OffsetInbox, create_tables

EFFECT = Table("effect", MetaData(), Column("amount", Integer, nullable=False))
DAY = datetime(2026, 1, 5, tzinfo=UTC)
QUEUE = MessageQueue("orders", "broker-a", 0)


@dataclass(frozen=True)
class Delivered:
    unique_id: str
    queue_offset: int = 0
    message_queue: MessageQueue = QUEUE


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request, tmp_path):
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/shop.db"
    else:
        url = request.getfixturevalue("postgresql_url")
    engine = create_engine(url)
    with engine.begin() as connection:
        create_tables(connection)
        EFFECT.metadata.create_all(connection)
    yield engine
    with engine.begin() as connection:
        METADATA.drop_all(connection)
        EFFECT.metadata.drop_all(connection)
    engine.dispose()


def messages(*names):
    return [Delivered(name) for name in names]


def handle(engine, inbox, delivered):
    with Session(engine) as session, session.begin():
        fresh = inbox.take(session, delivered)
        for _ in fresh:
            session.execute(EFFECT.insert().values(amount=1))
        return [message.unique_id for message in fresh]


def effects(engine):
    with engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(EFFECT))


def test_a_message_is_fresh_once_in_the_order_given(engine):
    inbox = Inbox("billing")
    assert handle(engine, inbox, messages("b", "a", "b", "c")) == ["b", "a", "c"]
    assert handle(engine, inbox, messages("a", "d", "c")) == ["d"]
    assert handle(engine, Inbox("shipping"), messages("a")) == ["a"]
    assert handle(engine, inbox, []) == []
    assert effects(engine) == 5


def test_a_rollback_leaves_messages_fresh(engine):
    inbox = Inbox("billing", seen_keys=LatestKeys())
    with Session(engine) as session:
        assert len(inbox.take(session, messages("a"))) == 1
        session.rollback()
    assert handle(engine, inbox, messages("a")) == ["a"]
    assert handle(engine, inbox, messages("a")) == []
    assert effects(engine) == 1


def test_a_savepoint_that_is_rolled_back_leaves_messages_fresh(engine):
    inbox = Inbox("billing", seen_keys=LatestKeys())
    with Session(engine) as session, session.begin():
        session.execute(EFFECT.insert().values(amount=1))
        savepoint = session.begin_nested()
        assert len(inbox.take(session, messages("a"))) == 1
        savepoint.rollback()
    assert handle(engine, inbox, messages("a")) == ["a"]


def test_a_session_that_is_closed_and_used_again_leaves_messages_fresh(engine):
    inbox = Inbox("billing", seen_keys=LatestKeys())
    session = Session(engine)
    assert len(inbox.take(session, messages("a"))) == 1
    session.close()
    with session.begin():
        assert len(inbox.take(session, messages("b"))) == 1
    assert handle(engine, inbox, messages("a", "b")) == ["a"]


def test_a_savepoint_that_is_kept_in_a_transaction_that_is_not_leaves_messages_fresh(engine):
    inbox = Inbox("billing", seen_keys=LatestKeys())
    with Session(engine) as session:
        session.execute(EFFECT.insert().values(amount=1))
        with session.begin_nested():
            assert len(inbox.take(session, messages("a"))) == 1
        session.rollback()
    assert handle(engine, inbox, messages("a")) == ["a"]


def test_one_statement_for_a_thousand_messages(engine):
    inbox = Inbox("billing")
    many = [Delivered(f"{number:05}") for number in range(2500)]
    statements = []
    event.listen(engine, "before_cursor_execute", lambda *call: statements.append(call[2]))
    with Session(engine) as session, session.begin():
        assert inbox.take(session, many) == many
    assert sum("ariane_inbox" in statement for statement in statements) == 3


def test_of_two_consumers_at_once_one_handles_a_message(engine):
    inbox, names = Inbox("billing"), [f"{number:03}" for number in range(200)]
    barrier = Barrier(4)

    def consume(order):
        barrier.wait(60)
        handled = []
        for start in range(0, 200, 20):
            handled += handle(engine, inbox, messages(*order[start : start + 20]))
        return handled

    orders = [names, names[::-1], names[100:] + names[:100], names]
    with ThreadPoolExecutor(4) as pool:
        taken = [name for handled in pool.map(consume, orders) for name in handled]
    assert sorted(taken) == names
    assert effects(engine) == 200


def test_purge_and_replay(engine):
    days = count()
    inbox = Inbox("billing", now=lambda: DAY + timedelta(days=next(days)))
    for name in "abcde":
        handle(engine, inbox, messages(name))
    with Session(engine) as session, session.begin():
        assert inbox.purge(session, before=DAY + timedelta(days=3), count_max=2) == 2
        assert inbox.purge(session, before=DAY + timedelta(days=3), count_max=2) == 1
        assert inbox.purge(session, before=DAY + timedelta(days=3)) == 0
        assert inbox.replay(session, ["d", "never"]) == 1
    assert handle(engine, inbox, messages("a", "d", "e")) == ["a", "d"]


def test_replay_reaches_the_cache(engine):
    inbox = Inbox("billing", seen_keys=LatestKeys())
    handle(engine, inbox, messages("a"))
    with Session(engine) as session, session.begin():
        inbox.replay(session, ["a"])
    assert handle(engine, inbox, messages("a")) == ["a"]


def test_a_cache_spares_the_database(engine):
    inbox = Inbox("billing", seen_keys=LatestKeys(2))
    assert handle(engine, inbox, messages("a", "b", "c")) == ["a", "b", "c"]
    engine.dispose()
    with Session(engine) as session:
        assert inbox.take(session, messages("b", "c")) == []
        assert not session.in_transaction(), "nothing was asked"
    assert handle(engine, inbox, messages("a")) == []


@pytest.mark.parametrize("key", [7, None, b"k", "a\0", "\ud800"])
def test_keys_that_are_no_text_are_refused_by_name(engine, key):
    with pytest.raises(IllegalArgument, match="inbox key is a text"):
        handle(engine, Inbox("billing", key=lambda _message: key), messages("a"))


@pytest.mark.parametrize("key", ["\N{OX}" * 255, "a ", "A", " "])
def test_every_other_text_is_a_key_of_its_own(engine, key):
    inbox = Inbox("billing", key=lambda message: message.unique_id)
    assert handle(engine, inbox, messages("a", key)) == ["a", key]
    assert handle(engine, inbox, messages("a", key)) == []


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_keys_that_fit_no_row_are_refused(engine, key):
    with pytest.raises(IllegalArgument, match="inbox key has 1 to 255"):
        handle(engine, Inbox("billing", key=lambda _message: key), messages("a"))
    with pytest.raises(IllegalArgument, match="1 to 120"):
        Inbox("")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.lists(st.integers(0, 12), max_size=6), st.booleans()), max_size=8))
def test_any_deliveries_have_each_message_once(rounds):
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        create_tables(connection)
    inbox, lasting, seen = Inbox("billing", seen_keys=LatestKeys(3)), [], set()
    for numbers, fails in rounds:
        with Session(engine) as session:
            fresh = inbox.take(session, [Delivered(str(number)) for number in numbers])
            assert {int(message.unique_id) for message in fresh} == set(numbers) - seen
            if fails:
                session.rollback()
            else:
                session.commit()
                lasting += [message.unique_id for message in fresh]
                seen |= set(numbers)
    assert len(lasting) == len(set(lasting)) == len(seen)
    engine.dispose()


def at(*offsets, queue=QUEUE):
    return [Delivered(f"{queue}:{offset}", offset, queue) for offset in offsets]


def test_offsets_of_a_queue_only_grow(engine):
    inbox, other = OffsetInbox("ledger"), MessageQueue("orders", "broker-b", 0)
    assert len(handle(engine, inbox, at(3, 4, 9))) == 3
    assert handle(engine, inbox, at(3, 4, 9, 10)) == [f"{QUEUE}:10"]
    assert len(handle(engine, inbox, at(0, 1, queue=other))) == 2
    with Session(engine) as session, session.begin():
        assert inbox.next_offset(session, QUEUE) == 11
        assert inbox.next_offset(session, MessageQueue("x", "y", 1)) is None
        inbox.replay(session, QUEUE, 10)
        inbox.replay(session, other, None)
    assert handle(engine, inbox, at(9, 10)) == [f"{QUEUE}:10"]
    assert len(handle(engine, inbox, at(0, queue=other))) == 1


def test_two_owners_of_a_queue_have_each_offset_once(engine):
    inbox, barrier = OffsetInbox("ledger"), Barrier(3)

    def own(_number):
        barrier.wait(60)
        return [
            name
            for start in range(0, 60, 5)
            for name in handle(engine, inbox, at(*range(start, start + 5)))
        ]

    with ThreadPoolExecutor(3) as pool:
        taken = [name for handled in pool.map(own, range(3)) for name in handled]
    assert sorted(taken) == sorted(message.unique_id for message in at(*range(60)))
    assert effects(engine) == 60


@pytest.mark.parametrize("wrong", [at(2, 1), at(1) + at(2, queue=MessageQueue("o", "b", 1))])
def test_an_offset_inbox_wants_one_queue_in_order(engine, wrong):
    with pytest.raises(IllegalArgument, match="of one queue, in its order"):
        handle(engine, OffsetInbox("ledger"), wrong)


async def test_the_same_with_asynchronous_sessions(engine, postgresql_url, tmp_path):
    if engine.dialect.name == "sqlite":
        url = f"sqlite+aiosqlite:///{tmp_path}/shop.db"
    else:
        url = postgresql_url
    inbox, positions = Inbox("billing"), OffsetInbox("ledger")
    asynchronous = create_async_engine(url)

    async def consume():
        async with AsyncSession(asynchronous) as session, session.begin():
            fresh = await inbox.take_async(session, messages("a", "b"))
            for _ in fresh:
                await session.execute(EFFECT.insert().values(amount=1))
            await positions.take_async(session, at(0, 1))

    await asyncio.gather(*(consume() for _ in range(3)))
    assert effects(engine) == 2
    async with AsyncSession(asynchronous) as session, session.begin():
        assert await inbox.replay_async(session, ["a"]) == 1
        assert await inbox.purge_async(session, before=datetime.now(UTC)) == 1
    await asynchronous.dispose()


def test_other_databases_are_named(engine):
    class Foreign:
        class dialect:  # noqa: N801 - as SQLAlchemy names it
            name = "oracle"

    session = Session(engine)
    session.get_bind = Foreign
    with pytest.raises(IllegalArgument, match="PostgreSQL and SQLite, not oracle"):
        Inbox("billing").take(session, messages("a"))
