r"""Removes the oldest records of the audit trail: those of an age, and those beyond a number.

Only the begin of the chain goes, and a record in the chain says so, with the last hash that went::

    1 ........ 4000 | 4001 ........ 9000  9001: removed through 4000, its hash, begin and end
        removed       \_ the first follows that hash _/

So what is left is checked as before, and whoever removes more shows: the record that says it must
be in the chain that is checked. Whoever writes to the database can still append such a record, with
its hashes, and the new head, as retention does it: only admin's log does not have the event
``audit_records_removed`` then. A stretch that does not fit is not removed: it would be gone that it
was altered.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Final

from sqlalchemy import Connection, delete, func, select

from ariane.admin.v1.audit_service_pb2 import AUDIT_OUTCOME_BEGUN, AUDIT_OUTCOME_DONE
from ariane_admin.audit.trail import (
    RETENTION_ID,
    RETENTION_METHOD,
    AuditedRequest,
    AuditTrail,
    Removed,
    removed_by_retention,
)
from ariane_admin.database.tables import AUDIT_HEAD, AUDIT_RECORD
from ariane_servicekit import get_logger
from ariane_servicekit.database import Database

INTERVAL_S: Final = 60.0
"""Seconds between two looks."""

REMOVED_MAX: Final = 1000
"""Records that go in one transaction; all are checked before that."""

DAY_MS: Final = 86_400_000
"""By their age records go once a day: each removal adds two."""

WARNED_MS: Final = 3_600_000
"""Milliseconds between two warnings of too many records that are too young to go."""

_Table = AUDIT_RECORD.c
_log = get_logger(__name__)


class AuditRetention:
    """Removes what is older or more than it may be, but nothing young for being too many.

    Otherwise whoever may send many messages through admin would push out what others have changed.

    Args:
        trail: The trail.
        database: Its database.
        keep_s: Seconds that records are kept, and a day more at most.
        keep_at_least_s: Seconds that records are kept however many there are.
        records_max: Records that are kept.
    """

    def __init__(
        self,
        trail: AuditTrail,
        database: Database,
        *,
        keep_s: float,
        keep_at_least_s: float,
        records_max: int,
    ) -> None:
        self._trail = trail
        self._database = database
        self._keep_ms = round(keep_s * 1000)
        self._keep_at_least_ms = round(keep_at_least_s * 1000)
        self._records_max = records_max
        self._warned_ms: int | None = None

    async def look(self) -> None:
        """Remove all that may go."""
        while await self._database.call(self.remove_some):
            pass

    def remove_some(self) -> bool:
        """Remove a stretch; for a thread of the database's.

        Returns:
            Whether there was any.
        """
        with self._database.reading() as connection:
            removed = removed_by_retention(connection)
            through = self._through(connection, removed)
        if through <= removed.through:
            return False
        verdict = self._trail.verify(removed.through + 1, limit=through - removed.through)
        if verdict.found is not None:
            _log.error("audit_trail_broken", finding=verdict.found.finding)
            return False
        with self._database.writing() as connection:
            connection.execute(select(AUDIT_HEAD).with_for_update()).one()
            if removed_by_retention(connection) != removed:
                return True  # Another admin was faster.
            connection.execute(delete(AUDIT_RECORD).where(_Table.sequence <= through))
            self._note(connection, through, verdict.last_sha256)
            # Before the commit: no removal is without this line.
            _log.info("audit_records_removed", through=through, sha256=verdict.last_sha256.hex())
        return True

    def _through(self, connection: Connection, removed: Removed) -> int:
        """The last record of the next stretch to remove."""
        first = removed.through + 1
        last: int = connection.execute(select(AUDIT_HEAD.c.sequence)).scalar_one()
        at_once = min(removed.through + REMOVED_MAX, last)
        now_ms: int = connection.execute(select(self._database.now)).scalar_one()
        by_count = 0
        beyond = last - removed.through - self._records_max
        if beyond > 0:
            # Some more, so that the two records about it do not call for the next removal.
            some_more = self._records_max // 100 + 2
            wanted = min(removed.through + beyond + some_more, at_once)
            young_ms = now_ms - self._keep_at_least_ms
            # All of that or nothing: removing each record that has just come of age would add two.
            if _through_age(connection, first, wanted, young_ms) == wanted:
                by_count = wanted
        oldest_ms = connection.execute(
            select(_Table.time_ms).where(_Table.sequence == first)
        ).scalar_one_or_none()
        by_age = 0
        if oldest_ms is None or oldest_ms < now_ms - self._keep_ms - DAY_MS:
            by_age = _through_age(connection, first, at_once, now_ms - self._keep_ms)
        through = min(max(by_count, by_age), at_once)
        if beyond > 0 and through < first:
            self._warn(last - removed.through, now_ms)
        return through

    def _warn(self, count: int, now_ms: int) -> None:
        """Say that there are too many records, all too young to go."""
        if self._warned_ms is None or now_ms - self._warned_ms >= WARNED_MS:
            self._warned_ms = now_ms
            _log.warning("audit_records_too_many", count=count, records_max=self._records_max)

    def _note(self, connection: Connection, through: int, sha256: bytes) -> None:
        removed = {"through": through, "sha256": sha256.hex()}
        asked = AuditedRequest(
            entry_id=f"{RETENTION_ID}{through:020}",
            user="",
            claimed_user="admin",
            source_address="",
            method=RETENTION_METHOD,
            resource_name="audit trail",
            request_json=json.dumps(removed),
            before_json="",
        )
        for is_end, outcome in ((False, AUDIT_OUTCOME_BEGUN), (True, AUDIT_OUTCOME_DONE)):
            values = {
                **asdict(asked),
                "ended": is_end,
                "after_json": "",
                "outcome": int(outcome),
                "failure_reason": "",
                "failure_message": "",
            }
            self._trail.add(connection, values)


def _through_age(connection: Connection, first: int, last: int, kept_ms: int) -> int:
    """The last record of a stretch before the first one that is younger than a time."""
    kept: int | None = connection.execute(
        select(func.min(_Table.sequence)).where(
            _Table.sequence >= first, _Table.sequence <= last, _Table.time_ms > kept_ms
        )
    ).scalar_one()
    return last if kept is None else kept - 1
