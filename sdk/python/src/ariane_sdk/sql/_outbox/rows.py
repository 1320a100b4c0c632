"""The database work of relays: leases on partitions, and batches that are recorded before sending.

Only the holder of a partition's lease chooses its next batch: each of its transactions first renews
the lease, and fails if the lease is lost. A relay that was frozen can only send a recorded batch
once more, and brokers know its numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Row, Table, select, text, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from ariane_sdk.errors import IllegalArgument
from ariane_sdk.message import Message
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.sql._outbox.parked import Refusal, is_parked
from ariane_sdk.sql._outbox.tables import OUTBOX, OUTBOX_PARKED, OUTBOX_PARTITION, OUTBOX_STREAM

_LEASE = OUTBOX_PARTITION.c
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_STREAM_KEY = ("outbox", "partition", "topic", "broker_name", "queue_id")


class LeaseLost(Exception):
    """Another relay has the partition."""


class Lease(NamedTuple):
    """The right to send from a partition."""

    partition: int
    """The partition."""
    owner: str
    """The relay."""
    lease_epoch: int
    """Grows with each change of hands."""
    producer_id: int
    """Producer id of the partition; it never changes."""


class WaitingRow(NamedTuple):
    """A message that waits, without its body."""

    row_id: int
    """Its row."""
    topic: str
    """Its topic."""
    message_group: str
    """Its message group; may be empty."""
    record_bytes: int
    """Bytes of its record."""


class StreamPlace(NamedTuple):
    """The state of a partition's stream to a queue."""

    epoch: int
    """Epoch of its sequence numbers."""
    next_sequence: int
    """The number of the first message of ``pending_rows``, or of the next batch."""
    pending_rows: tuple[int, ...] = ()
    """Rows of the batch that may be on its way, in order."""


class OutboxRow(NamedTuple):
    """A message of the outbox, as it is sent every time."""

    message: Message
    """The message."""
    unique_id: str
    """Its id."""
    born_timestamp_ms: int
    """When it was written."""


