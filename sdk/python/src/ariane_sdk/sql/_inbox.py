"""The inbox: a message changes the database once, however often it is delivered.

The queue delivers at least once. The inbox makes the effect happen once, as far as the effect is
rows of one database: the key of each message is inserted in the transaction of its changes::

    begin
      insert into ariane_inbox ... on conflict do nothing returning message_key    the fresh ones
      the handler's changes for the fresh ones
    commit                                     both or neither

If two consumers hold the same message at once, the second insert waits at the primary key until the
first commits (then the message is no longer fresh) or rolls back (then it is).

The pattern is the idempotent receiver of Hohpe and Woolf, with the transaction of the effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar

from sqlalchemy import delete, event, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session, SessionTransaction
from sqlalchemy.sql.dml import ReturningInsert

from ariane_sdk.checks.inbox_keys import (
    Identified,
    checked_consumer,
    checked_key,
    checked_time,
    unique_id,
)
from ariane_sdk.errors import IllegalArgument
from ariane_sdk.runtime.clock import utc_now
from ariane_sdk.sql._plain_session import refuse_asynchronous
from ariane_sdk.sql._seen_keys import SeenKeys
from ariane_sdk.sql._tables import INBOX

ROWS_PER_STATEMENT_MAX: Final = 1000
"""Rows of one insert: three parameters each, and drivers take some ten thousand parameters."""


_PRIMARY_KEY: Final = (INBOX.c.consumer, INBOX.c.message_key)

_PENDING: Final = "ariane_inbox_pending"
"""Key of a session's calls to caches that are made when it commits."""


M = TypeVar("M", bound=Identified)


