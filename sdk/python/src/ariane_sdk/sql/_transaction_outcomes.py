"""Outcomes that the local transaction stores itself, so that the check needs no code.

::

    begin                                                    the application's own transaction
      insert into ariane_transaction_outcome  COMMIT         refused if a check came first
      the application's changes
    commit                                                   both or neither

    check:  insert into ariane_transaction_outcome ROLLBACK  unless a row is there; then read it

A check that finds no row does not guess whether the local transaction is still to come: it inserts
ROLLBACK, and a later local transaction fails on that row. So the two never differ. A check during a
local transaction waits a moment for its end, or does not answer.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final, Protocol

from sqlalchemy import delete, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.sql.dml import ReturningInsert

from ariane_sdk.errors import IllegalArgument, TransactionDecided
from ariane_sdk.producer.transactions.transaction import TransactionCheck, TransactionOutcome
from ariane_sdk.runtime.clock import utc_now
from ariane_sdk.sql._plain_session import refuse_asynchronous
from ariane_sdk.sql._tables import TRANSACTION_OUTCOME

LOCK_TIMEOUT_MS: Final = 2000
"""How long a check waits for a local transaction in progress (PostgreSQL)."""


class IdentifiedTransaction(Protocol):
    """A transaction with its id."""

    @property
    def transaction_id(self) -> str:
        """Its id."""


class _OutcomeRows:
    """The use of the table by both public classes."""

    def __init__(self, now: Callable[[], datetime] | None) -> None:
        self._now = now or utc_now

    def record(self, session: Session, transaction: IdentifiedTransaction) -> None:
        """Let the transaction commit if, and only if, this session's transaction commits.

        Call it first in the local transaction, so that a refusal comes early.

        Args:
            session: The session in whose transaction the application's changes are.
            transaction: The result of ``producer.transaction``, or a half message.

        Raises:
            TransactionDecided: A check came first: the message will never be visible, so the
                session must roll back.
            IllegalArgument: The database is neither PostgreSQL nor SQLite, or the session is
                asynchronous.
        """
        refuse_asynchronous(
            session, "outcomes.record_async(session, ...)  # of AsyncTransactionOutcomes"
        )
        outcome = self._first_outcome(
            session, transaction.transaction_id, TransactionOutcome.COMMIT
        )
        if outcome is not TransactionOutcome.COMMIT:
            raise TransactionDecided(
                f"a check was faster: {transaction.transaction_id} is rolled back",
                metadata={"outcome": outcome.value},
            )

    def purge(self, session: Session, *, before: datetime) -> int:
        """Delete outcomes that were stored long ago; return their number.

        Keep outcomes for longer than half messages are checked: a message without an outcome is
        rolled back by the next check.

        Args:
            session: A session; the caller commits.
            before: Outcomes stored before this time are deleted.
        """
        refuse_asynchronous(
            session, "outcomes.purge_async(session, ...)  # of AsyncTransactionOutcomes"
        )
        table = TRANSACTION_OUTCOME
        gone = delete(table).where(table.c.decided_at < before).returning(table.c.transaction_id)
        return len(session.scalars(gone).all())

    def _answer(self, session: Session, transaction_id: str) -> TransactionOutcome:
        known = self._read(session, transaction_id)
        if known is not None:
            return known
        if session.get_bind().dialect.name == "postgresql":
            session.execute(text(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}"))
        return self._first_outcome(session, transaction_id, TransactionOutcome.ROLLBACK)

    def _first_outcome(
        self, session: Session, transaction_id: str, outcome: TransactionOutcome
    ) -> TransactionOutcome:
        """Store an outcome unless there is one; return the stored one."""
        if session.scalar(self._insert(session, transaction_id, outcome)) is not None:
            return outcome
        standing = self._read(session, transaction_id)
        if standing is None:
            # A purge that is far too early deleted it between the two statements.
            raise IllegalArgument(f"the outcome of {transaction_id} was purged just now")
        return standing

    @staticmethod
    def _read(session: Session, transaction_id: str) -> TransactionOutcome | None:
        table = TRANSACTION_OUTCOME
        row = session.scalar(
            select(table.c.outcome).where(table.c.transaction_id == transaction_id)
        )
        return None if row is None else TransactionOutcome(row)

    def _insert(
        self, session: Session, transaction_id: str, outcome: TransactionOutcome
    ) -> ReturningInsert[tuple[str]]:
        row = {
            "transaction_id": transaction_id,
            "outcome": outcome.value,
            "decided_at": self._now(),
        }
        dialect = session.get_bind().dialect.name
        column = TRANSACTION_OUTCOME.c.transaction_id
        if dialect == "postgresql":
            statement = postgresql.insert(TRANSACTION_OUTCOME).values(row)
            return statement.on_conflict_do_nothing().returning(column)
        if dialect == "sqlite":
            plain = sqlite.insert(TRANSACTION_OUTCOME).values(row)
            return plain.on_conflict_do_nothing().returning(column)
        raise IllegalArgument(f"outcomes are kept in PostgreSQL and SQLite, not {dialect}")


class TransactionOutcomes(_OutcomeRows):
    """Stores outcomes with the application's changes, and answers checks from them.

    Example::

        outcomes = TransactionOutcomes(sessions)         # a sessionmaker

        with Producer(..., group="orders-api", transaction_checker=outcomes) as producer:
            with producer.transaction(Message("orders", b"...")) as transaction:
                with sessions.begin() as session:
                    outcomes.record(session, transaction)
                    session.add(order)
    """

    def __init__(
        self, sessions: sessionmaker[Session], *, now: Callable[[], datetime] | None = None
    ) -> None:
        """Take the parts; the database is not used yet.

        Args:
            sessions: Makes sessions for checks.
            now: Returns the time in UTC; for tests.

        Raises:
            IllegalArgument: The sessions are asynchronous.
        """
        given: object = sessions
        if isinstance(given, async_sessionmaker):
            raise IllegalArgument(
                "TransactionOutcomes takes a sessionmaker; for an async_sessionmaker there is"
                " AsyncTransactionOutcomes"
            )
        super().__init__(now)
        self._sessions = sessions

    def __call__(self, check: TransactionCheck) -> TransactionOutcome:
        """The outcome of a transaction; from now on it cannot change.

        Raises:
            DBAPIError: The database does not answer, or the local transaction is in progress. The
                check will be repeated.
        """
        with self._sessions.begin() as session:
            return self._answer(session, check.transaction_id)


class AsyncTransactionOutcomes(_OutcomeRows):
    """``TransactionOutcomes`` for asynchronous sessions.

    Example::

        async with producer.transaction(Message("orders", b"...")) as transaction:
            async with sessions.begin() as session:
                await outcomes.record_async(session, transaction)
                session.add(order)
    """

    def __init__(
        self,
        sessions: async_sessionmaker[AsyncSession],
        *,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        """Take the parts; the database is not used yet.

        Args:
            sessions: Makes sessions for checks.
            now: Returns the time in UTC; for tests.

        Raises:
            IllegalArgument: The sessions are not asynchronous.
        """
        given: object = sessions
        if isinstance(given, sessionmaker):
            raise IllegalArgument(
                "AsyncTransactionOutcomes takes an async_sessionmaker; for a sessionmaker there is"
                " TransactionOutcomes"
            )
        super().__init__(now)
        self._sessions = sessions

    async def record_async(self, session: AsyncSession, transaction: IdentifiedTransaction) -> None:
        """``record`` for an asynchronous session."""
        await session.run_sync(self.record, transaction)

    async def purge_async(self, session: AsyncSession, *, before: datetime) -> int:
        """``purge`` for an asynchronous session."""
        return await session.run_sync(lambda plain: self.purge(plain, before=before))

    async def __call__(self, check: TransactionCheck) -> TransactionOutcome:
        """The outcome of a transaction; from now on it cannot change.

        Raises:
            DBAPIError: The database does not answer, or the local transaction is in progress. The
                check will be repeated.
        """
        async with self._sessions.begin() as session:
            return await session.run_sync(self._answer, check.transaction_id)
