"""Queries and decisions of operators. Any checker serves them, whichever watches the broker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import BigInteger, Select, and_, cast, func, literal, select, tuple_, update

from ariane_servicekit.database import Database
from ariane_txn_checker.database.checks import write_decision
from ariane_txn_checker.database.rows import check_of, of_transaction, transaction_of
from ariane_txn_checker.database.tables import CHECK, LEASE, TRANSACTION
from ariane_txn_checker.transaction import (
    CheckedTransaction,
    CheckRecord,
    Outcome,
    State,
    TransactionKey,
)

PagePosition = tuple[int, str, str, str]
"""The end of a page: milliseconds, cluster, broker, transaction id."""


@dataclass(frozen=True, slots=True)
class TransactionSelection:
    """A selection of transactions; empty or None fields match all."""

    producer_group: str = ""
    topic: str = ""
    broker_name: str = ""
    store_ms_end: int | None = None


@dataclass(frozen=True, slots=True)
class Tally:
    """Numbers of transactions."""

    checked_count: int
    """Under check on the brokers that one checker watches."""
    parked_count: int
    """Parked on all brokers."""
    oldest_store_ms: int | None
    """Store time of the oldest of those under check."""


class InquiryStore:
    """The transactions, as operators query them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def transaction(self, transaction_id: str) -> CheckedTransaction | None:
        """Return a transaction by id; a pending one before others that share the id."""
        query = (
            select(TRANSACTION)
            .where(TRANSACTION.c.transaction_id == transaction_id)
            .order_by(TRANSACTION.c.state == State.DECIDED, TRANSACTION.c.store_ms.desc())
            .limit(1)
        )
        with self._database.reading() as connection:
            row = connection.execute(query).first()
            return None if row is None else transaction_of(row)

    def under_check(
        self, selection: TransactionSelection, *, after: PagePosition | None, limit: int
    ) -> Sequence[CheckedTransaction]:
        """Transactions under check, by the time of their next check."""
        query = _selected(selection).where(
            TRANSACTION.c.next_check_ms.is_not(None),
            # The sum has no index: with it SQLite would use the index of states and sort every
            # page.
            (TRANSACTION.c.state + 0).in_((State.WAITING, State.ASKING)),
        )
        return self._page(query, "next_check_ms", after, limit)

    def parked(
        self, selection: TransactionSelection, *, after: PagePosition | None, limit: int
    ) -> Sequence[CheckedTransaction]:
        """Parked transactions, by the time they were parked."""
        query = _selected(selection).where(TRANSACTION.c.state == State.PARKED)
        return self._page(query, "end_ms", after, limit)

    def checks(self, key: TransactionKey, *, after: int, limit: int) -> Sequence[CheckRecord]:
        """The checks of one transaction after a check number, oldest first."""
        query = (
            select(CHECK)
            .where(of_transaction(CHECK, key), CHECK.c.check_number > after)
            .order_by(CHECK.c.check_number)
            .limit(limit)
        )
        with self._database.reading() as connection:
            return [check_of(row) for row in connection.execute(query)]

    def tally(self, checker_id: str) -> Tally:
        """Count what a checker watches, and all parked transactions."""
        mine = and_(
            LEASE.c.cluster_name == TRANSACTION.c.cluster_name,
            LEASE.c.broker_name == TRANSACTION.c.broker_name,
            LEASE.c.checker_id == checker_id,
            LEASE.c.expire_ms > self._database.now,
        )
        checked = (
            select(func.count(), func.min(TRANSACTION.c.store_ms))
            .select_from(TRANSACTION)
            .join(LEASE, mine)
            .where(TRANSACTION.c.state.in_((State.WAITING, State.ASKING)))
        )
        parked = (
            select(func.count()).select_from(TRANSACTION).where(TRANSACTION.c.state == State.PARKED)
        )
        with self._database.reading() as connection:
            count, oldest_ms = connection.execute(checked).one()
            return Tally(count, connection.execute(parked).scalar_one(), oldest_ms)

    def intend(self, key: TransactionKey, outcome: Outcome, cause: str) -> None:
        """Note an operator's decision before the broker gets it."""
        self._note_intention(key, outcome, cause)

    def forget_intention(self, key: TransactionKey) -> None:
        """Note that the operator's decision was not carried out."""
        self._note_intention(key, Outcome.UNSPECIFIED, "")

    def decide(self, key: TransactionKey, outcome: Outcome) -> bool:
        """Note the broker's outcome; return whether it is new."""
        with self._database.writing() as connection:
            return write_decision(connection, self._database, key, outcome, "")

    def resume(self, key: TransactionKey) -> bool:
        """Put a parked transaction under check again; return whether it was parked."""
        with self._database.writing() as connection:
            resumed = connection.execute(
                update(TRANSACTION)
                .where(of_transaction(TRANSACTION, key), TRANSACTION.c.state == State.PARKED)
                .values(
                    state=State.WAITING,
                    check_count=0,
                    next_check_ms=self._database.now,
                    end_ms=None,
                )
            ).rowcount
            return bool(resumed)

    def _note_intention(self, key: TransactionKey, outcome: Outcome, cause: str) -> None:
        with self._database.writing() as connection:
            open_row = and_(of_transaction(TRANSACTION, key), TRANSACTION.c.state != State.DECIDED)
            values = {"operator_outcome": outcome, "operator_cause": cause}
            connection.execute(update(TRANSACTION).where(open_row).values(values))

    def _page(
        self,
        query: Select[tuple[object, ...]],
        time_column: str,
        after: PagePosition | None,
        limit: int,
    ) -> Sequence[CheckedTransaction]:
        order = (
            TRANSACTION.c[time_column],
            TRANSACTION.c.cluster_name,
            TRANSACTION.c.broker_name,
            TRANSACTION.c.transaction_id,
        )
        if after is not None:
            time_ms, *names = after
            # PostgreSQL takes a bare number for 32 bits.
            last = (cast(time_ms, BigInteger), *map(literal, names))
            query = query.where(tuple_(*order) > tuple_(*last))
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(*order).limit(limit))
            return [transaction_of(row) for row in rows]


def _selected(selection: TransactionSelection) -> Select[tuple[object, ...]]:
    query = select(TRANSACTION)
    for column in ("producer_group", "topic", "broker_name"):
        wanted = getattr(selection, column)
        if wanted:
            query = query.where(TRANSACTION.c[column] == wanted)
    if selection.store_ms_end is not None:
        query = query.where(TRANSACTION.c.store_ms < selection.store_ms_end)
    return query
