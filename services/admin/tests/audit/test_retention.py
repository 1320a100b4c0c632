"""Old records of the trail go, and what is left is still checked: on SQLite and PostgreSQL."""

import json
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from sqlalchemy import delete, event, insert, select, update
from structlog.testing import capture_logs

from ariane.admin.v1 import audit_service_pb2 as audit_pb
from ariane.admin.v1.audit_service_pb2 import AUDIT_OUTCOME_DONE
from ariane_admin.audit import retention as retention_module
from ariane_admin.audit.retention import DAY_MS, AuditRetention
from ariane_admin.audit.servicer import AuditServicer
from ariane_admin.audit.trail import (
    RETENTION_ID,
    RETENTION_METHOD,
    AuditedRequest,
    AuditTrail,
    Ended,
    Selection,
    removed_by_retention,
)
from ariane_admin.database.tables import AUDIT_HEAD, AUDIT_RECORD
from ariane_servicekit import ServiceError

ALL = Selection()
LONG_S = 10 * 365 * 86_400.0
HOUR_MS = 3_600_000
YEAR = datetime.now(UTC).year


@pytest.fixture
def trail(database):
    return AuditTrail(database)


@pytest.fixture
def few_at_once(monkeypatch):
    monkeypatch.setattr(retention_module, "REMOVED_MAX", 4)


def retention_of(trail, database, *, records_max, keep_s=LONG_S, keep_at_least_s=0):
    return AuditRetention(
        trail, database, keep_s=keep_s, keep_at_least_s=keep_at_least_s, records_max=records_max
    )


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


def removed(database):
    with database.reading() as connection:
        return removed_by_retention(connection)


def aged(trail, database, numbers, age_ms):
    """Fill a trail as it would have been written some time ago."""
    now = database.now
    database.now = now - age_ms
    fill(trail, numbers)
    database.now = now


async def test_the_trail_keeps_so_many_records_and_what_is_left_is_checked(
    trail, database, few_at_once
):
    retention = retention_of(trail, database, records_max=20)
    fill(trail, range(10))
    await retention.look()
    assert len(rows(database)) == 20
    for number in range(10, 40):
        fill(trail, [number])
        await retention.look()
    kept = rows(database)
    assert len(kept) <= 22
    assert max(kept) > 80
    assert min(kept) == removed(database).through + 1
    verdict = trail.verify(1, limit=100)
    assert (verdict.found, verdict.record_count) == (None, len(kept))
    assert trail.verify(min(kept) + 3, limit=100).found is None
    newest = trail.entries(ALL, before=None, limit=100)
    assert "t39" in [each.begin.record.resource_name for each in newest]
    assert all(each.end is not None for each in newest)


async def test_records_of_an_age_go_once_a_day(trail, database, few_at_once):
    retention = retention_of(trail, database, keep_s=3 * 86_400, records_max=10_000)
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


async def test_removing_more_than_retention_is_detected(trail, database, few_at_once):
    retention = retention_of(trail, database, records_max=10)
    fill(trail, range(12))
    await retention.look()
    assert trail.verify(1, limit=100).found is None
    first = min(rows(database))
    remove(database, AUDIT_RECORD.c.sequence == first)
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


async def test_altered_entries_are_not_removed(trail, database, few_at_once):
    retention = retention_of(trail, database, records_max=10)
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
    twins = [retention_of(trail, database, records_max=10) for _ in range(2)]
    for _ in range(20):
        for each in twins:
            each.remove_some()
    assert trail.verify(1, limit=100).found is None
    assert len(rows(database)) <= 12


async def test_a_noted_hash_is_compared_as_long_as_its_record_is_kept(trail, database):
    fill(trail, range(12))
    noted = {sequence: trail.sha256_at(sequence)[0] for sequence in range(1, 25)}
    await retention_of(trail, database, records_max=10).look()
    through = removed(database).through
    servicer = AuditServicer(trail, database)

    async def verify(sequence):
        request = audit_pb.VerifyAuditTrailRequest(
            known_sequence=sequence, known_sha256=noted.get(sequence, bytes(32))
        )
        return await servicer.VerifyAuditTrail(request, None)

    for sequence in (through, through + 1, 24):
        assert not (await verify(sequence)).broken_sequence
    with pytest.raises(ServiceError, match=rf"record \d+ of {YEAR}-\S+Z removed those before"):
        await verify(through - 1)
    with pytest.raises(ServiceError, match="known_sequence must be at least 0, not -1"):
        await verify(-1)


def remove(database, which):
    with database.writing() as connection:
        connection.execute(delete(AUDIT_RECORD).where(which))


