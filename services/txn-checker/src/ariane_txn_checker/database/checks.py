"""Checks: which are due, and their results.

Every write is made under the lease's fencing token. A check is counted before the question is sent:
if the checker dies in between, the check is used up, so that no transaction is asked about more
often than allowed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal,
    select,
    update,
)

from ariane_servicekit.database import Database
from ariane_txn_checker.database.leases import fence
from ariane_txn_checker.database.rows import key_values, of_transaction, transaction_of
from ariane_txn_checker.database.tables import CHECK, NAME_LENGTH_MAX, TRANSACTION
from ariane_txn_checker.transaction import (
    FORGOTTEN_CAUSE,
    OPERATOR,
    Answer,
    CheckedTransaction,
    Lease,
    Outcome,
    State,
    TransactionKey,
)

_OPEN: Final = (State.WAITING, State.ASKING, State.PARKED)


def _due_query(now: ColumnElement[int]) -> Select[Any]:
    """What ``CheckStore.due`` asks, by the names of its parameters."""
    rank = (
        func.row_number()
        .over(
            partition_by=TRANSACTION.c.producer_group,
            order_by=(TRANSACTION.c.check_count, TRANSACTION.c.next_check_ms),
        )
        .label("rank")
    )
    waiting = and_(
        TRANSACTION.c.cluster_name == bindparam("cluster_name"),
        TRANSACTION.c.broker_name == bindparam("broker_name"),
        TRANSACTION.c.next_check_ms <= now,
        TRANSACTION.c.producer_group.not_in(bindparam("busy_groups", expanding=True)),
        TRANSACTION.c.transaction_id.not_in(bindparam("busy_ids", expanding=True)),
    )
    ranked = select(TRANSACTION, rank).where(waiting).subquery()
    return (
        select(ranked)
        .where(ranked.c.rank <= bindparam("group_limit"))
        .order_by(ranked.c.rank, ranked.c.check_count, ranked.c.next_check_ms)
        .limit(bindparam("limit"))
    )


class CheckStore:
    """The checks of transactions, and their results."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # To build these statements takes longer than to run them.
        self._due = _due_query(database.now)
        self._soonest = select(func.min(TRANSACTION.c.next_check_ms) - database.now).where(
            TRANSACTION.c.cluster_name == bindparam("cluster_name"),
            TRANSACTION.c.broker_name == bindparam("broker_name"),
        )

    def due(
        self,
        lease: Lease,
        *,
        limit: int,
        group_limit: int,
        busy_groups: Collection[str],
        busy_ids: Collection[str],
    ) -> Sequence[CheckedTransaction]:
        """Transactions that need attention now.

        Transactions with the fewest checks come first, and each producer group has a limit, so that
        a group that never answers does not block the others.

        Args:
            lease: The lease of the broker; nothing is written.
            limit: How many at most.
            group_limit: How many at most of one producer group.
            busy_groups: Groups that have reached their limit already.
            busy_ids: Transactions that are attended to already.
        """
        given = {
            "cluster_name": lease.broker.cluster_name,
            "broker_name": lease.broker.broker_name,
            "busy_groups": list(busy_groups),
            "busy_ids": list(busy_ids),
            "group_limit": group_limit,
            "limit": limit,
        }
        with self._database.reading() as connection:
            return [transaction_of(row) for row in connection.execute(self._due, given)]

    def next_due_in_ms(self, lease: Lease) -> int | None:
        """In how many milliseconds the next transaction is due, 0 for now. None: none waits."""
        given = {
            "cluster_name": lease.broker.cluster_name,
            "broker_name": lease.broker.broker_name,
        }
        with self._database.reading() as connection:
            wait_ms: int | None = connection.scalar(self._soonest, given)
        return None if wait_ms is None else max(0, wait_ms)

    def begin_check(self, lease: Lease, key: TransactionKey, *, interval_ms: int) -> int | None:
        """Count a check that is about to be sent; the next one is due after the interval.

        Returns:
            The check's number. None: no further check is allowed.

        Raises:
            LeaseLost: Another checker has taken the broker over.
        """
        now = self._database.now
        with self._database.writing() as connection:
            fence(connection, lease)
            begun = connection.execute(
                update(TRANSACTION)
                .where(
                    of_transaction(TRANSACTION, key),
                    TRANSACTION.c.state.in_((State.WAITING, State.ASKING)),
                    TRANSACTION.c.next_check_ms <= now,
                )
                .values(
                    state=State.ASKING,
                    check_count=TRANSACTION.c.check_count + 1,
                    check_number_last=TRANSACTION.c.check_number_last + 1,
                    next_check_ms=now + interval_ms,
                )
            ).rowcount
            if not begun:
                return None
            number: int = connection.execute(
                select(TRANSACTION.c.check_number_last).where(of_transaction(TRANSACTION, key))
            ).scalar_one()
            connection.execute(
                insert(CHECK).values(
                    **key_values(key),
                    check_number=number,
                    ask_ms=now,
                    answer=Outcome.UNSPECIFIED,
                    client_id="",
                    checker_id=lease.checker_id,
                    failure_reason="",
                )
            )
            return number

    def end_check(
        self, lease: Lease, key: TransactionKey, check_number: int, answer: Answer | str
    ) -> None:
        """Note the result of a check that did not end the transaction, or is about to.

        Args:
            lease: The lease under which to write.
            key: The transaction.
            check_number: The number that ``begin_check`` gave.
            answer: The producer's answer, or why there is none.

        Raises:
            LeaseLost: Another checker has taken the broker over.
        """
        values: dict[str, Any]
        if isinstance(answer, Answer):
            values = {
                "answer": answer.outcome,
                "client_id": answer.client_id,
                "answer_ms": self._database.now,
                "failure_reason": answer.cause[:NAME_LENGTH_MAX],
            }
        else:
            values = {"failure_reason": answer}
        with self._database.writing() as connection:
            fence(connection, lease)
            this = and_(of_transaction(CHECK, key), CHECK.c.check_number == check_number)
            connection.execute(update(CHECK).where(this).values(values))
            connection.execute(
                update(TRANSACTION)
                .where(of_transaction(TRANSACTION, key), TRANSACTION.c.state == State.ASKING)
                .values(state=State.WAITING)
            )

    def undo_check(
        self, lease: Lease, key: TransactionKey, check_number: int, *, wait_ms: int
    ) -> None:
        """Undo a check that surely reached no producer; the next one is due after a while.

        Raises:
            LeaseLost: Another checker has taken the broker over.
        """
        with self._database.writing() as connection:
            fence(connection, lease)
            this = and_(of_transaction(CHECK, key), CHECK.c.check_number == check_number)
            if connection.execute(delete(CHECK).where(this)).rowcount:
                connection.execute(
                    update(TRANSACTION)
                    .where(of_transaction(TRANSACTION, key), TRANSACTION.c.state == State.ASKING)
                    .values(
                        state=State.WAITING,
                        check_count=TRANSACTION.c.check_count - 1,
                        next_check_ms=self._database.now + wait_ms,
                    )
                )

    def postpone(self, lease: Lease, key: TransactionKey, *, wait_ms: int) -> None:
        """Put off a transaction for which the broker could do nothing now.

        Raises:
            LeaseLost: Another checker has taken the broker over.
        """
        with self._database.writing() as connection:
            fence(connection, lease)
            due = and_(of_transaction(TRANSACTION, key), TRANSACTION.c.next_check_ms.is_not(None))
            connection.execute(
                update(TRANSACTION).where(due).values(next_check_ms=self._database.now + wait_ms)
            )

    def note_listed(self, lease: Lease, key: TransactionKey, *, interval_ms: int) -> None:
        """Note that a transaction is pending although the broker did not list it.

        Raises:
            LeaseLost: Another checker has taken the broker over.
        """
        with self._database.writing() as connection:
            fence(connection, lease)
            connection.execute(
                update(TRANSACTION)
                .where(of_transaction(TRANSACTION, key), TRANSACTION.c.state.in_(_OPEN))
                .values(
                    unlisted=False,
                    next_check_ms=case(
                        (TRANSACTION.c.state == State.PARKED, None),
                        else_=self._database.now + interval_ms,
                    ),
                )
            )

    def park(self, lease: Lease, key: TransactionKey) -> bool:
        """Park a transaction for an operator; return whether it was under check.

        Raises:
            LeaseLost: Another checker has taken the broker over.
        """
        with self._database.writing() as connection:
            fence(connection, lease)
            checked = TRANSACTION.c.state.in_((State.WAITING, State.ASKING))
            parked = connection.execute(
                update(TRANSACTION)
                .where(of_transaction(TRANSACTION, key), checked)
                .values(state=State.PARKED, next_check_ms=None, end_ms=self._database.now)
            ).rowcount
            return bool(parked)

    def decide(
        self, lease: Lease, key: TransactionKey, outcome: Outcome, decider: str = ""
    ) -> bool:
        """Note the outcome of a transaction; return whether it is new.

        If an operator was about to decide the same, the decision is the operator's.

        Args:
            lease: The lease under which to write.
            key: The transaction.
            outcome: The broker's outcome. Unspecified: it can no longer be learned.
            decider: The producer that decided, if known; otherwise empty.

        Raises:
            LeaseLost: Another checker has taken the broker over.
        """
        with self._database.writing() as connection:
            fence(connection, lease)
            return write_decision(connection, self._database, key, outcome, decider)


def write_decision(
    connection: Connection,
    database: Database,
    key: TransactionKey,
    outcome: Outcome,
    decider: str,
) -> bool:
    """Note the outcome of a transaction, unless it is known; return whether it is new."""
    by_operator: ColumnElement[bool] = and_(
        TRANSACTION.c.operator_outcome == outcome, TRANSACTION.c.operator_outcome != 0
    )
    cause = "" if outcome.decides else FORGOTTEN_CAUSE
    return bool(
        connection.execute(
            update(TRANSACTION)
            .where(of_transaction(TRANSACTION, key), TRANSACTION.c.state != State.DECIDED)
            .values(
                state=State.DECIDED,
                outcome=outcome,
                unlisted=False,
                next_check_ms=None,
                end_ms=database.now,
                decider=case((by_operator, literal(OPERATOR)), else_=literal(decider)),
                cause=case((by_operator, TRANSACTION.c.operator_cause), else_=literal(cause)),
            )
        ).rowcount
    )
