"""The trail on SQLite and on a real PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import delete, update

from ariane.admin.v1.audit_service_pb2 import (
    AUDIT_OUTCOME_BEGUN,
    AUDIT_OUTCOME_DONE,
    AUDIT_OUTCOME_FAILED,
)
from ariane_admin.audit.trail import AuditedRequest, AuditTrail, Ended, Selection
from ariane_admin.database.tables import AUDIT_HEAD, AUDIT_RECORD, METADATA, SCHEMA

ALL = Selection()


@pytest.fixture
def trail(database):
    return AuditTrail(database)


def asked(number=1, **other):
    values = {
        "entry_id": f"e{number}",
        "user": "",
        "claimed_user": "ann",
        "source_address": "10.0.0.1:4711",
        "method": "ariane.admin.v1.TopicService/DeleteTopic",
        "resource_name": f"t{number}",
        "request_json": "{}",
        "before_json": "",
    }
    return AuditedRequest(**{**values, **other})


def fill(trail, count):
    for number in range(1, count + 1):
        trail.end(trail.begin(asked(number)), Ended(AUDIT_OUTCOME_DONE, "{}"))


def test_the_revisions_make_the_tables_as_the_code_has_them(database):
    with database.reading() as connection:
        options = {"version_table": SCHEMA.version_table, "compare_type": True}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, METADATA) == []


def test_a_change_is_listed_with_begin_and_end(trail):
    begun = trail.begin(asked())
    trail.end(begun, Ended(AUDIT_OUTCOME_FAILED, "", "TOPIC_NOT_FOUND", "no such topic"))
    [entry] = trail.entries(ALL, before=None, limit=10)
    assert entry.begin == begun
    assert entry.end.record.outcome == AUDIT_OUTCOME_FAILED
    assert entry.end.record.failure_reason == "TOPIC_NOT_FOUND"
    assert entry.end.record.time_ms >= entry.begin.record.time_ms


def test_a_change_without_an_end_says_so(trail):
    trail.begin(asked())
    [entry] = trail.entries(ALL, before=None, limit=10)
    assert entry.end is None
    assert entry.begin.record.outcome == AUDIT_OUTCOME_BEGUN


def test_newest_first_page_by_page(trail):
    fill(trail, 5)
    first = trail.entries(ALL, before=None, limit=2)
    assert [each.begin.record.resource_name for each in first] == ["t5", "t4"]
    then = trail.entries(ALL, before=first[-1].begin.record.sequence, limit=2)
    assert [each.begin.record.resource_name for each in then] == ["t3", "t2"]


@pytest.mark.parametrize(
    "wanted",
    [
        Selection(user="bob"),
        Selection(method="CreateTopic"),
        Selection(resource_name="t3"),
    ],
)
def test_a_selection_finds_what_it_says(trail, wanted):
    fill(trail, 2)
    method = "ariane.admin.v1.TopicService/CreateTopic"
    trail.begin(asked(3, claimed_user="bob", method=method))
    found = trail.entries(wanted, before=None, limit=10)
    assert [each.begin.record.entry_id for each in found] == ["e3"]


def test_a_percent_sign_is_no_pattern(trail):
    fill(trail, 1)
    assert trail.entries(Selection(method="%"), before=None, limit=10) == []


def test_an_untouched_trail_fits_stretch_by_stretch(trail):
    fill(trail, 5)
    first = trail.verify(1, limit=4)
    assert (first.found, first.record_count, first.next_sequence) == (None, 4, 5)
    rest = trail.verify(5, limit=100)
    assert (rest.found, rest.record_count, rest.next_sequence) == (None, 6, 0)
    assert rest.last_sequence == 10
    assert trail.sha256_at(10)[0] == rest.last_sha256


def test_an_empty_trail_fits(trail):
    assert trail.verify(1, limit=10).found is None


def test_an_altered_record_is_found(trail, database):
    fill(trail, 3)
    with database.writing() as connection:
        connection.execute(
            update(AUDIT_RECORD).where(AUDIT_RECORD.c.sequence == 3).values(claimed_user="eve")
        )
    verdict = trail.verify(1, limit=100)
    assert verdict.found.sequence == 3
    assert verdict.last_sequence == 2


@pytest.mark.parametrize(("gone", "found"), [([1], 1), ([3], 3), ([5, 6], 5)])
def test_a_deleted_record_is_found_also_at_begin_and_end(trail, database, gone, found):
    fill(trail, 3)
    with database.writing() as connection:
        connection.execute(delete(AUDIT_RECORD).where(AUDIT_RECORD.c.sequence.in_(gone)))
    assert trail.verify(1, limit=100).found.sequence == found


def test_a_head_that_was_turned_back_is_found(trail, database):
    fill(trail, 2)
    with database.writing() as connection:
        connection.execute(update(AUDIT_HEAD).values(sequence=3))
    assert trail.verify(1, limit=100).found.sequence == 4


def test_many_writers_make_one_chain(trail):
    def change(number):
        trail.end(trail.begin(asked(number)), Ended(AUDIT_OUTCOME_DONE))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(change, range(20)))
    verdict = trail.verify(1, limit=100)
    assert (verdict.found, verdict.record_count) == (None, 40)


def test_text_that_no_database_keeps_is_kept_otherwise(trail):
    trail.begin(asked(resource_name="a\0b" + "x" * 1000))
    [entry] = trail.entries(ALL, before=None, limit=1)
    assert entry.begin.record.resource_name.startswith("a\N{REPLACEMENT CHARACTER}b")
    assert trail.verify(1, limit=10).found is None
