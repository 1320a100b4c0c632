"""Samples in the database. Runs in a thread of the database's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import and_, delete, func, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite

from ariane.admin.v1.history_service_pb2 import (
    SERIES_KIND_DISK_RATIO,
    SERIES_KIND_GROUP_DELAY,
    SeriesKind,
)
from ariane_admin.database.tables import SAMPLE
from ariane_servicekit.database import Database

FINE_MS: Final = 7_200_000
"""How long all samples are kept: two hours."""

COARSE_STEP_MS: Final = 300_000
"""Afterwards one sample in five minutes is kept."""

_GREATEST: Final = frozenset({SERIES_KIND_DISK_RATIO, SERIES_KIND_GROUP_DELAY})
"""Kinds for which a sum over names has no meaning; the greatest is used."""

_Table = SAMPLE.c


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a series."""

    kind: SeriesKind.ValueType
    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Point:
    """The average over one step."""

    time_ms: int
    value: float


class SampleStore:
    """Keeps samples for a while, fewer of older ones."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, time_ms: int, samples: Sequence[Sample]) -> None:
        """Add samples of one time. Samples of another admin at that time are kept."""
        if not samples:
            return
        rows = [
            {"kind": int(s.kind), "name": s.name, "time_ms": time_ms, "value": s.value}
            for s in samples
        ]
        with self._database.writing() as connection:
            dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
            connection.execute(dialect.insert(SAMPLE).on_conflict_do_nothing(), rows)

    def thin_out(self, now_ms: int, *, keep_ms: int) -> None:
        """Remove samples that are too old, and all but one in five minutes of the older ones."""
        with self._database.writing() as connection:
            connection.execute(delete(SAMPLE).where(_Table.time_ms < now_ms - keep_ms))
            connection.execute(
                delete(SAMPLE).where(
                    and_(
                        _Table.time_ms < now_ms - FINE_MS,
                        _Table.time_ms % COARSE_STEP_MS != 0,
                    )
                )
            )

    def series(
        self, kind: SeriesKind.ValueType, *, after: tuple[int, str] | None, limit: int
    ) -> list[tuple[int, str]]:
        """Kind and name of series that have samples, in order.

        Args:
            kind: Only of this kind; 0 for all.
            after: Only series after this one.
            limit: The most series to return.
        """
        asked = select(_Table.kind, _Table.name).distinct()
        if kind:
            asked = asked.where(_Table.kind == int(kind))
        if after is not None:
            asked = asked.where(tuple_(_Table.kind, _Table.name) > after)
        asked = asked.order_by(_Table.kind, _Table.name).limit(limit)
        with self._database.reading() as connection:
            return [(row.kind, row.name) for row in connection.execute(asked)]

    def points(
        self, kind: SeriesKind.ValueType, name: str, begin_ms: int, end_ms: int, *, step_ms: int
    ) -> list[Point]:
        """Averages over steps, oldest first.

        Args:
            kind: The kind of series.
            name: The broker or group; empty for the sum over all, or the greatest.
            begin_ms: At or after this time, milliseconds since 1970.
            end_ms: Before this time.
            step_ms: The distance of points.
        """
        conditions = [
            _Table.kind == int(kind),
            _Table.time_ms >= begin_ms,
            _Table.time_ms < end_ms,
        ]
        if name:
            conditions.append(_Table.name == name)
        over = func.max if kind in _GREATEST else func.sum
        at_once = (
            select(_Table.time_ms, over(_Table.value).label("value"))
            .where(and_(*conditions))
            .group_by(_Table.time_ms)
            .subquery()
        )
        step = at_once.c.time_ms // step_ms
        asked = select(step.label("step"), func.avg(at_once.c.value).label("value"))
        asked = asked.group_by(step).order_by(step)
        with self._database.reading() as connection:
            rows = connection.execute(asked).all()
        return [Point(int(row.step) * step_ms, float(row.value)) for row in rows]
