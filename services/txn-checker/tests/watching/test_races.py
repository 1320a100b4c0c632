"""Whose word counts, and what is seen of changes that come in the middle of something."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from ariane_servicekit import ServiceError
from ariane_txn_checker.database import CheckStore, InquiryStore
from ariane_txn_checker.decisions import OperatorDecisions
from ariane_txn_checker.transaction import OPERATOR, Outcome, State
from ariane_txn_checker.watching import survey


@pytest.fixture
def inquiries(memory):
    return InquiryStore(memory)


async def test_a_producer_that_answers_late_has_not_decided(checker, broker, clock, inquiries):
    def producer(transaction_id):
        # It was decided while it was asked: its answer changes nothing.
        broker.settle(transaction_id, Outcome.ROLLBACK)
        return Outcome.COMMIT

    broker.producers["payments"] = producer
    broker.store("T1")
    checker()
    await clock.elapse(10)
    found = inquiries.transaction("T1")
    assert (found.state, found.outcome, found.decider) == (State.DECIDED, Outcome.ROLLBACK, "")
    assert broker.halves["T1"].decisions == [Outcome.ROLLBACK]


async def test_what_changes_while_pages_are_turned_is_seen_in_the_next_turn(
    checker, broker, clock, inquiries, monkeypatch
):
    monkeypatch.setattr(survey, "PAGE_SIZE", 2)
    for number in range(5):
        broker.store(f"T{number}", immunity_ms=1_000_000)
    await clock.elapse(10)
    checker()
    await clock.elapse(1)
    # Not young, so that this look is the last one unless the ends say otherwise.
    broker.store("T5", immunity_ms=0)
    broker.between_pages = lambda: broker.settle("T0", Outcome.COMMIT)
    await clock.elapse(5)
    assert broker.between_pages is None
    assert inquiries.transaction("T0").outcome is Outcome.COMMIT
    assert inquiries.transaction("T5").check_count == 1


async def test_a_half_message_that_is_carried_forward_is_no_other_one(
    checker, broker, clock, inquiries
):
    broker.store("T1")
    checker()
    await clock.elapse(8)
    broker.carry_forward("T1")
    await clock.elapse(50)
    found = inquiries.transaction("T1")
    assert (found.state, found.check_count) == (State.WAITING, 1)
    assert found.half_queue_offset == broker.halves["T1"].half_message.half_queue_offset


async def test_an_operators_word_is_known_as_such_when_its_answer_was_lost(
    checker, brokers, memory, broker, clock, inquiries
):
    decisions = OperatorDecisions(memory, brokers)
    for name in ("T1", "T2", "T3"):
        broker.store(name)
    checker()
    await clock.elapse(10)
    broker.lost_answer_count = 1
    with pytest.raises(ServiceError) as uncertain:
        await decisions.decide("T1", Outcome.COMMIT, "order 4711")
    assert uncertain.value.row.name == "DEADLINE_PASSED"
    # This one never reached the broker, whose producer decides then.
    broker.reachable = False
    with pytest.raises(ServiceError) as refused:
        await decisions.decide("T2", Outcome.COMMIT, "order 4712")
    assert refused.value.row.name == "SERVICE_BUSY"
    broker.reachable = True
    broker.settle("T2", Outcome.COMMIT)
    await decisions.decide("T3", Outcome.ROLLBACK, "order 4713")
    await clock.elapse(10)
    found = [inquiries.transaction(name) for name in ("T1", "T2", "T3")]
    assert [each.outcome.name for each in found] == ["COMMIT", "COMMIT", "ROLLBACK"]
    assert [each.decider for each in found] == [OPERATOR, "", OPERATOR]
    assert [each.cause for each in found] == ["order 4711", "", "order 4713"]


async def test_what_a_broker_fails_at_waits_an_interval(checker, broker, clock, inquiries):
    asked = []

    def producer(transaction_id):
        asked.append(clock.monotonic())
        broker.lost_answer_count = 2  # That of the check, too: it may have been asked.
        return Outcome.COMMIT

    broker.producers["payments"] = producer
    broker.store("T1")
    checker(check_count_max=3)
    await clock.elapse(100)
    assert len(asked) == 2
    assert 60 <= asked[1] - asked[0] <= 62
    broker.producers.clear()
    broker.lost_answer_count = 0
    await clock.elapse(60)
    # The answer to parking is lost: it is said again, an interval later, and parked once.
    parks = []
    park = broker.park

    async def counted(transaction_id, *, check_count):
        parks.append(clock.monotonic())
        broker.lost_answer_count = int(len(parks) == 1)
        await park(transaction_id, check_count=check_count)

    broker.park = counted
    await clock.elapse(200)
    assert len(parks) == 2
    assert 60 <= parks[1] - parks[0] <= 62
    assert broker.halves["T1"].copy_count == 1
    assert inquiries.transaction("T1").state is State.PARKED


async def test_a_fault_of_our_own_is_not_tried_in_a_circle(
    checker, memory, broker, clock, monkeypatch
):
    tries = []

    def fail(*_arguments, **_named):
        tries.append(clock.monotonic())
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(CheckStore, "begin_check", fail)
    broker.store("T1")
    checker(retry_ms=5_000)
    await clock.elapse(26)
    assert 3 <= len(tries) <= 5


async def test_who_cannot_renew_looks_after_nothing_when_the_lease_is_over(
    checker, memory, broker, clock, monkeypatch
):
    running = checker()
    await clock.elapse(1)
    assert running.keeper.held
    renewing = memory.call

    async def hang(step, *arguments, **named):
        if step.__name__ in {"beat", "renew"}:
            raise ConnectionError("the database does not answer")
        return await renewing(step, *arguments, **named)

    monkeypatch.setattr(memory, "call", hang)
    await clock.elapse(11)
    assert running.keeper.held
    await clock.elapse(7)
    assert not running.keeper.held
    names = [task.get_name() for task in asyncio.all_tasks()]
    assert not [name for name in names if name.startswith("watch:")]


async def test_what_the_broker_decides_between_two_questions_is_learned_from_the_op_topic(
    checker, broker, clock, inquiries
):
    broker.store("T1", immunity_ms=1_000_000)
    checker()
    await clock.elapse(10)
    assert inquiries.transaction("T1").state is State.WAITING
    # Nothing new in the half topic: only the end of the op topic tells.
    broker.settle("T1", Outcome.COMMIT)
    await clock.elapse(4)
    assert inquiries.transaction("T1").outcome is Outcome.COMMIT
    assert broker.halves["T1"].ask_count == 0


async def test_a_check_that_reached_no_producer_leaves_no_trace(checker, broker, clock, inquiries):
    ask = broker.ask

    async def decided_first(transaction_id, *, check_count):
        broker.settle(transaction_id, Outcome.COMMIT)
        return await ask(transaction_id, check_count=check_count)

    broker.ask = decided_first
    broker.store("T1")
    checker()
    await clock.elapse(10)
    found = inquiries.transaction("T1")
    assert (found.outcome, found.decider, found.check_count) == (Outcome.COMMIT, "", 0)
    assert inquiries.checks(found.key, after=0, limit=9) == []


async def test_one_that_is_left_out_of_a_list_is_not_given_up(checker, broker, clock, inquiries):
    broker.store("T1", immunity_ms=1_000_000)
    checker()
    await clock.elapse(5)
    lists = broker.list_half_messages

    async def without_the_first(**which):
        page = await lists(**which)
        left = [each for each in page.half_messages if each.transaction_id != "T1"]
        return replace(page, half_messages=left)

    broker.list_half_messages = without_the_first
    broker.store("T2", immunity_ms=0)
    await clock.elapse(4)
    broker.list_half_messages = lists
    await clock.elapse(4)
    found = inquiries.transaction("T1")
    assert (found.state, found.unlisted) == (State.WAITING, False)
    broker.settle("T1", Outcome.ROLLBACK)
    await clock.elapse(4)
    assert inquiries.transaction("T1").outcome is Outcome.ROLLBACK