class Inbox:
    """Records, in the application's own transaction, the messages that a consumer has taken.

    Example::

        inbox = Inbox("billing")

        def listen(messages):                        # in a thread of the consumer
            with sessions.begin() as session:
                for message in inbox.take(session, messages):
                    session.add(Payment.of(message))

    A business key (an order's number, say) protects against producers that send the same thing
    twice under two ids: ``Inbox("billing", key=lambda message: message.keys[0])``.
    """

    def __init__(
        self,
        consumer: str,
        *,
        key: Callable[[Any], str] = unique_id,
        seen_keys: SeenKeys | None = None,
        keep: timedelta | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        """Take the parts; the database is not used yet.

        Args:
            consumer: The name of the consumer; mostly its group. Each has keys of its own.
            key: Returns, for a message, the key by which repeats of it are known; at most 255
                characters.
            seen_keys: A cache of committed keys, which saves queries.
            keep: How long keys are kept: a message that comes later is fresh again, so this must be
                longer than messages can be redelivered. Each ``take`` deletes some that are older,
                so that the table needs no care. None: until ``purge`` deletes them.
            now: Returns the time in UTC; for tests.

        Raises:
            IllegalArgument: The name is empty or longer than 120 characters; or ``keep`` is no
                time.
        """
        self._keep = None if keep is None else checked_time("keep", keep)
        self._consumer = checked_consumer(consumer)
        self._key: Callable[..., str] = key
        self._seen_keys = seen_keys
        self._now = now or utc_now

    def take(self, session: Session, messages: Sequence[M]) -> list[M]:
        """Take messages, and return the fresh ones: those that were never taken before.

        One statement for up to a thousand messages. The rows become permanent when the caller's
        transaction commits; a message that is twice in ``messages`` is fresh once.

        Args:
            session: The session in whose transaction the messages have their effect.
            messages: Delivered messages, in any order.

        Returns:
            The fresh messages, in the order given.

        Raises:
            IllegalArgument: A key is not a text, is empty or too long, or the database is neither
                PostgreSQL nor SQLite, or the session is asynchronous.
        """
        refuse_asynchronous(session, "inbox.take_async(session, ...)")
        by_key = {checked_key(self._key(message)): message for message in reversed(messages)}
        if self._seen_keys is not None:
            for key in self._seen_keys.known(self._consumer, list(by_key)):
                by_key.pop(key, None)
        # Sorted: two consumers that insert the same keys in different orders would deadlock.
        candidates = sorted(by_key)
        fresh: set[str] = set()
        for start in range(0, len(candidates), ROWS_PER_STATEMENT_MAX):
            chunk = candidates[start : start + ROWS_PER_STATEMENT_MAX]
            fresh.update(session.scalars(self._insert(session, chunk)))
        if self._seen_keys is not None and candidates:
            _remember_after_commit(session, self._seen_keys, self._consumer, candidates)
        if self._keep is not None and candidates:
            self._forget_old(session, self._now() - self._keep, 2 * len(candidates))
        first = {id(message) for key, message in by_key.items() if key in fresh}
        return [message for message in messages if id(message) in first]

    async def take_async(self, session: AsyncSession, messages: Sequence[M]) -> list[M]:
        """``take`` for an asynchronous session."""
        return await session.run_sync(self.take, messages)

    def purge(self, session: Session, *, before: datetime, count_max: int = 10_000) -> int:
        """Forget keys that were taken long ago, so that the table does not grow for ever.

        A message that is delivered again after its key was purged counts as fresh: keep keys for
        longer than messages can be redelivered (retention of the topic, or longest retry).

        Args:
            session: A session; the caller commits.
            before: Keys taken before this time are forgotten.
            count_max: The most keys of one transaction; call again while it returns as many.

        Returns:
            The number of forgotten keys.
        """
        refuse_asynchronous(session, "inbox.purge_async(session, ...)")
        old = (
            select(INBOX.c.message_key)
            .where(INBOX.c.consumer == self._consumer, INBOX.c.taken_at < before)
            .order_by(INBOX.c.taken_at)
            .limit(count_max)
        )
        return self._forget(session, list(session.scalars(old)))

    async def purge_async(
        self, session: AsyncSession, *, before: datetime, count_max: int = 10_000
    ) -> int:
        """``purge`` for an asynchronous session."""
        return await session.run_sync(
            lambda plain: self.purge(plain, before=before, count_max=count_max)
        )

    def replay(self, session: Session, keys: Iterable[str]) -> int:
        """Forget these keys, so that their messages are fresh at the next delivery.

        The cache in front of this inbox forgets them at once. A cache in the memory of another
        process keeps them: that process has to be restarted. The consumer's offsets are
        reset separately.

        Returns:
            The number of forgotten keys.
        """
        refuse_asynchronous(session, "inbox.replay_async(session, ...)")
        return self._forget(session, sorted(set(keys)))

    async def replay_async(self, session: AsyncSession, keys: Iterable[str]) -> int:
        """``replay`` for an asynchronous session."""
        return await session.run_sync(self.replay, list(keys))

    def _forget_old(self, session: Session, before: datetime, count_max: int) -> None:
        """Delete some old keys: twice as many as come, so that a backlog of them shrinks."""
        old = (
            select(INBOX.c.message_key)
            .where(INBOX.c.consumer == self._consumer, INBOX.c.taken_at < before)
            .order_by(INBOX.c.taken_at)
            .limit(min(count_max, ROWS_PER_STATEMENT_MAX))
            # Those that another member is deleting are its own to delete. SQLite has one writer.
            .with_for_update(skip_locked=True)
        )
        self._forget(session, list(session.scalars(old)))

    def _forget(self, session: Session, keys: Sequence[str]) -> int:
        forgotten = 0
        for start in range(0, len(keys), ROWS_PER_STATEMENT_MAX):
            chunk = keys[start : start + ROWS_PER_STATEMENT_MAX]
            gone = (
                delete(INBOX)
                .where(INBOX.c.consumer == self._consumer, INBOX.c.message_key.in_(chunk))
                .returning(INBOX.c.message_key)
            )
            forgotten += len(session.scalars(gone).all())
            if self._seen_keys is not None:
                self._seen_keys.forget(self._consumer, chunk)
        return forgotten

    def _insert(self, session: Session, keys: Sequence[str]) -> ReturningInsert[tuple[str]]:
        taken_at = self._now()
        rows = [
            {"consumer": self._consumer, "message_key": key, "taken_at": taken_at} for key in keys
        ]
        dialect = session.get_bind().dialect.name
        statement: postgresql.Insert | sqlite.Insert
        if dialect == "postgresql":
            statement = postgresql.insert(INBOX).values(rows)
        elif dialect == "sqlite":
            statement = sqlite.insert(INBOX).values(rows)
        else:
            raise IllegalArgument(f"the inbox knows PostgreSQL and SQLite, not {dialect}")
        if self._keep is None:
            return statement.on_conflict_do_nothing().returning(INBOX.c.message_key)
        # A key that is too old and not deleted yet is taken anew.
        renewed = statement.on_conflict_do_update(
            index_elements=_PRIMARY_KEY,
            set_={"taken_at": taken_at},
            where=INBOX.c.taken_at < taken_at - self._keep,
        )
        return renewed.returning(INBOX.c.message_key)


def _remember_after_commit(
    session: Session, seen_keys: SeenKeys, consumer: str, keys: Sequence[str]
) -> None:
    """Add keys to the cache after the commit; after a rollback, also of a savepoint, add none."""
    pending = session.info.get(_PENDING)
    if pending is None:
        pending = session.info[_PENDING] = []
        event.listen(session, "after_commit", _run_pending)
        event.listen(session, "after_rollback", _drop_pending)
        event.listen(session, "after_transaction_end", _drop_pending_at_end)
    pending.append(partial(seen_keys.remember, consumer, keys))


def _run_pending(session: Session) -> None:
    if session.in_nested_transaction():
        return  # A savepoint was released: the transaction around it decides.
    pending = session.info[_PENDING]
    while pending:
        pending.pop(0)()


def _drop_pending(session: Session) -> None:
    session.info[_PENDING].clear()


def _drop_pending_at_end(session: Session, transaction: SessionTransaction) -> None:
    if transaction.parent is None:
        _drop_pending(session)  # The session was closed: no rollback event follows.
