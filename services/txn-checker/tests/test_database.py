"""Half messages and checks in the database, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import pytest
from sqlalchemy import event, select
from sqlalchemy.engine import make_url

from ariane_servicekit import SystemClock
from ariane_servicekit.database import (
    DATABASE_ERROR_RULES,
    Database,
)
from ariane_servicekit.rpc.error_status import ErrorTranslator
from ariane_txn_checker.database import (
    SCHEMA,
    CheckStore,
    InquiryStore,
    Stretch,
    SurveyStore,
    TransactionSelection,
)
from ariane_txn_checker.database.tables import CHECK, TRANSACTION
from ariane_txn_checker.transaction import (
    Answer,
    BrokerKey,
    Outcome,
    State,
    TransactionKey,
)

BROKER = BrokerKey("c1", "broker-a")
ALL = range(1_000_000)
NO_SHARE = {"group_limit": 100, "busy_groups": (), "busy_ids": ()}


def key(number=1):
    return TransactionKey(BROKER, f"T{number}")


def stretch(*halves, wait_ms=0, offsets=ALL, began_ms=0):
    return Stretch({each.transaction_id: (each, wait_ms) for each in halves}, offsets, began_ms)


def due_ids(database, lease, **limits):
    found = CheckStore(database).due(lease, **{"limit": 100, **NO_SHARE, **limits})
    return [each.key.transaction_id for each in found]


def rows(database, table):
    with database.reading() as connection:
        return connection.execute(select(table)).all()


# --- surveys ---


def test_a_half_message_gets_one_row(database, lease, half):
    surveys = SurveyStore(database)
    assert surveys.take_in(lease, stretch(half(1), half(2), wait_ms=60_000)) == 2
    assert surveys.take_in(lease, stretch(half(1), half(2))) == 0
    found = InquiryStore(database).transaction("T1")
    assert (found.key, found.state, found.check_count) == (key(), State.WAITING, 0)
    assert found.keys == ("order-1",)
    assert found.next_check_ms == found.first_seen_ms + 60_000
    assert due_ids(database, lease) == []


def test_one_that_the_broker_parked_is_parked_in_an_emptied_database(database, lease, half):
    SurveyStore(database).take_in(lease, stretch(half(parked=True)))
    found = InquiryStore(database).transaction("T1")
    assert found.state is State.PARKED
    assert found.end_ms is not None
    assert due_ids(database, lease) == []


def test_what_is_no_longer_listed_is_due_and_what_is_listed_again_is_not(database, lease, half):
    surveys = SurveyStore(database)
    halves = [half(1), half(2), half(3, parked=True), half(9)]
    surveys.take_in(lease, stretch(*halves, wait_ms=60_000))
    surveys.take_in(lease, stretch(halves[0], offsets=range(5), wait_ms=60_000))
    assert sorted(due_ids(database, lease)) == ["T2", "T3"]
    assert InquiryStore(database).transaction("T3").unlisted
    surveys.take_in(lease, stretch(*halves, wait_ms=60_000))
    assert due_ids(database, lease) == []
    assert InquiryStore(database).transaction("T3").state is State.PARKED


def test_one_that_was_carried_forward_is_not_lost_sight_of(database, lease, half):
    surveys = SurveyStore(database)
    surveys.take_in(lease, stretch(half(1), half(2), wait_ms=60_000))
    moved = half(1, half_queue_offset=50)
    surveys.take_in(lease, stretch(half(2), moved, wait_ms=60_000))
    assert due_ids(database, lease) == []
    assert InquiryStore(database).transaction("T1").half_queue_offset == 50


def test_a_decision_that_the_broker_lost_is_open_again(database, lease, half):
    surveys, inquiries = SurveyStore(database), InquiryStore(database)
    surveys.take_in(lease, stretch(half()))
    CheckStore(database).decide(lease, key(), Outcome.COMMIT, "producer-1")
    # This list was made before the decision.
    surveys.take_in(lease, stretch(half(), began_ms=0))
    assert inquiries.transaction("T1").state is State.DECIDED
    surveys.take_in(lease, stretch(half(), began_ms=surveys.now_ms() + 1000))
    found = inquiries.transaction("T1")
    assert (found.state, found.outcome, found.decider) == (State.WAITING, Outcome.UNSPECIFIED, "")
    assert found.end_ms is None


def test_what_was_decided_long_ago_is_forgotten_with_its_checks(database, lease, half):
    surveys, checks = SurveyStore(database), CheckStore(database)
    surveys.take_in(lease, stretch(half(1), half(2)))
    for number in (1, 2):
        checks.begin_check(lease, key(number), interval_ms=0)
    checks.decide(lease, key(1), Outcome.ROLLBACK)
    assert surveys.purge(lease, keep_ms=60_000) == 0
    assert surveys.purge(lease, keep_ms=-60_000) == 1
    assert [row.transaction_id for row in rows(database, TRANSACTION)] == ["T2"]
    assert [row.transaction_id for row in rows(database, CHECK)] == ["T2"]


# --- checks ---


def test_a_check_is_counted_before_it_is_asked(database, lease, half):
    SurveyStore(database).take_in(lease, stretch(half()))
    checks, inquiries = CheckStore(database), InquiryStore(database)
    assert due_ids(database, lease) == ["T1"]
    assert checks.begin_check(lease, key(), interval_ms=60_000) == 1
    assert due_ids(database, lease) == []
    assert 0 < checks.next_due_in_ms(lease) <= 60_000
    found = inquiries.transaction("T1")
    assert (found.state, found.check_count) == (State.ASKING, 1)
    assert checks.begin_check(lease, key(), interval_ms=0) is None
    checks.end_check(lease, key(), 1, Answer(Outcome.UNKNOWN, "producer-1"))
    assert inquiries.transaction("T1").state is State.WAITING
    [record] = inquiries.checks(key(), after=0, limit=10)
    assert (record.answer, record.client_id) == (Outcome.UNKNOWN, "producer-1")
    assert record.checker_id == "checker-1"
    assert record.answer_ms >= record.ask_ms
    assert inquiries.checks(key(), after=1, limit=10) == []


def test_silence_is_a_check_and_a_broker_that_is_away_is_none(database, lease, half):
    SurveyStore(database).take_in(lease, stretch(half()))
    checks, inquiries = CheckStore(database), InquiryStore(database)
    number = checks.begin_check(lease, key(), interval_ms=0)
    checks.end_check(lease, key(), number, "CLIENT_NOT_ATTACHED")
    number = checks.begin_check(lease, key(), interval_ms=60_000)
    checks.undo_check(lease, key(), number, wait_ms=0)
    assert inquiries.transaction("T1").check_count == 1
    [record] = inquiries.checks(key(), after=0, limit=10)
    assert record.failure_reason == "CLIENT_NOT_ATTACHED"
    assert checks.begin_check(lease, key(), interval_ms=0) == 3
    checks.postpone(lease, key(), wait_ms=60_000)
    assert due_ids(database, lease) == []


def test_one_that_a_dead_checker_asked_about_is_due_again(database, lease, half):
    SurveyStore(database).take_in(lease, stretch(half()))
    checks = CheckStore(database)
    checks.begin_check(lease, key(), interval_ms=0)
    assert due_ids(database, lease) == ["T1"]
    assert checks.begin_check(lease, key(), interval_ms=0) == 2


def test_no_group_stands_in_the_way_of_another(database, lease, half):
    silent = [half(number, group="silent") for number in range(10)]
    SurveyStore(database).take_in(lease, stretch(*silent))
    SurveyStore(database).take_in(lease, stretch(half(50, group="lively"), offsets=range(50, 60)))
    assert due_ids(database, lease, limit=3, group_limit=2).count("T50") == 1
    assert len(due_ids(database, lease, group_limit=4)) == 5
    assert due_ids(database, lease, busy_groups=("silent",)) == ["T50"]
    assert "T50" not in due_ids(database, lease, busy_ids=("T50",))


def test_who_was_asked_least_comes_first(database, lease, half):
    checks = CheckStore(database)
    SurveyStore(database).take_in(lease, stretch(half(1), half(2)))
    checks.begin_check(lease, key(1), interval_ms=-1000)
    assert due_ids(database, lease) == ["T2", "T1"]


def test_the_first_decision_is_kept(database, lease, half):
    SurveyStore(database).take_in(lease, stretch(half()))
    checks, inquiries = CheckStore(database), InquiryStore(database)
    assert checks.decide(lease, key(), Outcome.COMMIT, "producer-1")
    assert not checks.decide(lease, key(), Outcome.ROLLBACK, "producer-2")
    assert not inquiries.decide(key(), Outcome.ROLLBACK)
    found = inquiries.transaction("T1")
    assert (found.state, found.outcome) == (State.DECIDED, Outcome.COMMIT)
    assert (found.decider, found.cause) == ("producer-1", "")
    assert found.next_check_ms is None
    assert not checks.park(lease, key())
    assert checks.begin_check(lease, key(), interval_ms=0) is None


def test_an_outcome_that_cannot_be_learned_says_so(database, lease, half):
    SurveyStore(database).take_in(lease, stretch(half()))
    CheckStore(database).decide(lease, key(), Outcome.UNSPECIFIED)
    found = InquiryStore(database).transaction("T1")
    assert (found.state, found.outcome) == (State.DECIDED, Outcome.UNSPECIFIED)
    assert found.cause == "the broker no longer knows it"


# --- operators ---


def test_an_operators_decision_is_known_as_such_whoever_writes_it_down(database, lease, half):
    SurveyStore(database).take_in(lease, stretch(half(1), half(2), half(3)))
    checks, inquiries = CheckStore(database), InquiryStore(database)
    for number in (1, 2, 3):
        inquiries.intend(key(number), Outcome.ROLLBACK, "the customer called")
    # The checker that was asked died; the one that looks after the broker learns the outcome.
    checks.decide(lease, key(1), Outcome.ROLLBACK)
    checks.decide(lease, key(2), Outcome.COMMIT)
    inquiries.forget_intention(key(3))
    checks.decide(lease, key(3), Outcome.ROLLBACK)
    found = [inquiries.transaction(f"T{number}") for number in (1, 2, 3)]
    assert [each.decider for each in found] == ["operator", "", ""]
    assert [each.cause for each in found] == ["the customer called", "", ""]


def test_a_parked_one_is_resumed_with_its_checks_counted_anew(database, lease, half):
    SurveyStore(database).take_in(lease, stretch(half()))
    checks, inquiries = CheckStore(database), InquiryStore(database)
    checks.begin_check(lease, key(), interval_ms=0)
    assert not inquiries.resume(key())
    assert checks.park(lease, key())
    assert not checks.park(lease, key())
    assert due_ids(database, lease) == []
    assert inquiries.tally("checker-1").parked_count == 1
    assert inquiries.resume(key())
    assert due_ids(database, lease) == ["T1"]
    assert checks.begin_check(lease, key(), interval_ms=0) == 2
    assert inquiries.transaction("T1").check_count == 1


def test_a_parked_one_that_is_listed_after_all_stays_parked(database, lease, half):
    surveys, checks = SurveyStore(database), CheckStore(database)
    surveys.take_in(lease, stretch(half(1), half(2)))
    checks.park(lease, key(1))
    surveys.take_in(lease, stretch())
    for number in (1, 2):
        checks.note_listed(lease, key(number), interval_ms=60_000)
    assert due_ids(database, lease) == []
    first, second = (InquiryStore(database).transaction(f"T{each}") for each in (1, 2))
    assert (first.state, first.next_check_ms) == (State.PARKED, None)
    assert (second.state, second.unlisted) == (State.WAITING, False)


def test_lists_have_an_order_a_filter_and_pages(database, lease, half):
    surveys, inquiries = SurveyStore(database), InquiryStore(database)
    for number in range(6):
        group = "odd" if number % 2 else "even"
        one = stretch(half(number, group=group), offsets=range(number, number + 1))
        surveys.take_in(lease, Stretch(one.listed, one.offsets, 0))
    listed = []
    after = None
    while page := inquiries.under_check(TransactionSelection(), after=after, limit=4):
        listed += page
        last = page[-1]
        after = (last.next_check_ms, "c1", "broker-a", last.key.transaction_id)
    assert [each.next_check_ms for each in listed] == sorted(each.next_check_ms for each in listed)
    assert {each.key.transaction_id for each in listed} == {f"T{number}" for number in range(6)}
    assert len(listed) == 6
    for selection, count in (
        (TransactionSelection(producer_group="odd"), 3),
        (TransactionSelection(topic="orders", broker_name="broker-a"), 6),
        (TransactionSelection(topic="bills"), 0),
        (TransactionSelection(store_ms_end=1_000_002), 2),
    ):
        assert len(inquiries.under_check(selection, after=None, limit=10)) == count
    for number in (4, 2):
        CheckStore(database).park(lease, key(number))
    parked = inquiries.parked(TransactionSelection(), after=None, limit=10)
    assert {each.key.transaction_id for each in parked} == {"T2", "T4"}
    tally = inquiries.tally("checker-1")
    assert (tally.checked_count, tally.parked_count) == (4, 2)
    assert tally.oldest_store_ms == 1_000_000
    assert inquiries.tally("checker-2").checked_count == 0
    assert inquiries.transaction("nobody") is None


# --- many transactions, and a database that takes no changes ---


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "selection", [TransactionSelection(), TransactionSelection("payments", "orders")]
)
def test_a_page_is_found_by_an_index_and_sorted_by_none(database, selection):
    """Else a list of n pages costs n times all there are."""
    plans = []

    @event.listens_for(database._engine, "before_cursor_execute")
    def explain(connection, cursor, statement, parameters, context, executemany):
        if statement.startswith("SELECT checked_transaction"):
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans.append(" ".join(row[3] for row in cursor.fetchall()))

    inquiries = InquiryStore(database)
    for after in (None, (5, "c1", "broker-a", "T1")):
        inquiries.under_check(selection, after=after, limit=10)
        inquiries.parked(selection, after=after, limit=10)
    assert len(plans) == 4
    for plan in plans:
        assert "USING INDEX ix_checked_transaction" in plan
        assert "TEMP B-TREE" not in plan


async def test_a_database_that_takes_no_changes_is_told(database, database_url, lease, half):
    SurveyStore(database).take_in(lease, stretch(half()))
    CheckStore(database).park(lease, key())
    url = f"{database_url}?options=-cdefault_transaction_read_only%3Don"
    if database_url.startswith("sqlite"):
        url = f"sqlite:///file:{make_url(database_url).database}?mode=ro&uri=true"
    read_only = Database(url, SCHEMA, SystemClock())
    inquiries = InquiryStore(read_only)
    assert inquiries.parked(TransactionSelection(), after=None, limit=10)
    with pytest.raises(Exception, match=r"read-?only") as refused:
        await read_only.call(inquiries.resume, key())
    told = ErrorTranslator(DATABASE_ERROR_RULES).service_error(refused.value)
    assert told.row.name == "SERVICE_BUSY"
    assert "the database does not do this now" in str(told)
    read_only.close()
