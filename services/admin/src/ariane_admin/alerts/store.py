"""Alerts in the database. Runs in a thread of the database's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import and_, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from ariane_admin.alerts.bounds import Turns, Watched
from ariane_admin.database.tables import ALERT
from ariane_servicekit.database import Database

KEEP_ENDED_MS: Final = 30 * 86_400_000

_Table: Final = ALERT.c


@dataclass(frozen=True, slots=True)
class KeptAlert:
    """An alert in the database."""

    alert_id: int
    """Its row."""
    watched: Watched
    """The figure."""
    threshold: float
    """The bound when it was raised."""
    first_value: float
    """The figure when it was raised."""
    last_value: float
    """The figure at the last look."""
    raised_ms: int
    """When it was raised, milliseconds since 1970."""
    ended_ms: int | None
    """When it ended; None for a present alert."""


class AlertStore:
    """Keeps alerts; several admins of one database share them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def standing(self) -> list[Watched]:
        """The present alerts."""
        asked = select(_Table.figure, _Table.subject).where(_Table.ended_ms.is_(None))
        with self._database.reading() as connection:
            return [Watched(row.figure, row.subject) for row in connection.execute(asked)]

    def take(self, turns: Turns, thresholds: dict[int, float], now_ms: int) -> None:
        """Store the changes of a look. An alert that another admin has raised stays unchanged."""
        for one, value in turns.raised.items():
            row = {
                "figure": one.figure,
                "subject": one.subject,
                "threshold": thresholds[one.figure],
                "first_value": value,
                "last_value": value,
                "raised_ms": now_ms,
                "told_raise": False,
                "told_end": False,
            }
            try:
                with self._database.writing() as connection:
                    connection.execute(insert(ALERT).values(row))
            except IntegrityError:
                continue  # Another admin was first.
        with self._database.writing() as connection:
            for one, value in turns.standing.items():
                connection.execute(update(ALERT).where(_is(one)).values(last_value=value))
            for one in turns.ended:
                connection.execute(update(ALERT).where(_is(one)).values(ended_ms=now_ms))
            connection.execute(delete(ALERT).where(_Table.ended_ms < now_ms - KEEP_ENDED_MS))

    def alerts(
        self, *, figure: int, include_ended: bool, before: int | None, limit: int
    ) -> list[KeptAlert]:
        """Alerts, newest first.

        Args:
            figure: Only of this figure; 0 for all.
            include_ended: Whether to include ended alerts.
            before: Only rows before this one.
            limit: The most alerts to return.
        """
        asked = select(ALERT).order_by(_Table.alert_id.desc()).limit(limit)
        if figure:
            asked = asked.where(_Table.figure == figure)
        if not include_ended:
            asked = asked.where(_Table.ended_ms.is_(None))
        if before is not None:
            asked = asked.where(_Table.alert_id < before)
        with self._database.reading() as connection:
            return [_kept(row) for row in connection.execute(asked)]

    def unsent(self, limit: int) -> list[KeptAlert]:
        """Alerts whose begin or end was not sent to the webhook yet."""
        asked = (
            select(ALERT)
            .where(
                or_(
                    _Table.told_raise.is_(False),
                    and_(_Table.ended_ms.is_not(None), _Table.told_end.is_(False)),
                )
            )
            .order_by(_Table.alert_id)
            .limit(limit)
        )
        with self._database.reading() as connection:
            return [_kept(row) for row in connection.execute(asked)]

    def claim(self, alert_id: int, *, is_end: bool, sent: bool = True) -> bool:
        """Claim the sending of one event, so that no other admin sends it; or give it back.

        Returns:
            Whether no other admin had claimed it.
        """
        column = _Table.told_end if is_end else _Table.told_raise
        change = update(ALERT).where(_Table.alert_id == alert_id, column.is_(not sent))
        with self._database.writing() as connection:
            return connection.execute(change.values({column: sent})).rowcount == 1


def _is(one: Watched):  # type: ignore[no-untyped-def] # noqa: ANN202 - SQLAlchemy's own word
    return and_(
        _Table.figure == one.figure, _Table.subject == one.subject, _Table.ended_ms.is_(None)
    )


def _kept(row) -> KeptAlert:  # type: ignore[no-untyped-def] # noqa: ANN001 - a row of SQLAlchemy
    return KeptAlert(
        row.alert_id,
        Watched(row.figure, row.subject),
        row.threshold,
        row.first_value,
        row.last_value,
        row.raised_ms,
        row.ended_ms,
    )
