"""When is asked, how often, and what comes of it: on a virtual clock, over twin brokers."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from ariane_txn_checker.database import InquiryStore
from ariane_txn_checker.transaction import BrokerKey, Outcome, State
from ariane_txn_checker.watching import survey


@pytest.fixture
def inquiries(memory):
    return InquiryStore(memory)


@pytest.fixture
def asked(broker, clock):
    """Have a group's producer answer; every question's second is noted by transaction."""
    seconds = {}

    def asked(answer=Outcome.UNKNOWN, group="payments"):
        def producer(transaction_id):
            seconds.setdefault(transaction_id, []).append(clock.monotonic())
            return answer

        broker.producers[group] = producer
        return seconds

    return asked


async def test_first_after_six_seconds_then_every_minute_and_parked_after_fifteen(
    checker, broker, clock, asked, inquiries
):
    seconds = asked(Outcome.UNKNOWN)
    broker.store("T1")
    checker()
    await clock.elapse(1000)
    times = seconds["T1"]
    assert len(times) == 15
    assert 6 <= times[0] <= 8
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert all(60 <= gap <= 61 for gap in gaps)
    assert broker.halves["T1"].copy_count == 1
    assert broker.halves["T1"].outcome is None
    found = inquiries.transaction("T1")
    assert (found.state, found.check_count) == (State.PARKED, 15)
    records = inquiries.checks(found.key, after=0, limit=100)
    assert [record.check_number for record in records] == list(range(1, 16))
    assert {record.client_id for record in records} == {"producer-of-payments"}


async def test_its_own_immunity_goes_before_ours(checker, broker, clock, asked):
    seconds = asked()
    broker.store("soon", immunity_ms=1_000)
    broker.store("late", immunity_ms=90_000)
    checker()
    await clock.elapse(100)
    assert 1 <= seconds["soon"][0] <= 4
    [late] = seconds["late"]
    assert 90 <= late <= 92


@pytest.mark.parametrize("outcome", [Outcome.COMMIT, Outcome.ROLLBACK])
async def test_an_answer_ends_it(checker, broker, clock, asked, inquiries, outcome):
    asked(outcome)
    broker.store("T1")
    running = checker()
    await clock.elapse(10)
    assert broker.halves["T1"].decisions == [outcome]
    found = inquiries.transaction("T1")
    assert (found.state, found.outcome) == (State.DECIDED, outcome)
    assert found.decider == "producer-of-payments"
    assert (running.counts.checks, running.counts.decided) == (1, 1)
    await clock.elapse(130)
    assert broker.halves["T1"].ask_count == 1


async def test_what_is_settled_at_once_leaves_no_row(checker, broker, clock, inquiries):
    checker()
    for number in range(50):
        broker.store(f"T{number}")
        await clock.elapse(1)
        broker.settle(f"T{number}", Outcome.COMMIT)
    await clock.elapse(10)
    assert all(inquiries.transaction(f"T{number}") is None for number in range(50))


async def test_what_its_producer_settles_is_learned_without_a_question(
    checker, broker, clock, asked, inquiries
):
    seconds = asked(Outcome.UNKNOWN)
    broker.store("T1")
    checker()
    await clock.elapse(20)
    broker.settle("T1", Outcome.ROLLBACK)
    await clock.elapse(3)
    found = inquiries.transaction("T1")
    assert (found.state, found.outcome, found.check_count) == (State.DECIDED, Outcome.ROLLBACK, 1)
    await clock.elapse(130)
    assert len(seconds["T1"]) == 1


async def test_a_parked_one_that_is_settled_late_is_known(checker, broker, clock, inquiries):
    broker.store("T1")
    checker(check_count_max=1)
    await clock.elapse(120)
    assert inquiries.transaction("T1").state is State.PARKED
    broker.settle("T1", Outcome.COMMIT)
    await clock.elapse(3)
    found = inquiries.transaction("T1")
    assert (found.state, found.outcome) == (State.DECIDED, Outcome.COMMIT)


async def test_no_producer_uses_checks_up_and_no_broker_does_not(
    checker, broker, clock, asked, inquiries
):
    broker.store("T1")
    checker(check_count_max=3)
    await clock.elapse(7)
    assert inquiries.transaction("T1").check_count == 1
    [record] = inquiries.checks(inquiries.transaction("T1").key, after=0, limit=9)
    assert record.failure_reason == "CLIENT_NOT_ATTACHED"
    broker.reachable = False
    await clock.elapse(300)
    assert inquiries.transaction("T1").check_count == 1
    broker.reachable = True
    await clock.elapse(200)
    assert inquiries.transaction("T1").state is State.PARKED
    assert broker.halves["T1"].ask_count == 0


async def test_the_silent_keep_nobody_waiting(checker, broker, clock, asked):
    asked(None, group="silent")
    seconds = asked(Outcome.COMMIT, group="lively")
    for number in range(10):
        broker.store(f"silent-{number}", group="silent")
    broker.store("lively", group="lively")
    checker(concurrency=4, group_concurrency=2)
    await clock.elapse(10)
    assert 6 <= seconds["lively"][0] <= 9
    await clock.elapse(60)
    assert all(half.ask_count >= 1 for name, half in broker.halves.items() if name != "lively")


async def test_no_more_is_asked_at_once_than_allowed(checker, broker, clock):
    groups = 10
    at_once = []
    running = checker(concurrency=16, group_concurrency=4)
    for group in range(groups):
        broker.producers[f"g{group}"] = lambda _id: at_once.append(len(in_work())) or None
        for number in range(20):
            broker.store(f"{group}-{number}", group=f"g{group}")

    def in_work():
        names = [task.get_name() for task in asyncio.all_tasks()]
        return [name for name in names if name.startswith("check:")]

    await clock.elapse(30)
    assert max(at_once) == 16
    assert running.counts.checks > 0


async def test_what_retention_took_is_an_end_without_an_outcome(checker, broker, clock, inquiries):
    broker.store("T1")
    broker.store("T2")
    checker()
    await clock.elapse(10)
    broker.forget("T1")
    await clock.elapse(5)
    found = inquiries.transaction("T1")
    assert (found.state, found.outcome) == (State.DECIDED, Outcome.UNSPECIFIED)
    assert found.cause == "the broker no longer knows it"
    assert inquiries.transaction("T2").state is State.WAITING


async def test_a_checker_that_comes_late_finds_everything(
    checker, broker, clock, asked, monkeypatch
):
    monkeypatch.setattr(survey, "PAGE_SIZE", 100)
    asked(Outcome.COMMIT)
    for number in range(110):
        broker.store(f"T{number}")
    await clock.elapse(3600)
    assert all(half.outcome is None for half in broker.halves.values())
    checker(concurrency=64, group_concurrency=64)
    await clock.elapse(10)
    assert all(half.decisions == [Outcome.COMMIT] for half in broker.halves.values())


async def test_a_clock_that_jumps_makes_nothing_early_by_more_than_itself(
    checker, broker, clock, asked
):
    seconds = asked(Outcome.UNKNOWN)
    checker()
    await clock.elapse(1)
    broker.store("T1")
    clock.jump(-3600)
    await clock.elapse(20)
    # As if it had just been stored: its own age cannot be told.
    assert 6 <= seconds["T1"][0] <= 10


async def test_one_that_cannot_be_kept_stands_in_nobodys_way(checker, broker, clock, asked):
    seconds = asked(Outcome.COMMIT)
    broker.store("long" * 100)
    broker.store("nul\0")
    broker.store("T1")
    checker()
    await clock.elapse(10)
    assert set(seconds) == {"T1"}


# --- several checkers ---


async def test_checkers_share_brokers_and_take_over_from_the_dead(
    checker, brokers, broker, clock, asked
):
    for name in ("broker-b", "broker-c", "broker-d"):
        brokers.brokers[BrokerKey("c1", name)] = type(broker)(clock)
    one = checker("one")
    await clock.elapse(1)
    assert one.keeper.held == brokers.keys
    two = checker("two")
    await clock.elapse(20)
    assert len(one.keeper.held) == len(two.keeper.held) == 2
    assert one.keeper.held | two.keeper.held == brokers.keys
    await two.kill()
    await clock.elapse(10)
    assert len(one.keeper.held) == 2
    await clock.elapse(15)
    assert one.keeper.held == brokers.keys


async def test_one_that_stops_hands_over_at_once(checker, brokers, clock):
    one, two = checker("one"), checker("two")
    await clock.elapse(20)
    holder, other = (one, two) if one.keeper.held else (two, one)
    await holder.stop()
    await clock.elapse(6)
    assert other.keeper.held == brokers.keys


async def test_two_checkers_and_deaths_ask_no_more_often_than_allowed(
    checker, broker, clock, asked, inquiries
):
    asked(Outcome.UNKNOWN)
    for number in range(5):
        broker.store(f"T{number}")
    alive = [checker("c0", check_count_max=5), checker("c1", check_count_max=5)]
    for turn in range(2, 12):
        await clock.elapse(37)
        holder = next((each for each in alive if each.keeper.held), alive[0])
        await holder.kill()
        alive.remove(holder)
        alive.append(checker(f"c{turn}", check_count_max=5))
    await clock.elapse(600)
    for name, half in broker.halves.items():
        assert half.ask_count <= 5
        assert half.copy_count == 1
        assert inquiries.transaction(name).state is State.PARKED


async def test_no_checker_means_nothing_lost_and_nothing_visible(checker, broker, clock, asked):
    asked(Outcome.COMMIT)
    broker.store("T1")
    first = checker()
    await first.kill()
    await clock.elapse(3600)
    assert broker.halves["T1"].outcome is None
    checker("checker-2")
    await clock.elapse(30)
    assert broker.halves["T1"].decisions == [Outcome.COMMIT]
