"""Old records of the trail go, and what is left is still checked: on SQLite and PostgreSQL."""

import json

import pytest
from sqlalchemy import delete, select, update

from ariane.admin.v1 import audit_service_pb2 as audit_pb
from ariane.admin.v1.audit_service_pb2 import AUDIT_OUTCOME_DONE
from ariane_admin.audit import retention as retention_module
from ariane_admin.audit.retention import DAY_MS, AuditRetention
from ariane_admin.audit.servicer import AuditServicer
from ariane_admin.audit.trail import (
    RETENTION_METHOD,
    AuditedRequest,
    AuditTrail,
    Ended,
    Selection,
)
from ariane_admin.database.tables import AUDIT_RECORD
from ariane_servicekit import ServiceError

ALL = Selection()
LONG_S = 10 * 365 * 86_400.0


@pytest.fixture
def trail(database):
    return AuditTrail(database)


@pytest.fixture
def few_at_once(monkeypatch):
    monkeypatch.setattr(retention_module, "REMOVED_MAX", 4)


def sent(number):
    return AuditedRequest(
        entry_id=f"{number:032x}",
        user="ann",
        claimed_user="",
        source_address="10.0.0.1:4711",
        method="ariane.admin.v1.MessageService/SendMessage",
        resource_name=f"t{number}",
        request_json="{}",
        before_json="",
    )


def fill(trail, numbers):
    for number in numbers:
        trail.end(trail.begin(sent(number)), Ended(AUDIT_OUTCOME_DONE, "{}"))


def rows(database):
    with database.reading() as connection:
        return [row.sequence for row in connection.execute(select(AUDIT_RECORD.c.sequence))]


def aged(trail, database, numbers, age_ms):
    """Fill a trail as it would have been written some time ago."""
    now = database.now
    database.now = now - age_ms
    fill(trail, numbers)
    database.now = now


async def test_the_trail_keeps_so_many_records_and_what_is_left_is_checked(
    trail, database, few_at_once
):
    retention = AuditRetention(trail, database, keep_s=LONG_S, records_max=20)
    fill(trail, range(10))
    await retention.look()
    assert len(rows(database)) == 20
    for number in range(10, 40):
        fill(trail, [number])
        await retention.look()
    kept = rows(database)
    assert len(kept) <= 22
    assert max(kept) > 80
    assert min(kept) == trail.removed().through + 1
    verdict = trail.verify(1, limit=100)
    assert (verdict.found, verdict.record_count) == (None, len(kept))
    assert trail.verify(min(kept) + 3, limit=100).found is None
    newest = trail.entries(ALL, before=None, limit=100)
    assert "t39" in [each.begin.record.resource_name for each in newest]
    assert all(each.end is not None for each in newest)


async def test_records_of_an_age_go_once_a_day(trail, database, few_at_once):
    retention = AuditRetention(trail, database, keep_s=3 * 86_400, records_max=10_000)
    aged(trail, database, range(5), 5 * DAY_MS)
    aged(trail, database, range(5, 8), 2 * DAY_MS)
    await retention.look()
    left = [each.begin.record for each in trail.entries(ALL, before=None, limit=100)]
    assert [each.resource_name for each in left if each.method != RETENTION_METHOD] == [
        "t7",
        "t6",
        "t5",
    ]
    verdict = trail.verify(1, limit=100)
    assert (verdict.found, verdict.last_sequence) == (None, max(rows(database)))
    before = rows(database)
    await retention.look()
    assert rows(database) == before


async def test_who_removes_more_than_retention_is_found_out(trail, database, few_at_once):
    retention = AuditRetention(trail, database, keep_s=LONG_S, records_max=10)
    fill(trail, range(12))
    await retention.look()
    assert trail.verify(1, limit=100).found is None
    first = min(rows(database))
    with database.writing() as connection:
        connection.execute(delete(AUDIT_RECORD).where(AUDIT_RECORD.c.sequence == first))
    assert trail.verify(1, limit=100).found.sequence == first
    # Nor by saying that retention did it: the record that says so is part of the chain.
    with database.writing() as connection:
        said = connection.execute(
            select(AUDIT_RECORD.c.request_json)
            .where(AUDIT_RECORD.c.method == RETENTION_METHOD)
            .order_by(AUDIT_RECORD.c.sequence.desc())
            .limit(1)
        ).scalar_one()
        second = connection.execute(
            select(AUDIT_RECORD.c.sha256).where(AUDIT_RECORD.c.sequence == first + 1)
        ).scalar_one()
        lie = json.dumps({**json.loads(said), "through": first + 1, "sha256": second.hex()})
        connection.execute(
            delete(AUDIT_RECORD).where(AUDIT_RECORD.c.sequence == first + 1),
        )
        connection.execute(
            update(AUDIT_RECORD).where(AUDIT_RECORD.c.request_json == said).values(request_json=lie)
        )
    assert trail.verify(1, limit=100).found is not None


async def test_what_was_altered_is_not_removed(trail, database, few_at_once):
    retention = AuditRetention(trail, database, keep_s=LONG_S, records_max=10)
    fill(trail, range(12))
    with database.writing() as connection:
        connection.execute(
            update(AUDIT_RECORD).where(AUDIT_RECORD.c.sequence == 2).values(user="eve")
        )
    await retention.look()
    assert len(rows(database)) == 24
    assert trail.verify(1, limit=100).found.sequence == 2


async def test_two_admins_remove_it_once(trail, database, few_at_once):
    fill(trail, range(12))
    twins = [AuditRetention(trail, database, keep_s=LONG_S, records_max=10) for _ in range(2)]
    for _ in range(20):
        for each in twins:
            each.remove_some()
    assert trail.verify(1, limit=100).found is None
    assert len(rows(database)) <= 12


async def test_a_noted_hash_is_compared_as_long_as_its_record_is_kept(trail, database):
    fill(trail, range(12))
    noted = {sequence: trail.sha256_at(sequence) for sequence in range(1, 25)}
    await AuditRetention(trail, database, keep_s=LONG_S, records_max=10).look()
    through = trail.removed().through
    servicer = AuditServicer(trail, database)

    async def verify(sequence):
        request = audit_pb.VerifyAuditTrailRequest(
            known_sequence=sequence, known_sha256=noted[sequence]
        )
        return await servicer.VerifyAuditTrail(request, None)

    for sequence in (through, through + 1, 24):
        assert not (await verify(sequence)).broken_sequence
    with pytest.raises(ServiceError, match="kept long enough"):
        await verify(through - 1)
