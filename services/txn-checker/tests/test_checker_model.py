"""Whatever happens in whatever order: decided or parked, once, and never asked too often.

Hypothesis plays producers, operators, deaths of checkers and brokers that are away, lose answers,
change while they are listed, carry half messages forward or lose the end of their log, over twin
brokers on a virtual clock. At the end the world is healed, and everything must come to its end.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ariane_servicekit import Loop, ServiceError
from ariane_servicekit.database import Database
from ariane_testkit.virtual_clock import VirtualClock
from ariane_txn_checker.database import SCHEMA, InquiryStore
from ariane_txn_checker.decisions import OperatorDecisions
from ariane_txn_checker.lease_keeper import LeaseKeeper
from ariane_txn_checker.testing import TwinBroker, TwinBrokers
from ariane_txn_checker.transaction import OPERATOR, BrokerKey, Outcome, State
from ariane_txn_checker.watching import survey
from ariane_txn_checker.watching.broker_watch import BrokerWatch
from ariane_txn_checker.watching.questioner import CheckRules
from ariane_txn_checker.watching.survey import SurveyTimes

BROKERS = [BrokerKey("c1", "broker-a"), BrokerKey("c1", "broker-b")]
GROUPS = ["payments", "refunds"]
CHECKS_MAX = 3
RULES = CheckRules(
    interval_ms=10_000,
    check_count_max=CHECKS_MAX,
    retry_ms=2_000,
    concurrency=4,
    group_concurrency=2,
)
TIMES = SurveyTimes(first_check_ms=6_000, note_age_ms=3_000, keep_decided_ms=86_400_000)
OUTCOMES = st.sampled_from([Outcome.COMMIT, Outcome.ROLLBACK])


class Checker:
    """One checker of the world."""

    def __init__(self, name, brokers, database, clock):
        watch = BrokerWatch(brokers, database, TIMES, RULES, clock, survey_interval_s=2)
        self.keeper = LeaseKeeper(name, brokers, database, watch.run, clock, lease_s=9)
        self.loop = Loop(name, self.keeper.turn, interval_s=3, clock=clock)
        self.loop.start(at_once=True)

    async def vanish(self):
        await self.loop.stop()
        await self.keeper.drop_all()

    async def stop(self):
        await self.loop.stop()
        await self.keeper.close()


class CheckersWorld(RuleBasedStateMachine):
    """Two brokers, some checkers, one database."""

    def __init__(self):
        super().__init__()
        self.page_size, survey.PAGE_SIZE = survey.PAGE_SIZE, 2
        self.runner = asyncio.Runner()
        self.folder = TemporaryDirectory()
        self.clock = VirtualClock()
        self.brokers = TwinBrokers()
        self.known = dict.fromkeys(BROKERS)
        self.checkers = []
        self.count = 0
        self.resumed = {}
        self.intended = set()
        self.answered = {}

    def run(self, work):
        return self.runner.run(work)

    async def _open(self):
        url = f"sqlite:///{Path(self.folder.name) / 'checker.db'}"
        self.database = Database(url, SCHEMA, self.clock, threads=0)
        await self.database.open(wait_s=0)
        self.decisions = OperatorDecisions(self.database, self.brokers)
        self.inquiries = InquiryStore(self.database)
        await self._start()

    async def _start(self):
        self.count += 1
        name = f"checker-{self.count}"
        self.checkers.append(Checker(name, self.brokers, self.database, self.clock))

    @initialize()
    def begin(self):
        for key in BROKERS:
            self.known[key] = self.brokers.brokers[key] = TwinBroker(self.clock)
        self.run(self._open())

    @property
    def halves(self):
        return {
            name: half for broker in self.known.values() for name, half in broker.halves.items()
        }

    def broker_of(self, name):
        return next(broker for broker in self.known.values() if name in broker.halves)

    @rule(
        key=st.sampled_from(BROKERS),
        group=st.sampled_from(GROUPS),
        immunity_ms=st.sampled_from([None, 0, 20_000]),
    )
    def store(self, key, group, immunity_ms):
        self.count += 1
        self.known[key].store(f"T{self.count}", group=group, immunity_ms=immunity_ms)

    @precondition(lambda self: self.halves)
    @rule(chosen=st.data(), outcome=OUTCOMES)
    def settle(self, chosen, outcome):
        name = chosen.draw(st.sampled_from(sorted(self.halves)))
        first = self.halves[name].outcome
        assert self.broker_of(name).settle(name, outcome) is (first or outcome)

    @rule(
        key=st.sampled_from(BROKERS),
        group=st.sampled_from(GROUPS),
        answer=st.sampled_from(["gone", None, *list(Outcome)[1:]]),
        first=st.sampled_from([None, Outcome.COMMIT, Outcome.ROLLBACK]),
    )
    def change_producer(self, key, group, answer, first):
        """Have producers answer so, perhaps after they have ended what they are asked about."""
        broker = self.known[key]
        broker.producers.pop(group, None)

        def producer(transaction_id):
            if first is not None:
                broker.settle(transaction_id, first)
            self.answered.setdefault(transaction_id, set()).add(answer)
            return answer

        if answer != "gone":
            broker.producers[group] = producer

    @rule(key=st.sampled_from(BROKERS), count=st.integers(1, 3))
    def lose_answers(self, key, count):
        self.known[key].lost_answer_count = count

    @precondition(lambda self: self.halves)
    @rule(chosen=st.data(), outcome=OUTCOMES)
    def settle_between_pages(self, chosen, outcome):
        name = chosen.draw(st.sampled_from(sorted(self.halves)))
        broker = self.broker_of(name)
        broker.between_pages = lambda: broker.settle(name, outcome)

    @precondition(lambda self: any(half.outcome is None for half in self.halves.values()))
    @rule(chosen=st.data())
    def carry_forward(self, chosen):
        waiting = sorted(name for name, half in self.halves.items() if half.outcome is None)
        name = chosen.draw(st.sampled_from(waiting))
        self.broker_of(name).carry_forward(name)

    @precondition(lambda self: any(half.outcome is not None for half in self.halves.values()))
    @rule(chosen=st.data())
    def lose_outcome(self, chosen):
        ended = sorted(name for name, half in self.halves.items() if half.outcome is not None)
        name = chosen.draw(st.sampled_from(ended))
        self.broker_of(name).lose_outcome(name)

    @rule(key=st.sampled_from(BROKERS), reachable=st.booleans())
    def reach(self, key, reachable):
        self.known[key].reachable = reachable

    @rule(seconds=st.sampled_from([0.5, 3, 7, 30]))
    def elapse(self, seconds):
        self.run(self.clock.elapse(seconds))

    @precondition(lambda self: len(self.checkers) < 3)
    @rule()
    def start_checker(self):
        self.run(self._start())

    @precondition(lambda self: self.checkers)
    @rule(chosen=st.data(), kill=st.booleans())
    def end_checker(self, chosen, kill):
        checker = chosen.draw(st.sampled_from(self.checkers))
        self.checkers.remove(checker)
        self.run(checker.vanish() if kill else checker.stop())

    @precondition(lambda self: self.halves)
    @rule(chosen=st.data(), outcome=OUTCOMES)
    def decide(self, chosen, outcome):
        name = chosen.draw(st.sampled_from(sorted(self.halves)))
        before = self.halves[name].outcome
        broker = self.broker_of(name)
        known = self.inquiries.transaction(name)
        reachable, answers = broker.reachable, not broker.lost_answer_count
        if known is not None:
            self.intended.add(name)
        try:
            decided = self.run(self.decisions.decide(name, outcome, "for a reason"))
        except ServiceError as error:
            reason = error.row.name
            if reason == "DEADLINE_PASSED":
                assert reachable
                assert not answers
                assert self.halves[name].outcome is (before or outcome)
                return
            assert reason in {"TRANSACTION_NOT_FOUND", "TRANSACTION_DECIDED", "SERVICE_BUSY"}
            assert (reason == "TRANSACTION_NOT_FOUND") == (known is None)
            assert (reason != "SERVICE_BUSY") or not reachable
            assert self.halves[name].outcome is before
            return
        assert decided.outcome is outcome
        # What was decided before may be lost at the broker, and not be learned yet.
        assert known.state is State.DECIDED or self.halves[name].outcome is outcome

    @precondition(lambda self: self.halves)
    @rule(chosen=st.data())
    def resume(self, chosen):
        name = chosen.draw(st.sampled_from(sorted(self.halves)))
        found = self.inquiries.transaction(name)
        try:
            self.run(self.decisions.resume(name))
        except ServiceError as refusal:
            known = found is not None
            reason = refusal.row.name
            assert reason == ("TRANSACTION_DECIDED" if known else "TRANSACTION_NOT_FOUND")
            return
        if found.state is State.PARKED:
            self.resumed[name] = self.resumed.get(name, 0) + 1

    @invariant()
    def nothing_is_decided_twice_or_asked_too_often(self):
        for name, half in self.halves.items():
            assert len(half.decisions) <= 1
            assert half.copy_count <= 1
            assert half.ask_count <= CHECKS_MAX * (1 + self.resumed.get(name, 0))

    def teardown(self):
        try:
            if self.known[BROKERS[0]] is not None:
                self.run(self._heal())
                self._check_end()
        finally:
            survey.PAGE_SIZE = self.page_size
            self.run(self._close())
            self.runner.close()
            self.folder.cleanup()

    async def _heal(self):
        for broker in self.known.values():
            broker.reachable = True
            broker.lost_answer_count = 0
        if not self.checkers:
            await self._start()
        # An old lease, then checks: the last may begin an interval after the broker came back.
        await self.clock.elapse(9 + 6 + 20 + (CHECKS_MAX + 2) * 10 + len(self.halves))

    def _check_end(self):
        self.nothing_is_decided_twice_or_asked_too_often()
        for name, half in self.halves.items():
            row = self.inquiries.transaction(name)
            if row is None:
                assert half.outcome is not None
            elif half.outcome is None:
                assert (row.state, row.outcome) == (State.PARKED, Outcome.UNSPECIFIED)
                assert half.copy_count == 1
            else:
                assert (row.state, row.outcome) == (State.DECIDED, half.outcome)
                if row.decider == OPERATOR:
                    assert name in self.intended
                elif row.decider:
                    assert half.outcome in self.answered[name]

    async def _close(self):
        for checker in self.checkers:
            await checker.stop()
        if hasattr(self, "database"):
            self.database.close()


@pytest.mark.parametrize("examples", [2, pytest.param(50, marks=pytest.mark.slow)])
def test_any_order_of_events(examples):
    run_state_machine_as_test(
        CheckersWorld, settings=settings(max_examples=examples, stateful_step_count=25)
    )
