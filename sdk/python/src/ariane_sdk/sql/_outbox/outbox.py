"""The outbox: messages are rows of the business transaction, and are sent after its commit.

::

    begin                                             the application's own transaction
      the application's changes
      insert into ariane_outbox ...                   Outbox.add
    commit                                            both or neither

    relay:  waiting rows -> broker -> sent_at         OutboxRelay, in this process or another

The application can go on without a broker; messages are sent as soon as one is reachable. The
pattern is Richardson's transactional outbox with a polling publisher.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from random import Random
from typing import Final, NamedTuple, Self
from zlib import crc32

from sqlalchemy import delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from ariane_record.errors import RecordError
from ariane_sdk.checks.delay import is_delayed
from ariane_sdk.checks.limits import (
    BODY_BYTES_MAX,
    check_body_size,
    checked_tag,
    checked_topic,
    refusal_of,
)
from ariane_sdk.checks.message_types import check_types
from ariane_sdk.checks.property_names import check_property_names
from ariane_sdk.errors import IllegalArgument, MessageIllegal
from ariane_sdk.message import Message
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.runtime.clock import fork_proof_random, utc_now
from ariane_sdk.sql._outbox.parked import (
    ParkedMessage,
    count_parked,
    is_parked,
    list_parked,
    requeue,
)
from ariane_sdk.sql._outbox.sends import add_message, outbox_row
from ariane_sdk.sql._outbox.tables import OUTBOX, OUTBOX_LENGTH_MAX, OUTBOX_PARTITION
from ariane_sdk.sql._plain_session import refuse_asynchronous

PARTITIONS: Final = 8
PARTITIONS_MAX: Final = 256


class OutboxLag(NamedTuple):
    """The backlog of the relays."""

    waiting_count: int
    """Messages that were written and not sent, without parked ones."""
    oldest_s: float
    """Age of the oldest of them, in seconds; 0 without any."""


class Outbox:
    """Writes messages into the application's own transaction.

    Example::

        outbox = Outbox("orders")

        with sessions.begin() as session:
            session.add(order)
            outbox.add(session, Message("orders", b"...", message_group=f"customer-{customer}"))

    Messages of one message group are sent in the order in which their transactions wrote them;
    concurrent transactions that write to one group have no order.
    """

    def __init__(
        self,
        name: str,
        *,
        partitions: int = PARTITIONS,
        body_bytes_max: int = BODY_BYTES_MAX,
        now: Callable[[], datetime] | None = None,
        random: Random | None = None,
    ) -> None:
        """Take the parts; the database is not used yet.

        Args:
            name: Distinguishes outboxes in one database.
            partitions: Shares of the outbox, each sent by one relay at a time. Let it become empty
                before the number is changed: groups move to other shares.
            body_bytes_max: The largest body that brokers accept.
            now: Returns the time in UTC; for tests.
            random: Draws unique ids; for tests. By default the system's source, which no fork
                repeats.

        Raises:
            IllegalArgument: The name is empty or longer than 120 characters, or the number is not
                1 to 256.
        """
        if not 0 < len(name) <= OUTBOX_LENGTH_MAX:
            raise IllegalArgument(
                f"an outbox needs a name of 1 to {OUTBOX_LENGTH_MAX} characters, not {name!r}"
            )
        if not 1 <= partitions <= PARTITIONS_MAX:
            raise IllegalArgument(f"1 to {PARTITIONS_MAX} partitions, not {partitions}")
        self.name = name
        self.partitions = partitions
        self.body_bytes_max = body_bytes_max
        self._now = now or utc_now
        self._random = random or fork_proof_random()

    @classmethod
    def as_kept(cls, session: Session, name: str) -> Self:
        """An outbox with the partitions of the database, for readers such as relays and operators.

        Args:
            session: A session.
            name: Its name.
        """
        refuse_asynchronous(session, "session.run_sync(Outbox.as_kept, name)")
        highest = [
            session.scalar(select(func.max(table.c.partition)).where(table.c.outbox == name))
            for table in (OUTBOX, OUTBOX_PARTITION)
        ]
        return cls(name, partitions=max(PARTITIONS, *(1 + (each or 0) for each in highest)))

    def add(self, session: Session, *messages: Message) -> list[str]:
        """Let messages be sent if, and only if, this session's transaction commits.

        Args:
            session: The session in whose transaction the application's changes are.
            messages: The messages in their order of sending. Delayed ones are refused.

        Returns:
            Their unique ids: consumers see them, and an inbox uses them as keys.

        Raises:
            MessageIllegal: A message breaks a rule; nothing was written.
            IllegalArgument: The session is asynchronous; nothing was written.
        """
        refuse_asynchronous(session, "outbox.add_async(session, ...)")
        rows = [self._row(message) for message in messages]
        if rows:
            session.execute(insert(OUTBOX), rows)
        return [str(row["unique_id"]) for row in rows]

    async def add_async(self, session: AsyncSession, *messages: Message) -> list[str]:
        """``add`` for an asynchronous session."""
        return await session.run_sync(lambda plain: self.add(plain, *messages))

    def lag(self, session: Session) -> OutboxLag:
        """The backlog of the relays; for a gauge, or a check of health."""
        refuse_asynchronous(session, "outbox.lag_async(session)")
        count, oldest = session.execute(
            select(func.count(), func.min(OUTBOX.c.written_at)).where(
                OUTBOX.c.outbox == self.name, OUTBOX.c.sent_at.is_(None), ~is_parked(self.name)
            )
        ).one()
        if oldest is None:
            return OutboxLag(0, 0.0)
        now = self._now()
        if oldest.tzinfo is None:
            oldest = oldest.replace(tzinfo=now.tzinfo)
        return OutboxLag(count, max(0.0, (now - oldest).total_seconds()))

    async def lag_async(self, session: AsyncSession) -> OutboxLag:
        """``lag`` for an asynchronous session."""
        return await session.run_sync(self.lag)

    def parked_count(self, session: Session) -> int:
        """The number of parked messages; for a gauge, or a check of health."""
        refuse_asynchronous(session, "session.run_sync(outbox.parked_count)")
        return count_parked(session, self.name)

    def parked(
        self, session: Session, *, topic: str = "", after_row_id: int = 0, count_max: int = 100
    ) -> list[ParkedMessage]:
        """Messages that brokers refused, in the order in which they were written.

        Args:
            session: A session.
            topic: Only of this topic.
            after_row_id: Last row id of the page before.
            count_max: The most messages to return.
        """
        refuse_asynchronous(session, "outbox.parked_async(session)")
        return list_parked(
            session, self.name, topic=topic, after_row_id=after_row_id, count_max=count_max
        )

    async def parked_async(
        self, session: AsyncSession, *, topic: str = "", after_row_id: int = 0, count_max: int = 100
    ) -> list[ParkedMessage]:
        """``parked`` for an asynchronous session."""
        return await session.run_sync(
            lambda plain: self.parked(
                plain, topic=topic, after_row_id=after_row_id, count_max=count_max
            )
        )

    def requeue(
        self, session: Session, *, row_ids: Collection[int] | None = None, topic: str = ""
    ) -> int:
        """Let parked messages be sent again, with a new count, after the cause was fixed.

        Args:
            session: A session; the caller commits.
            row_ids: Only these.
            topic: Only of this topic.

        Returns:
            The number of messages.
        """
        refuse_asynchronous(session, "outbox.requeue_async(session, ...)")
        return requeue(session, self.name, row_ids=row_ids, topic=topic)

    async def requeue_async(
        self, session: AsyncSession, *, row_ids: Collection[int] | None = None, topic: str = ""
    ) -> int:
        """``requeue`` for an asynchronous session."""
        return await session.run_sync(
            lambda plain: self.requeue(plain, row_ids=row_ids, topic=topic)
        )

    def purge(self, session: Session, *, before: datetime, count_max: int = 10_000) -> int:
        """Delete messages that were sent long ago; waiting messages stay.

        Args:
            session: A session; the caller commits.
            before: Messages sent before this time are deleted.
            count_max: The most messages of one transaction; call again while it returns as many.

        Returns:
            The number of deleted messages.
        """
        refuse_asynchronous(session, "outbox.purge_async(session, ...)")
        old = (
            select(OUTBOX.c.row_id)
            .where(OUTBOX.c.outbox == self.name, OUTBOX.c.sent_at < before)
            .order_by(OUTBOX.c.sent_at)
            .limit(count_max)
        )
        gone = delete(OUTBOX).where(OUTBOX.c.row_id.in_(old)).returning(OUTBOX.c.row_id)
        return len(session.scalars(gone).all())

    async def purge_async(
        self, session: AsyncSession, *, before: datetime, count_max: int = 10_000
    ) -> int:
        """``purge`` for an asynchronous session."""
        return await session.run_sync(
            lambda plain: self.purge(plain, before=before, count_max=count_max)
        )

    def _row(self, message: Message) -> dict[str, object]:
        unique_id = f"{self._random.getrandbits(128):032X}"
        record_bytes = self._check(message, unique_id)
        return {
            "outbox": self.name,
            "partition": crc32((message.message_group or unique_id).encode()) % self.partitions,
            "topic": message.topic,
            "message_group": message.message_group,
            "tag": message.tag,
            "message_keys": list(message.keys),
            "properties": dict(message.stored_properties),
            "flag": message.flag,
            "body": bytes(message.body),
            "body_bytes": len(message.body),
            "record_bytes": record_bytes,
            "unique_id": unique_id,
            "written_at": self._now(),
        }

    def _check(self, message: Message, unique_id: str) -> int:
        """Refuse a message that could not be sent: later the application would not notice.

        Returns:
            Bytes of its record.
        """
        check_types(message)
        if message.expire_after is not None:
            raise MessageIllegal("a message in an outbox waits for its send: it cannot expire")
        checked_topic(message.topic)
        checked_tag(message.tag)
        check_body_size(len(message.body), self.body_bytes_max)
        check_property_names(message)
        if is_delayed(message):
            raise MessageIllegal("an outbox takes no delayed messages")
        try:
            trial = outbox_row(MessageQueue(message.topic, "", 0))
            return add_message(trial, message, unique_id, 0)
        except RecordError as error:
            raise refusal_of(error) from error
