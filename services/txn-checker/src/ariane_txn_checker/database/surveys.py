"""Surveys: the rows are made to agree with the lists of brokers, whose logs are the truth."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, and_, delete, insert, select, update

from ariane_servicekit.database import Database
from ariane_txn_checker.database.leases import fence
from ariane_txn_checker.database.rows import key_values, of_broker, of_transaction
from ariane_txn_checker.database.tables import CHECK, TRANSACTION
from ariane_txn_checker.transaction import HalfMessage, Lease, Outcome, State, TransactionKey

PURGE_COUNT: Final = 1000
"""Rows that one transaction removes: others can write in between."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A broker's list of half messages in a stretch of its half topic."""

    listed: Mapping[str, tuple[HalfMessage, int]]
    """Half messages by transaction id, each with the milliseconds until its first check."""

    offsets: range
    """Queue offsets of the half topic: the list is complete for these."""

    began_ms: int
    """When the broker was asked, by the database's clock: later changes are not in the list."""


class SurveyStore:
    """The part of the table ``checked_transaction`` that repeats the lists of brokers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def now_ms(self) -> int:
        """The database's clock."""
        with self._database.reading() as connection:
            return self._now_ms(connection)

    def take_in(self, lease: Lease, stretch: Stretch) -> int:
        """Make the rows agree with the broker's list.

        * A new half message gets a row.
        * A row that the broker no longer lists is due at once, so that its outcome is learned.
        * A row that was decided before the list began, and is listed, is under check again: the
            broker has lost the decision, and its log is the truth.

        Args:
            lease: The lease under which to write.
            stretch: The broker's list.

        Returns:
            How many rows are new.

        Raises:
            LeaseLost: Another checker has taken the broker over; nothing was written.
        """
        ids = list(stretch.listed)
        row_of_broker = of_broker(TRANSACTION, lease.broker)
        with self._database.writing() as connection:
            fence(connection, lease)
            now_ms = self._now_ms(connection)
            known = set()
            listed = row_of_broker & TRANSACTION.c.transaction_id.in_(ids)
            for row in connection.execute(select(TRANSACTION).where(listed)).all():
                known.add(row.transaction_id)
                half_message, wait_ms = stretch.listed[row.transaction_id]
                changes = _changes(row, half_message, now_ms + wait_ms, stretch.began_ms)
                if changes:
                    key = TransactionKey(lease.broker, row.transaction_id)
                    this = of_transaction(TRANSACTION, key)
                    connection.execute(update(TRANSACTION).where(this).values(changes))
            self._mark_unlisted(connection, lease, ids, stretch.offsets)
            fresh = [
                _fresh_row(TransactionKey(lease.broker, name), *stretch.listed[name], now_ms)
                for name in ids
                if name not in known
            ]
            if fresh:
                connection.execute(insert(TRANSACTION), fresh)
            return len(fresh)

    def purge(self, lease: Lease, *, keep_ms: int) -> int:
        """Delete old decided transactions with their checks; return how many.

        Raises:
            LeaseLost: Another checker has taken the broker over.
        """
        old = (
            select(TRANSACTION.c.transaction_id)
            .where(
                of_broker(TRANSACTION, lease.broker),
                TRANSACTION.c.state == State.DECIDED,
                TRANSACTION.c.end_ms < self._database.now - keep_ms,
            )
            .limit(PURGE_COUNT)
        )
        with self._database.writing() as connection:
            fence(connection, lease)
            ids = list(connection.scalars(old))
            for table in (CHECK, TRANSACTION):
                row_of_broker = of_broker(table, lease.broker)
                old_rows = row_of_broker & table.c.transaction_id.in_(ids)
                connection.execute(delete(table).where(old_rows))
            return len(ids)

    def _mark_unlisted(
        self, connection: Connection, lease: Lease, ids: Collection[str], offsets: range
    ) -> None:
        gone = and_(
            of_broker(TRANSACTION, lease.broker),
            TRANSACTION.c.half_queue_offset >= offsets.start,
            TRANSACTION.c.half_queue_offset < offsets.stop,
            TRANSACTION.c.state != State.DECIDED,
            TRANSACTION.c.unlisted.is_(False),
            TRANSACTION.c.transaction_id.not_in(ids),
        )
        changes = {"unlisted": True, "next_check_ms": self._database.now}
        connection.execute(update(TRANSACTION).where(gone).values(changes))

    def _now_ms(self, connection: Connection) -> int:
        now_ms: int = connection.execute(select(self._database.now)).scalar_one()
        return now_ms


def _changes(
    row: Row[Any], half_message: HalfMessage, next_check_ms: int, began_ms: int
) -> dict[str, Any]:
    """The columns of a row that differ from the broker's list."""
    changes: dict[str, Any] = {}
    if row.half_queue_offset != half_message.half_queue_offset:
        changes["half_queue_offset"] = half_message.half_queue_offset
    if row.state == State.DECIDED:
        if row.end_ms < began_ms:
            changes |= {
                "state": State.WAITING,
                "next_check_ms": next_check_ms,
                "outcome": Outcome.UNSPECIFIED,
                "decider": "",
                "cause": "",
                "end_ms": None,
            }
    elif row.unlisted:
        parked = row.state == State.PARKED
        changes |= {"unlisted": False, "next_check_ms": None if parked else next_check_ms}
    return changes


def _fresh_row(
    key: TransactionKey, half_message: HalfMessage, wait_ms: int, now_ms: int
) -> dict[str, Any]:
    parked = half_message.parked
    return {
        **key_values(key),
        "unique_id": half_message.unique_id,
        "topic": half_message.topic,
        "producer_group": half_message.producer_group,
        "message_keys": json.dumps(list(half_message.keys)),
        "half_queue_offset": half_message.half_queue_offset,
        "store_ms": half_message.store_ms,
        "first_seen_ms": now_ms,
        "next_check_ms": None if parked else now_ms + wait_ms,
        "check_count": 0,
        "check_number_last": 0,
        "state": State.PARKED if parked else State.WAITING,
        "unlisted": False,
        "outcome": Outcome.UNSPECIFIED,
        "decider": "",
        "cause": "",
        "operator_outcome": Outcome.UNSPECIFIED,
        "operator_cause": "",
        "end_ms": now_ms if parked else None,
    }
