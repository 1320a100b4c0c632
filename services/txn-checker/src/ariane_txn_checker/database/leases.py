"""Leases: which checker watches which broker.

A lease is a row. Taking an expired one raises its fencing token. Every write for a broker is made
under the token that its writer holds, in a transaction that has read the token and locked the row.
So a checker that slept through its lease may still write as long as no other has taken the lease,
and never after.
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
"""``expire_ms`` of a lease that its holder released: it is expired, and is not renewed."""


class LeaseStore:
    """The tables ``checker`` and ``checker_lease``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def beat(self, checker_id: str, span_ms: int) -> Sequence[str]:
        """Note that a checker is alive for this long; return the ids of all living ones, sorted."""
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
        """Note that a checker has ended, and expire all its leases now."""
        with self._database.writing() as connection:
            connection.execute(delete(CHECKER).where(CHECKER.c.checker_id == checker_id))
            connection.execute(
                update(LEASE).where(LEASE.c.checker_id == checker_id).values(expire_ms=LET_GO)
            )

    def renew(self, checker_id: str, span_ms: int) -> Sequence[Lease]:
        """Renew all leases of a checker, including expired ones that no other has taken."""
        with self._database.writing() as connection:
            mine = LEASE.c.checker_id == checker_id
            held = and_(mine, LEASE.c.expire_ms != LET_GO)
            connection.execute(
                update(LEASE).where(held).values(expire_ms=self._database.now + span_ms)
            )
            return [_lease(row) for row in connection.execute(select(LEASE).where(held))]

    def free(self, brokers: Sequence[BrokerKey]) -> Sequence[BrokerKey]:
        """Return those of these brokers that no checker watches now."""
        with self._database.reading() as connection:
            running = select(LEASE.c.cluster_name, LEASE.c.broker_name).where(
                LEASE.c.expire_ms > self._database.now
            )
            taken = {BrokerKey(*row) for row in connection.execute(running)}
        return [broker for broker in brokers if broker not in taken]

    def take(self, broker: BrokerKey, checker_id: str, span_ms: int) -> Lease | None:
        """Take an expired lease with the next token; None if another checker was faster."""
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
                        # The last holder's progress may be ahead of its last write.
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
        """Expire a lease now. Does nothing if another checker holds it."""
        with self._database.writing() as connection:
            connection.execute(
                update(LEASE)
                .where(_of(lease.broker), LEASE.c.fencing_token == lease.fencing_token)
                .values(expire_ms=LET_GO)
            )

    def note_progress(self, lease: Lease, *, half_queue_offset: int, op_queue_offset: int) -> None:
        """Note how far a broker's topics have been read.

        Raises:
            LeaseLost: Another checker has taken the broker over.
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
            after: End of the page before. None: from the beginning.
            limit: How many at most.
        """
        query = select(LEASE).order_by(LEASE.c.cluster_name, LEASE.c.broker_name).limit(limit)
        if after is not None:
            name = LEASE.c.cluster_name
            same = and_(name == after.cluster_name, LEASE.c.broker_name > after.broker_name)
            query = query.where(or_(name > after.cluster_name, same))
        with self._database.reading() as connection:
            return [_lease(row) for row in connection.execute(query)]


def fence(connection: Connection, lease: Lease) -> None:
    """Hold a lease until the end of the transaction: no other checker can take it before.

    Raises:
        LeaseLost: Another checker has taken it.
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
