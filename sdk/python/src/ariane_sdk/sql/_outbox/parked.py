"""Parked messages of an outbox: brokers refused them, and they wait for an operator."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Select, delete, func, select
from sqlalchemy.orm import Session

from ariane_sdk.errors import CallError, ServiceUnavailable
from ariane_sdk.sql._outbox.tables import OUTBOX, OUTBOX_PARKED

ATTEMPTS_MAX: Final = 50
"""Attempts before a message is parked; with pauses that grow to 10 s, about eight minutes."""

ERROR_LENGTH_MAX: Final = 2000

PERMANENT_REASONS: Final = frozenset(
    {
        "BLOCK_CORRUPTED",
        "FIELD_INVALID",
        "MESSAGE_ILLEGAL",
        "MESSAGE_TOO_LARGE",
        "REQUEST_TOO_LARGE",
        "TOPIC_NAME_ILLEGAL",
        "TOPIC_RESERVED",
    }
)
"""Reasons for which another attempt with the same message would fail, too."""


class ParkedMessage(NamedTuple):
    """A message that is parked."""

    row_id: int
    """Its row in the table of the outbox."""
    topic: str
    """Its topic."""
    message_group: str
    """Its message group."""
    keys: tuple[str, ...]
    """Its keys."""
    unique_id: str
    """Its unique id."""
    body_bytes: int
    """Bytes of its body."""
    written_at: datetime
    """When the application wrote it."""
    parked_at: datetime
    """When it was parked."""
    attempts: int
    """How often it was refused."""
    reason: str
    """The reason, as a constant word."""
    error: str
    """The reason in words."""


class Refusal(NamedTuple):
    """A message that is to be parked."""

    row_id: int
    """Its row."""
    attempts: int
    """How often it was refused."""
    reason: str
    """The reason, as a constant word."""
    error: str
    """The reason in words."""


class Refusals:
    """Counts refusals of messages, and decides which are given up.

    Errors of the broker, and not of the message, do not count: the relay waits for their end.
    """

    def __init__(self, attempts_max: int | None) -> None:
        """After ``attempts_max`` refusals a message is given up; None: never."""
        self._attempts_max = attempts_max
        self._counts: dict[int, int] = {}
        self._suspects: set[int] = set()

    def is_suspect(self, row_id: int) -> bool:
        """Whether a message must be sent alone: it was in a refused batch."""
        return row_id in self._suspects

    def refused(
        self, row_ids: Sequence[int], error: Exception | None, *, maybe_stored: bool = False
    ) -> list[Refusal]:
        """Count a refusal of some messages together; return those that are given up.

        Args:
            row_ids: The messages.
            error: The error.
            maybe_stored: Whether an earlier attempt may have stored them: then they stay together.
        """
        if not isinstance(error, CallError) or not _speaks_of_messages(error):
            return []
        permanent = error.reason in PERMANENT_REASONS
        if permanent and len(row_ids) > 1 and not maybe_stored:
            self._suspects.update(row_ids)
            return []
        text = f"(an earlier try may have stored it) {error}" if maybe_stored else str(error)
        given_up = []
        for row_id in row_ids:
            attempts = self._counts[row_id] = self._counts.get(row_id, 0) + 1
            enough = self._attempts_max is not None and attempts >= self._attempts_max
            if enough or (permanent and not maybe_stored):
                given_up.append(Refusal(row_id, attempts, error.reason, text[:ERROR_LENGTH_MAX]))
        return given_up

    def bring_nearer(self, row_ids: Collection[int]) -> bool:
        """Whether some of these messages are parked after some more refusals."""
        return any(
            row_id in self._suspects or (self._attempts_max is not None and row_id in self._counts)
            for row_id in row_ids
        )

    def forget(self, row_ids: Collection[int]) -> None:
        """Forget messages that are stored or parked."""
        for row_id in row_ids:
            self._counts.pop(row_id, None)
        self._suspects.difference_update(row_ids)


def is_parked(outbox: str) -> ColumnElement[bool]:
    """The condition for parked rows."""
    parked = select(OUTBOX_PARKED.c.row_id).where(OUTBOX_PARKED.c.outbox == outbox)
    return OUTBOX.c.row_id.in_(parked)


def count_parked(session: Session, outbox: str) -> int:
    """The number of parked messages of an outbox."""
    query = select(func.count()).select_from(OUTBOX_PARKED).where(OUTBOX_PARKED.c.outbox == outbox)
    return session.scalar(query) or 0


def list_parked(
    session: Session, outbox: str, *, topic: str, after_row_id: int, count_max: int
) -> list[ParkedMessage]:
    """Parked messages, in the order in which they were written."""
    rows, parked = OUTBOX.c, OUTBOX_PARKED.c
    query = (
        select(
            rows.row_id,
            rows.topic,
            rows.message_group,
            rows.message_keys,
            rows.unique_id,
            rows.body_bytes,
            rows.written_at,
            parked.parked_at,
            parked.attempts,
            parked.reason,
            parked.error,
        )
        .join(OUTBOX_PARKED, parked.row_id == rows.row_id)
        .where(parked.outbox == outbox, rows.row_id > after_row_id)
        .order_by(rows.row_id)
        .limit(count_max)
    )
    if topic:
        query = query.where(rows.topic == topic)
    return [
        ParkedMessage(*row)._replace(
            keys=tuple(row.message_keys),
            written_at=_in_utc(row.written_at),
            parked_at=_in_utc(row.parked_at),
        )
        for row in session.execute(query)
    ]


def requeue(session: Session, outbox: str, *, row_ids: Collection[int] | None, topic: str) -> int:
    """Let parked messages be sent again; return their number."""
    gone = delete(OUTBOX_PARKED).where(OUTBOX_PARKED.c.outbox == outbox)
    if row_ids is not None:
        gone = gone.where(OUTBOX_PARKED.c.row_id.in_(row_ids))
    if topic:
        gone = gone.where(OUTBOX_PARKED.c.row_id.in_(_rows_of_topic(outbox, topic)))
    return len(session.scalars(gone.returning(OUTBOX_PARKED.c.row_id)).all())


def _rows_of_topic(outbox: str, topic: str) -> Select[tuple[int]]:
    rows = OUTBOX.c
    waiting = (rows.outbox == outbox, rows.sent_at.is_(None), rows.topic == topic)
    return select(rows.row_id).where(*waiting)


def _speaks_of_messages(error: CallError) -> bool:
    """Whether trying again is useless until the message, its topic or its rights are changed."""
    return not (error.retriable or isinstance(error, ServiceUnavailable))


def _in_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
