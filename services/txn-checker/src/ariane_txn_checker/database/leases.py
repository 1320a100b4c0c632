"""Leases: which checker looks after which broker.

A lease is a row. Taking one that ran out raises its fencing token; every write for a broker is made
under the token that its writer holds, in the transaction that read it and locked the row. A checker
that slept through its lease may therefore still write as long as nobody took over, and never after.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, and_, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from ariane_servicekit.database import Database
from ariane_txn_checker.database.tables import CHECKER, LEASE
from ariane_txn_checker.errors import LeaseLost
from ariane_txn_checker.transaction import BrokerKey, Lease

LET_GO: Final = 0
"""``expire_ms`` of a lease that its holder gave back: it ran out long ago, and is not renewed."""


class LeaseStore:
    """The tables ``checker`` and ``checker_lease``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def beat(self, checker_id: str, span_ms: int) -> Sequence[str]:
        """Say that a checker lives for so long; return the ids of all that live, sorted."""
        now = self._database.now
        with self._database.writing() as connection:
            values = {"expire_ms": now + span_ms}
            mine = CHECKER.c.checker_id == checker_id
            if not connection.execute(update(CHECKER).where(mine).values(values)).rowcount:
                connection.execute(insert(CHECKER).values(checker_id=checker_id, **values))
            dead = and_(CHECKER.c.expire_ms <= now, CHECKER.c.checker_id != checker_id)
            connection.execute(delete(CHECKER).where(dead))
            living = select(CHECKER.c.checker_id).order_by(CHECKER.c.checker_id)
            return list(connection.scalars(living))

    def leave(self, checker_id: str) -> None:
        """Say that a checker lives no more, and let all its leases run out now."""
        with self._database.writing() as connection:
            connection.execute(delete(CHECKER).where(CHECKER.c.checker_id == checker_id))
            connection.execute(
                update(LEASE).where(LEASE.c.checker_id == checker_id).values(expire_ms=LET_GO)
            )

    def renew(self, checker_id: str, span_ms: int) -> Sequence[Lease]:
        """Prolong all leases that a checker holds, also those that ran out and nobody took."""
        with self._database.writing() as connection:
            mine = LEASE.c.checker_id == checker_id
            held = and_(mine, LEASE.c.expire_ms != LET_GO)
            connection.execute(
                update(LEASE).where(held).values(expire_ms=self._database.now + span_ms)
            )
            return [_lease(row) for row in connection.execute(select(LEASE).where(held))]

    def free(self, brokers: Sequence[BrokerKey]) -> Sequence[BrokerKey]:
        """Of these brokers, those that nobody looks after now."""
        with self._database.reading() as connection:
            running = select(LEASE.c.cluster_name, LEASE.c.broker_name).where(
                LEASE.c.expire_ms > self._database.now
            )
            taken = {BrokerKey(*row) for row in connection.execute(running)}
        return [broker for broker in brokers if broker not in taken]

    def take(self, broker: BrokerKey, checker_id: str, span_ms: int) -> Lease | None:
        """Take a lease that nobody holds, with the next token; None: another was faster."""
        now = self._database.now
        try:
            with self._database.writing() as connection:
                taken = connection.execute(
                    update(LEASE)
                    .where(_of(broker), LEASE.c.expire_ms <= now)
                    .values(
                        checker_id=checker_id,
                        fencing_token=LEASE.c.fencing_token + 1,
                        expire_ms=now + span_ms,
                        # What the last holder had taken in may be nothing of what it wrote.
                        half_queue_offset=0,
                        op_queue_offset=0,
                    )
                ).rowcount
                if not taken:
                    if connection.execute(select(LEASE).where(_of(broker))).first() is not None:
                        return None
                    connection.execute(
                        insert(LEASE).values(
                            cluster_name=broker.cluster_name,
                            broker_name=broker.broker_name,
                            checker_id=checker_id,
                            fencing_token=1,
                            expire_ms=now + span_ms,
                            half_queue_offset=0,
                            op_queue_offset=0,
                        )
                    )
                return _lease(connection.execute(select(LEASE).where(_of(broker))).one())
        except IntegrityError:
            return None

    def release(self, lease: Lease) -> None:
        """Let a lease run out now. Harmless when it is another's."""
        with self._database.writing() as connection:
            connection.execute(
                update(LEASE)
                .where(_of(lease.broker), LEASE.c.fencing_token == lease.fencing_token)
                .values(expire_ms=LET_GO)
            )

    def note_progress(self, lease: Lease, *, half_queue_offset: int, op_queue_offset: int) -> None:
        """Note how much of a broker's topics was taken in.

        Raises:
            LeaseLost: Another checker looks after the broker now.
        """
        with self._database.writing() as connection:
            fence(connection, lease)
            connection.execute(
                update(LEASE)
                .where(_of(lease.broker))
                .values(half_queue_offset=half_queue_offset, op_queue_offset=op_queue_offset)
            )

    def all(self, *, after: BrokerKey | None, limit: int) -> Sequence[Lease]:
        """Leases by cluster and broker.

        Args:
            after: Where the page before ended. None: from the beginning.
            limit: At most so many.
        """
        query = select(LEASE).order_by(LEASE.c.cluster_name, LEASE.c.broker_name).limit(limit)
        if after is not None:
            name = LEASE.c.cluster_name
            same = and_(name == after.cluster_name, LEASE.c.broker_name > after.broker_name)
            query = query.where(or_(name > after.cluster_name, same))
        with self._database.reading() as connection:
            return [_lease(row) for row in connection.execute(query)]


def fence(connection: Connection, lease: Lease) -> None:
    """Hold a lease for the length of a transaction: nobody takes over before its end.

    Raises:
        LeaseLost: Somebody has.
    """
    query = select(LEASE.c.fencing_token).where(_of(lease.broker)).with_for_update(read=True)
    if connection.scalar(query) != lease.fencing_token:
        raise LeaseLost(lease.broker, lease.fencing_token)


def _of(broker: BrokerKey) -> Any:
    return and_(
        LEASE.c.cluster_name == broker.cluster_name, LEASE.c.broker_name == broker.broker_name
    )


def _lease(row: Row[Any]) -> Lease:
    return Lease(
        BrokerKey(row.cluster_name, row.broker_name),
        row.checker_id,
        row.fencing_token,
        row.expire_ms,
        row.half_queue_offset,
        row.op_queue_offset,
    )
