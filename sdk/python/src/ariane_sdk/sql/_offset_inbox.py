"""The inbox of an ordered consumer: one row for each queue instead of one for each message.

An ordered consumer needs one number for each queue: the offset up to which messages had their
effect. It is stored beside the effect, in the same transaction, and never goes back. So messages
redelivered after a crash or a rebalance, or by a stale owner, are below that number.

A queue whose offsets begin anew (its topic was deleted and made again, or a broker that flushes
asynchronously lost its last seconds with the power) would seem to have had its effect: ``replay``
sets the true offset. ``Inbox`` knows messages by their ids, and is not affected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Protocol, TypeVar

from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from ariane_sdk.checks.inbox_keys import checked_consumer
from ariane_sdk.errors import IllegalArgument
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.runtime.clock import utc_now
from ariane_sdk.sql._plain_session import refuse_asynchronous
from ariane_sdk.sql._tables import INBOX_OFFSET


class Positioned(Protocol):
    """A message with its position."""

    @property
    def message_queue(self) -> MessageQueue:
        """Its queue."""

    @property
    def queue_offset(self) -> int:
        """Its offset in the queue."""


M = TypeVar("M", bound=Positioned)

_TABLE = INBOX_OFFSET
_PLACE = ("consumer", "topic", "broker_name", "queue_id")


class OffsetInbox:
    """Records, in the application's own transaction, up to where each queue had its effect.

    Example::

        inbox = OffsetInbox("ledger")

        def listen(messages):                 # of one queue, in order
            with sessions.begin() as session:
                for message in inbox.take(session, messages):
                    apply(session, message)
    """

    def __init__(self, consumer: str, *, now: Callable[[], datetime] | None = None) -> None:
        """Take the parts; the database is not used yet.

        Args:
            consumer: The name of the consumer; mostly its group.
            now: Returns the time in UTC; for tests.

        Raises:
            IllegalArgument: The name is empty or longer than 120 characters.
        """
        self._consumer = checked_consumer(consumer)
        self._now = now or utc_now

    def take(self, session: Session, messages: Sequence[M]) -> list[M]:
        """Take messages of one queue, and return the fresh ones: those behind all taken before.

        The queue's row is locked until the caller's transaction ends, so that of two owners at
        once the second sees the changes of the first.

        Args:
            session: The session in whose transaction the messages have their effect.
            messages: Messages of one queue, in its order.

        Returns:
            The fresh messages, in order.

        Raises:
            IllegalArgument: Messages of several queues or out of order; an unknown database; an
                asynchronous session.
        """
        refuse_asynchronous(session, "inbox.take_async(session, ...)")
        if not messages:
            return []
        queue = messages[0].message_queue
        offsets = [message.queue_offset for message in messages]
        if any(message.message_queue != queue for message in messages) or any(
            later <= earlier for earlier, later in pairwise(offsets)
        ):
            raise IllegalArgument("an offset inbox takes messages of one queue, in its order")
        self._ensure_row(session, queue)
        taken = session.scalars(
            select(_TABLE.c.next_queue_offset).where(*self._at(queue)).with_for_update()
        ).one()
        fresh = [message for message in messages if message.queue_offset >= taken]
        if fresh:
            self._move(session, queue, fresh[-1].queue_offset + 1)
        return fresh

    async def take_async(self, session: AsyncSession, messages: Sequence[M]) -> list[M]:
        """``take`` for an asynchronous session."""
        return await session.run_sync(self.take, messages)

    def next_offset(self, session: Session, queue: MessageQueue) -> int | None:
        """The first queue offset without effect; None for a new queue."""
        refuse_asynchronous(session, "session.run_sync(inbox.next_offset, queue)")
        return session.scalars(
            select(_TABLE.c.next_queue_offset).where(*self._at(queue))
        ).one_or_none()

    def replay(self, session: Session, queue: MessageQueue, queue_offset: int | None) -> None:
        """Let messages from this offset on be fresh again; None forgets the queue.

        The consumer's own offset is reset separately.
        """
        refuse_asynchronous(session, "session.run_sync(inbox.replay, queue, queue_offset)")
        if queue_offset is None:
            session.execute(delete(_TABLE).where(*self._at(queue)))
            return
        self._ensure_row(session, queue)
        self._move(session, queue, queue_offset)

    def _at(self, queue: MessageQueue) -> tuple[ColumnElement[bool], ...]:
        place = (self._consumer, *queue)
        return tuple(_TABLE.c[name] == value for name, value in zip(_PLACE, place, strict=True))

    def _move(self, session: Session, queue: MessageQueue, queue_offset: int) -> None:
        moved = {"next_queue_offset": queue_offset, "updated_at": self._now()}
        session.execute(_TABLE.update().where(*self._at(queue)).values(moved))

    def _ensure_row(self, session: Session, queue: MessageQueue) -> None:
        row = dict(zip(_PLACE, (self._consumer, *queue), strict=True))
        row |= {"next_queue_offset": 0, "updated_at": self._now()}
        dialect = session.get_bind().dialect.name
        if dialect == "postgresql":
            session.execute(postgresql.insert(_TABLE).values(row).on_conflict_do_nothing())
        elif dialect == "sqlite":
            # Also takes SQLite's only write lock, in place of the lock on the row.
            session.execute(sqlite.insert(_TABLE).values(row).on_conflict_do_nothing())
        else:
            raise IllegalArgument(f"the inbox knows PostgreSQL and SQLite, not {dialect}")
