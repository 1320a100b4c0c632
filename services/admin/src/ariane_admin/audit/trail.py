"""The audit trail in the database. Runs in a thread of the database's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, and_, func, insert, or_, select, update

from ariane.admin.v1.audit_service_pb2 import AUDIT_OUTCOME_BEGUN, AuditOutcome
from ariane_admin.audit.chain import (
    FIRST_PREVIOUS,
    AuditRecord,
    Break,
    find_break,
    record_sha256,
)
from ariane_admin.database.tables import AUDIT_HEAD, AUDIT_RECORD, NAME_LENGTH_MAX
from ariane_servicekit.database import Database

JSON_BYTES_MAX: Final = 16 << 10
"""The most bytes of a request, and of a resource before and after."""

RETENTION_METHOD: Final = "ariane.admin/RemoveAuditRecords"
"""Stands for a method in records of what retention has removed: nobody can call it."""

RETENTION_ID: Final = "retention-"
"""The ids of these records begin so, and go on with the last record that was removed, so that an
index finds the newest at once: all other ids are drawn, of hexadecimal digits, and come before."""

_FIELDS: Final = tuple(field.name for field in fields(AuditRecord))

_Table = AUDIT_RECORD.c


@dataclass(frozen=True, slots=True)
class AuditedRequest:
    """A request for a change, and its caller."""

    entry_id: str
    """A random id."""
    user: str
    """The authenticated user; empty without authentication."""
    claimed_user: str
    """The user as the caller claims."""
    source_address: str
    """The address of the caller."""
    method: str
    """The method's full name."""
    resource_name: str
    """The resource to change."""
    request_json: str
    """The request."""
    before_json: str
    """The resource before; empty if unknown."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a change."""

    outcome: AuditOutcome.ValueType
    """``AuditOutcome`` of the contract."""
    after_json: str = ""
    """The resource afterwards."""
    failure_reason: str = ""
    """The reason of a failure."""
    failure_message: str = ""
    """The same in words."""


@dataclass(frozen=True, slots=True)
class Written:
    """A record that has been added to the chain."""

    record: AuditRecord
    sha256: bytes


@dataclass(frozen=True, slots=True)
class Entry:
    """A change: its begin, and its end if it has ended."""

    begin: Written
    end: Written | None


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection of changes; an empty field matches all."""

    user: str = ""
    method: str = ""
    resource_name: str = ""
    begin_ms: int | None = None
    end_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Removed:
    """The begin of the chain that retention has removed."""

    through: int
    """The last record that was removed; 0 if none was."""
    sha256: bytes
    """Its hash, which the first record that is left follows."""
    sequence: int
    """The record that says so; 0 if none was removed."""
    time_ms: int
    """Its time."""


_NOTHING_REMOVED: Final = Removed(0, FIRST_PREVIOUS, 0, 0)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of checking a stretch."""

    record_count: int
    """The number of checked records."""
    next_sequence: int
    """Where to continue; 0 at the end and after a break."""
    found: Break | None
    """The break, or None."""
    last_sequence: int
    """The last record that fits."""
    last_sha256: bytes
    """Its hash."""


def removed_by_retention(connection: Connection) -> Removed:
    """What retention has removed, as its last record says, which ``verify`` checks."""
    found = connection.execute(
        select(_Table.sequence, _Table.time_ms, _Table.request_json)
        .where(_Table.entry_id >= RETENTION_ID, _Table.ended.is_(False))
        .order_by(_Table.entry_id.desc())
        .limit(1)
    ).one_or_none()
    if found is None:
        return _NOTHING_REMOVED
    try:
        said = json.loads(found.request_json)
        through, sha256 = int(said["through"]), bytes.fromhex(said["sha256"])
    except (ValueError, TypeError, KeyError):
        # Not written by retention: as a record that says it removed itself, it is a break.
        through, sha256 = found.sequence, b""
    return Removed(through, sha256, found.sequence, found.time_ms)


