"""Plain methods given an asynchronous session: refused, because they would silently do nothing."""

import inspect

import pytest
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import (
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import sessionmaker

from ariane_sdk import HalfMessage, Message, MessageQueue
from ariane_sdk.errors import IllegalArgument
from ariane_sdk.sql import (
    METADATA,
    AsyncTransactionOutcomes,
    Inbox,
    OffsetInbox,
    Outbox,
    TransactionOutcomes,
    create_tables,
)

HALF = HalfMessage("t-1", "orders", "broker-a")
QUEUE = MessageQueue("orders", "broker-a", 0)


@pytest.fixture
async def sessions(tmp_path):
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/shop.db")
    async with engine.begin() as connection:
        await connection.run_sync(create_tables)
    yield async_sessionmaker(engine)
    await engine.dispose()


def plain_methods(*tools):
    """The bound public methods whose first parameter is a plain session."""
    for tool in tools:
        for name, method in inspect.getmembers(tool, inspect.ismethod):
            parameters = list(inspect.signature(method).parameters.values())
            if name[0] != "_" and parameters and parameters[0].annotation == "Session":
                yield method


def arguments_of(method):
    """Something for each parameter behind the session that has no default."""
    known = {
        "messages": [],
        "keys": [],
        "queue": QUEUE,
        "queue_offset": 1,
        "transaction": HALF,
        "name": "shop",
        "before": None,
    }
    wanted = list(inspect.signature(method).parameters.values())[1:]
    required = [each for each in wanted if each.default is each.empty]
    return {each.name: known[each.name] for each in required if each.kind != each.VAR_POSITIONAL}


async def test_an_asynchronous_session_is_refused_by_every_plain_method(sessions):
    tools = (
        Outbox("shop"),
        Inbox("billing"),
        OffsetInbox("ledger"),
        TransactionOutcomes(sessionmaker()),
        AsyncTransactionOutcomes(sessions),
    )
    methods = list(plain_methods(*tools))
    names = {method.__name__ for method in methods}
    assert {"add", "take", "record", "purge", "replay", "requeue", "as_kept"} <= names
    for method in methods:
        async with sessions.begin() as session:
            with pytest.raises(IllegalArgument, match=r"asynchronous.*await ") as refused:
                method(session, **arguments_of(method))
        alternative = str(refused.value).partition("await ")[2]
        named = alternative.partition("(")[0].partition(".")[2]
        offering = (method.__self__, session, AsyncTransactionOutcomes)
        assert any(hasattr(each, named) for each in offering), (method, alternative)


async def test_no_message_is_lost_beside_an_order_that_is_kept(sessions):
    outbox, outcomes = Outbox("shop"), AsyncTransactionOutcomes(sessions)
    scoped = async_scoped_session(sessions, scopefunc=lambda: 1)
    async with sessions() as session, session.begin():
        for refused in (session, scoped, await session.connection()):
            with pytest.raises(IllegalArgument, match="add_async"):
                outbox.add(refused, Message("orders", b"paid"))
            with pytest.raises(IllegalArgument, match="record_async"):
                outcomes.record(refused, HALF)
        await outbox.add_async(session, Message("orders", b"paid"))
    async with sessions() as session:
        rows = METADATA.tables["ariane_outbox"]
        assert await session.scalar(select(func.count()).select_from(rows)) == 1


async def test_outcomes_want_sessions_of_their_own_kind(sessions):
    with pytest.raises(IllegalArgument, match="AsyncTransactionOutcomes"):
        TransactionOutcomes(sessions)
    with pytest.raises(IllegalArgument, match="TransactionOutcomes takes"):
        AsyncTransactionOutcomes(sessionmaker())