class OutboxRows:
    """The rows of one outbox, for relays. Each method is a part of one transaction."""

    def __init__(self, outbox: str, *, lease_s: float, now: Callable[[], datetime]) -> None:
        """A lease lasts ``lease_s`` without renewal; ``now`` returns the time in UTC."""
        self._outbox = outbox
        self._lease = timedelta(seconds=lease_s)
        self._now = now

    def make_partitions(self, session: Session, producer_ids: Sequence[int]) -> None:
        """Insert missing rows of partitions, free to be leased.

        Args:
            session: A session.
            producer_ids: For each partition the producer id to use if it is new.
        """
        rows = [
            {
                "outbox": self._outbox,
                "partition": partition,
                "producer_id": producer_id,
                "owner": "",
                "lease_epoch": 0,
                "lease_until": self._now() - self._lease,
            }
            for partition, producer_id in enumerate(producer_ids)
        ]
        insert = _insert(session, OUTBOX_PARTITION).values(rows)
        session.execute(insert.on_conflict_do_nothing())

    def claim(self, session: Session, owner: str) -> Lease | None:
        """Lease a partition without an owner; None if there is none."""
        self._end_if_frozen(session)
        now = self._now()
        free = session.execute(
            select(_LEASE.partition, _LEASE.lease_epoch, _LEASE.producer_id)
            .where(_LEASE.outbox == self._outbox, _LEASE.lease_until <= now)
            .order_by(_LEASE.lease_until)
            .limit(1)
            .with_for_update(skip_locked=True)
        ).one_or_none()
        if free is None:
            return None
        lease = Lease(free.partition, owner, free.lease_epoch + 1, free.producer_id)
        # SQLite locks no rows: there the epoch shows whether another relay was faster.
        taken = session.scalars(
            update(OUTBOX_PARTITION)
            .where(
                _LEASE.outbox == self._outbox,
                _LEASE.partition == lease.partition,
                _LEASE.lease_epoch == free.lease_epoch,
            )
            .values(owner=owner, lease_epoch=lease.lease_epoch, lease_until=now + self._lease)
            .returning(_LEASE.partition)
        ).all()
        return lease if taken else None

    def hold(self, session: Session, lease: Lease) -> None:
        """Renew the lease, and keep others from taking it until the transaction ends.

        Raises:
            LeaseLost: Another relay has it.
        """
        self._end_if_frozen(session)
        self._move_lease(session, lease, self._now() + self._lease)

    def release(self, session: Session, lease: Lease) -> None:
        """Give the lease up, so that any relay can take it.

        Raises:
            LeaseLost: Another relay has it.
        """
        self._move_lease(session, lease, self._now())

    def streams(self, session: Session, lease: Lease) -> dict[MessageQueue, StreamPlace]:
        """The partition's streams, by queue."""
        found = session.execute(select(OUTBOX_STREAM).where(*self._of(OUTBOX_STREAM, lease)))
        return {
            MessageQueue(row.topic, row.broker_name, row.queue_id): StreamPlace(
                row.epoch, row.next_sequence, tuple(row.pending_rows)
            )
            for row in found
        }

    def waiting(
        self,
        session: Session,
        lease: Lease,
        *,
        without: Collection[int],
        without_topics: Collection[str] = (),
        after_row_id: int = 0,
        count_max: int,
    ) -> list[WaitingRow]:
        """The messages that have waited longest, in order, without parked ones.

        Args:
            session: A session.
            lease: The partition's lease.
            without: Rows that are on their way.
            without_topics: Topics to leave out now.
            after_row_id: Only rows behind this one.
            count_max: The most rows to return.
        """
        rows = OUTBOX.c
        found = session.execute(
            select(rows.row_id, rows.topic, rows.message_group, rows.record_bytes)
            .where(
                *self._of(OUTBOX, lease),
                rows.sent_at.is_(None),
                rows.row_id > after_row_id,
                rows.row_id.not_in(without),
                rows.topic.not_in(without_topics),
                ~is_parked(self._outbox),
            )
            .order_by(rows.row_id)
            .limit(count_max)
        )
        return [WaitingRow(*row) for row in found]

    def write_streams(
        self, session: Session, lease: Lease, streams: Iterable[tuple[MessageQueue, StreamPlace]]
    ) -> None:
        """Store the state of some streams, with their next batches.

        Raises:
            LeaseLost: Another relay has the partition; nothing was written.
        """
        self.hold(session, lease)
        rows = [
            {
                "outbox": self._outbox,
                "partition": lease.partition,
                **queue._asdict(),
                "epoch": place.epoch,
                "next_sequence": place.next_sequence,
                "pending_rows": list(place.pending_rows),
            }
            for queue, place in streams
        ]
        if rows:
            insert = _insert(session, OUTBOX_STREAM).values(rows)
            changed = {
                name: insert.excluded[name] for name in ("epoch", "next_sequence", "pending_rows")
            }
            session.execute(
                insert.on_conflict_do_update(index_elements=list(_STREAM_KEY), set_=changed)
            )

    def load(self, session: Session, row_ids: Sequence[int]) -> list[OutboxRow]:
        """Messages with their bodies, in the order of their rows."""
        found = session.execute(
            select(OUTBOX).where(OUTBOX.c.row_id.in_(row_ids)).order_by(OUTBOX.c.row_id)
        )
        return [_outbox_row(row) for row in found]

    def mark_sent(self, session: Session, row_ids: Sequence[int]) -> None:
        """Mark rows as sent: a broker has stored them."""
        session.execute(
            update(OUTBOX).where(OUTBOX.c.row_id.in_(row_ids)).values(sent_at=self._now())
        )

    def park(self, session: Session, refusals: Sequence[Refusal]) -> None:
        """Park messages, until they are requeued."""
        insert = _insert(session, OUTBOX_PARKED).values(
            [
                {"outbox": self._outbox, "parked_at": self._now(), **refusal._asdict()}
                for refusal in refusals
            ]
        )
        session.execute(insert.on_conflict_do_nothing())

    def _end_if_frozen(self, session: Session) -> None:
        """Let PostgreSQL end the transaction and row locks of a relay that is frozen."""
        if session.get_bind().dialect.name == "postgresql":
            limit_ms = self._lease // _MILLISECOND
            session.execute(text(f"SET LOCAL idle_in_transaction_session_timeout = {limit_ms}"))

    def _move_lease(self, session: Session, lease: Lease, until: datetime) -> None:
        held = session.scalars(
            update(OUTBOX_PARTITION)
            .where(
                *self._of(OUTBOX_PARTITION, lease),
                _LEASE.owner == lease.owner,
                _LEASE.lease_epoch == lease.lease_epoch,
            )
            .values(lease_until=until)
            .returning(_LEASE.partition)
        ).all()
        if not held:
            raise LeaseLost(f"partition {lease.partition} of outbox {self._outbox!r}")

    def _of(self, table: Table, lease: Lease) -> tuple[ColumnElement[bool], ...]:
        return table.c.outbox == self._outbox, table.c.partition == lease.partition


def _outbox_row(row: Row[Any]) -> OutboxRow:
    message = Message(
        row.topic,
        row.body,
        tag=row.tag,
        keys=tuple(row.message_keys),
        message_group=row.message_group,
        properties=row.properties,
        flag=row.flag,
    )
    written_at: datetime = row.written_at
    if written_at.tzinfo is None:  # SQLite keeps no time zone; it is UTC.
        written_at = written_at.replace(tzinfo=UTC)
    return OutboxRow(message, row.unique_id, (written_at - _EPOCH) // _MILLISECOND)


def _insert(session: Session, table: Table) -> postgresql.Insert | sqlite.Insert:
    dialect = session.get_bind().dialect.name
    if dialect == "postgresql":
        return postgresql.insert(table)
    if dialect == "sqlite":
        return sqlite.insert(table)
    raise IllegalArgument(f"the outbox knows PostgreSQL and SQLite, not {dialect}")