class AuditTrail:
    """Adds records, lists changes, checks the chain."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, asked: AuditedRequest) -> Written:
        """Record that a change begins."""
        return self._add(
            {
                **asdict(asked),
                "ended": False,
                "after_json": "",
                "outcome": int(AUDIT_OUTCOME_BEGUN),
                "failure_reason": "",
                "failure_message": "",
            }
        )

    def end(self, begun: Written, ended: Ended) -> Written:
        """Record how a change ended."""
        return self._add(
            {
                **asdict(begun.record),
                **asdict(ended),
                "ended": True,
                "outcome": int(ended.outcome),
                "request_json": "",
                "before_json": "",
            }
        )

    def entries(self, wanted: Selection, *, before: int | None, limit: int) -> list[Entry]:
        """Changes, newest first.

        Args:
            wanted: The selection.
            before: Only changes that began before this place in the chain.
            limit: The most changes to return.
        """
        conditions = [_Table.ended.is_(False), *_conditions(wanted)]
        if before is not None:
            conditions.append(_Table.sequence < before)
        begins = (
            select(AUDIT_RECORD)
            .where(and_(*conditions))
            .order_by(_Table.sequence.desc())
            .limit(limit)
        )
        with self._database.reading() as connection:
            found = [_written(row) for row in connection.execute(begins)]
            ids = [each.record.entry_id for each in found]
            ended = select(AUDIT_RECORD).where(_Table.entry_id.in_(ids), _Table.ended.is_(True))
            ends = {row.entry_id: _written(row) for row in connection.execute(ended)}
        return [Entry(each, ends.get(each.record.entry_id)) for each in found]

    def verify(self, first: int, *, limit: int) -> Verdict:
        """Check a stretch of the chain.

        Args:
            first: Its first record, from 1; what retention has removed is left out.
            limit: The most records to check.
        """
        with self._database.reading() as connection:
            head = connection.execute(select(AUDIT_HEAD)).one()
            removed = removed_by_retention(connection)
            smallest = connection.execute(select(func.min(_Table.sequence))).scalar_one()
            wrong = _wrong_begin(removed, smallest, head.sequence)
            if wrong is not None:
                return Verdict(0, 0, wrong, 0, b"")
            first = max(first, removed.through + 1)
            before = connection.execute(
                select(_Table.sha256).where(_Table.sequence == first - 1)
            ).scalar_one_or_none()
            rows = [
                _written(row)
                for row in connection.execute(
                    select(AUDIT_RECORD)
                    .where(_Table.sequence >= first)
                    .order_by(_Table.sequence)
                    .limit(limit)
                )
            ]
        previous = removed.sha256 if first == removed.through + 1 else before
        if previous is None:
            lost = Break(first - 1, f"record {first - 1} is missing")
            return Verdict(0, 0, lost, 0, b"")
        found = find_break(previous, first, ((each.record, each.sha256) for each in rows))
        if found is None:
            found = _wrong_head(rows, first, head.sequence, head.sha256, more=len(rows) == limit)
        fitting = [each for each in rows if found is None or each.record.sequence < found.sequence]
        last = fitting[-1] if fitting else None
        return Verdict(
            record_count=len(rows),
            next_sequence=first + limit if found is None and len(rows) == limit else 0,
            found=found,
            last_sequence=last.record.sequence if last else first - 1,
            last_sha256=last.sha256 if last else previous,
        )

    def sha256_at(self, sequence: int) -> tuple[bytes | None, Removed]:
        """The hash that is stored beside a record, and what retention has removed at that moment.

        Without the record, the hash is None.
        """
        with self._database.reading() as connection:
            removed = removed_by_retention(connection)
            if sequence == removed.through:
                return removed.sha256, removed
            found: bytes | None = connection.execute(
                select(_Table.sha256).where(_Table.sequence == sequence)
            ).scalar_one_or_none()
            return found, removed

    def _add(self, values: dict[str, Any]) -> Written:
        with self._database.writing() as connection:
            return self.add(connection, values)

    def add(self, connection: Connection, values: dict[str, Any]) -> Written:
        """Add a record in a transaction."""
        # The next writer waits here: there is one chain for all writers.
        head = connection.execute(select(AUDIT_HEAD).with_for_update()).one()
        now_ms = connection.execute(select(self._database.now)).scalar_one()
        values.update(sequence=head.sequence + 1, time_ms=now_ms)
        record = AuditRecord(**_fitting(values))
        sha256 = record_sha256(head.sha256, record)
        connection.execute(insert(AUDIT_RECORD).values(**asdict(record), sha256=sha256))
        connection.execute(update(AUDIT_HEAD).values(sequence=record.sequence, sha256=sha256))
        return Written(record, sha256)


def _conditions(wanted: Selection) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if wanted.user:
        conditions.append(or_(_Table.user == wanted.user, _Table.claimed_user == wanted.user))
    if wanted.method:
        conditions.append(_Table.method.endswith(wanted.method, autoescape=True))
    if wanted.resource_name:
        conditions.append(_Table.resource_name == wanted.resource_name)
    if wanted.begin_ms is not None:
        conditions.append(_Table.time_ms >= wanted.begin_ms)
    if wanted.end_ms is not None:
        conditions.append(_Table.time_ms < wanted.end_ms)
    return conditions


def _wrong_begin(removed: Removed, smallest: int | None, last: int) -> Break | None:
    """A break at the begin of the chain: what is checked would not cover all records.

    Args:
        removed: What retention has removed.
        smallest: The first record that there is.
        last: The last place in the chain.
    """
    is_covered = 0 < removed.through < removed.sequence <= last
    if removed != _NOTHING_REMOVED and not is_covered:
        said = f"record {removed.sequence}, which says what retention has removed,"
        return Break(1, f"{said} was not written by admin")
    if smallest is not None and smallest <= removed.through:
        begin = f"the trail begins at {removed.through + 1}"
        return Break(max(1, smallest), f"record {smallest} was not written by admin: {begin}")
    return None


def _wrong_head(
    rows: Sequence[Written], first: int, sequence: int, sha256: bytes, *, more: bool
) -> Break | None:
    """A break at the end of the chain: the head shows that records were cut off or added."""
    if more:
        return None
    last = rows[-1].record.sequence if rows else first - 1
    if last < sequence:
        return Break(last + 1, f"records {last + 1} to {sequence} are missing at the end")
    if rows and last == sequence and rows[-1].sha256 != sha256:
        return Break(last, f"record {last} is not the one that was written last")
    if last > sequence:
        return Break(sequence + 1, f"record {sequence + 1} was not written by admin")
    return None


def _fitting(values: dict[str, Any]) -> dict[str, Any]:
    """Values that every database can store: names of bounded length, no NUL characters."""
    fitting: dict[str, Any] = {}
    for name in _FIELDS:
        value = values[name]
        if isinstance(value, str):
            value = value.replace("\0", "\N{REPLACEMENT CHARACTER}")
            if not name.endswith(("_json", "_message")):
                value = value[:NAME_LENGTH_MAX]
        fitting[name] = value
    return fitting


def _written(row: Row[Any]) -> Written:
    values = row._mapping  # noqa: SLF001 - SQLAlchemy's name for a row by columns
    record = AuditRecord(**{name: values[name] for name in _FIELDS})
    return Written(record, bytes(values["sha256"]))
