"""The chain alone: every change of a record shows, wherever it is."""

from dataclasses import fields, replace

import pytest

from ariane_admin.audit.chain import FIRST_PREVIOUS, AuditRecord, find_break, record_sha256

RECORD = AuditRecord(
    sequence=1,
    entry_id="e1",
    ended=False,
    time_ms=1_700_000_000_000,
    user="",
    claimed_user="ann",
    source_address="10.0.0.1:4711",
    method="ariane.admin.v1.TopicService/DeleteTopic",
    resource_name="orders",
    request_json='{"topic":"orders"}',
    before_json="{}",
    after_json="",
    outcome=1,
    failure_reason="",
    failure_message="",
)


def chain(count):
    linked, previous = [], FIRST_PREVIOUS
    for sequence in range(1, count + 1):
        record = replace(RECORD, sequence=sequence, entry_id=f"e{sequence}")
        previous = record_sha256(previous, record)
        linked.append((record, previous))
    return linked


def test_an_untouched_chain_fits():
    assert find_break(FIRST_PREVIOUS, 1, chain(5)) is None


def test_a_stretch_fits_behind_the_record_before_it():
    linked = chain(5)
    assert find_break(linked[1][1], 3, linked[2:]) is None


@pytest.mark.parametrize("name", [f.name for f in fields(AuditRecord) if f.name != "sequence"])
def test_every_altered_field_shows(name):
    linked = chain(5)
    record, sha256 = linked[2]
    value = getattr(record, name)
    altered = (not value) if isinstance(value, bool) else value + type(value)("1")
    linked[2] = (replace(record, **{name: altered}), sha256)
    found = find_break(FIRST_PREVIOUS, 1, linked)
    assert found is not None
    assert found.sequence == 3


def test_a_record_that_is_hashed_anew_breaks_the_next():
    linked = chain(5)
    record = replace(linked[2][0], resource_name="other")
    linked[2] = (record, record_sha256(linked[1][1], record))
    assert find_break(FIRST_PREVIOUS, 1, linked).sequence == 4


def test_a_missing_record_shows():
    linked = chain(5)
    del linked[2]
    found = find_break(FIRST_PREVIOUS, 1, linked)
    assert (found.sequence, found.finding) == (3, "record 3 is missing; 4 comes next")


def test_text_that_moves_between_fields_shows():
    one = replace(RECORD, method="ab", resource_name="c")
    other = replace(RECORD, method="a", resource_name="bc")
    assert record_sha256(FIRST_PREVIOUS, one) != record_sha256(FIRST_PREVIOUS, other)