def forge(database, sequence, request_json, entry_id=f"{RETENTION_ID}9"):
    """Add a row that the chain does not have."""
    with database.writing() as connection:
        row = connection.execute(
            select(AUDIT_RECORD).order_by(AUDIT_RECORD.c.sequence.desc()).limit(1)
        ).one()
        forged = {
            **row._mapping,
            "sequence": sequence,
            "entry_id": entry_id,
            "ended": False,
            "request_json": request_json,
        }
        connection.execute(insert(AUDIT_RECORD).values(forged))


async def test_a_removal_is_not_explained_by_a_row_outside_of_the_chain(trail, database):
    fill(trail, range(6))
    fifth, _ = trail.sha256_at(5)
    remove(database, AUDIT_RECORD.c.sequence <= 5)
    says = [json.dumps({"through": through, "sha256": fifth.hex()}) for through in (5, 0, -1, -30)]
    for said in (*says, "", "{}", "[]", '{"through": 5, "sha256": "x"}'):
        for sequence in (-9, 0, 3, 99):
            forge(database, sequence, said)
            answer = await AuditServicer(trail, database).VerifyAuditTrail(
                audit_pb.VerifyAuditTrailRequest(), None
            )
            assert (answer.broken_sequence, answer.next_sequence) == (1, 0), (said, sequence)
            assert f"record {sequence}" in answer.finding
            remove(database, AUDIT_RECORD.c.sequence == sequence)


async def test_a_change_that_was_added_before_the_begin_is_found(trail, database):
    fill(trail, range(12))
    await retention_of(trail, database, records_max=10).look()
    assert trail.verify(1, limit=100).found is None
    forge(database, 2, "{}", entry_id="e")
    assert trail.verify(1, limit=100).found.sequence == 2


async def test_a_head_that_was_set_before_all_records_is_a_break(trail, database):
    fill(trail, range(2))
    with database.writing() as connection:
        connection.execute(update(AUDIT_HEAD).values(sequence=-1))
    answer = await AuditServicer(trail, database).VerifyAuditTrail(
        audit_pb.VerifyAuditTrailRequest(), None
    )
    assert answer.broken_sequence == 1


@contextmanager
def meanwhile(database, mark, work, *, at=1):
    """Do work once in another connection, when so many statements with a mark have run."""
    seen = 0

    def ran(_connection, _cursor, statement, *_):
        nonlocal seen
        seen += mark in statement
        if seen == at:
            seen += 1
            work()

    event.listen(database._engine, "after_cursor_execute", ran)
    yield
    event.remove(database._engine, "after_cursor_execute", ran)
    assert seen > at


@pytest.mark.parametrize("mark", ["FROM audit_head", "entry_id >= "])
def test_what_another_admin_removes_meanwhile_is_no_break(trail, database, mark):
    fill(trail, range(12))
    other = retention_of(trail, database, records_max=10)
    with meanwhile(database, mark, other.remove_some):
        assert trail.verify(4, limit=100).found is None
    assert rows(database)[0] > 4


async def test_a_noted_record_that_is_removed_meanwhile_is_no_break(trail, database):
    fill(trail, range(12))
    request = audit_pb.VerifyAuditTrailRequest(known_sequence=3, known_sha256=trail.sha256_at(3)[0])
    other = retention_of(trail, database, records_max=10)
    # The first is of the check of the chain.
    with meanwhile(database, "entry_id >= ", other.remove_some, at=2):
        answer = await AuditServicer(trail, database).VerifyAuditTrail(request, None)
    assert (answer.broken_sequence, answer.finding) == (0, "")
    assert rows(database)[0] > 3


async def test_young_records_do_not_go_for_their_number(trail, database, few_at_once):
    # Stretches of four go, or none: t4 is old, but what follows it is not.
    retention = retention_of(trail, database, keep_at_least_s=3 * 86_400, records_max=10)
    aged(trail, database, range(5), 5 * DAY_MS)
    aged(trail, database, range(5, 12), DAY_MS)
    with capture_logs() as logged:
        await retention.look()
        await retention.look()
    assert trail.verify(1, limit=100).found is None
    left = [each.begin.record for each in trail.entries(ALL, before=None, limit=100)]
    names = [each.resource_name for each in left if each.method != RETENTION_METHOD]
    assert names == [f"t{number}" for number in range(11, 3, -1)]
    [warning] = [each for each in logged if each["log_level"] == "warning"]
    assert warning["event"] == "audit_records_too_many"
    assert warning["count"] > warning["records_max"] == 10
    # Once an hour.
    database.now += HOUR_MS
    with capture_logs() as logged:
        await retention.look()
    assert [each["event"] for each in logged] == ["audit_records_too_many"]
