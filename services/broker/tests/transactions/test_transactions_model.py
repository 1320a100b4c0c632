"""Transactions against a model: any order of halves, ends, parking, deaths, power cuts, retention.

What is visible was committed, once. What was rolled back is never visible. Everything else waits.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ariane_broker.append.rows import Rows, RowTerms
from ariane_broker.errors.store_errors import STORAGE_RULES
from ariane_broker.topics.topic_table import TopicConfig
from ariane_broker.transactions.ending import EndRequest, TransactionEnds
from ariane_broker.transactions.half_list import HalfList
from ariane_broker.transactions.halves import HalfLimits, Halves
from ariane_broker.transactions.recent_halves import RecentHalves
from ariane_broker.transactions.transaction_records import Outcome
from ariane_broker.transactions.transaction_table import TransactionTable
from ariane_broker.transactions.upkeep import TransactionUpkeep
from ariane_record import decode_record
from ariane_record.names import OP_TOPIC
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_servicekit import ErrorTranslator, at_once
from ariane_servicekit.errors import ServiceError
from ariane_storage import FlushMode, Store
from ariane_storage.errors import StoreFull
from ariane_storage.testing import (
    FaultyDisk,
    FixedClock,
    PowerLost,
    apply_retention,
    block_of,
    small_config,
)
from services.broker.tests.log_side import FlushedAtOnce, broker_log

ROOT = Path("/store")
ORDERS = TopicConfig(topic="orders", read_queue_count=2, write_queue_count=2)
IDS = st.integers(0, 5).map("t-{}".format)
OUTCOMES = st.sampled_from(list(Outcome))
ENDS = st.lists(st.tuples(IDS, OUTCOMES), max_size=6, unique_by=lambda end: end[0])
DECIDED = frozenset(Outcome)
BYTES_MAX = 4000
HOST = ("127.0.0.1", 9)


def run(call):
    """The result of a coroutine that waits for nothing but its next turn."""
    return asyncio.run(asyncio.wait_for(call, 60))


def end_request(transaction_id, outcome):
    return EndRequest("orders", transaction_id, transaction_id, outcome, "pay")


def half_row(transaction_id):
    encoder = BlockEncoder("orders", size_bytes_max=BYTES_MAX)
    encoder.add(transaction_id.encode(), unique_id=transaction_id, born_timestamp_ms=0)
    return Rows.one(encoder.finish(), 1, terms=RowTerms(half_group="pay"))


def half_rows(transaction_ids):
    return Rows.joined([half_row(transaction_id) for transaction_id in transaction_ids])


def of_each(outcomes):
    """The outcome of each half message: neighbours that were stored together have one."""
    for outcome in outcomes:
        if outcome.error is not None:
            yield outcome.error
            continue
        appended, is_duplicate = outcome.appended, outcome.duplicate
        places = zip(appended.first_queue_offsets, appended.starts, appended.edges[1:], strict=True)
        yield from ((place, is_duplicate) for place in places)


def result_of(outcomes):
    """Of a request of one."""
    (outcome,) = outcomes
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


class DyingLog:
    """The store of a process that dies, or finds its disk full, right before one of its appends."""

    def __init__(self, store, dies_before, error=PowerLost):
        self._store = store
        self._left = dies_before
        self._error = error

    def __getattr__(self, name):
        return getattr(self._store, name)

    def append(self, table, *queue_ids, **fields):
        if self._left == 0:
            raise self._error
        if self._left is not None:
            self._left -= 1
        return self._store.append(table, *queue_ids, **fields)


class TransactionMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.disk = FaultyDisk()
        self.clock = FixedClock()
        self.config = small_config(flush_mode=FlushMode.SYNC)
        self.snapshot = None
        self.known = {}
        """What each transaction must be: "pending", an outcome, or a set of what it may be."""
        self.parked = set()
        self.committed = []
        self.start()

    def start(self):
        self.store = Store.open(ROOT, self.config, disk=self.disk, clock=self.clock)
        self.table = TransactionTable(decision_count_max=3)
        self.recent = RecentHalves()
        begin = self.store.min_offset
        if self.snapshot is not None:
            begin = self.table.load(self.snapshot())
            if begin > self.store.max_offset:
                self.table.clear()
                begin = self.store.min_offset
        for stretch in self.store.stretches(begin):
            self.table.replay(stretch.between(begin, self.store.max_offset))
        self.table.forget_lost(lambda queue: self.store.queue_end(*queue))
        self.compose(None)
        at_once(self.upkeep.settle())
        # What memory forgot is looked up among op records, of which only safe ones are told.
        self.store.flush()

    def compose(self, dies_before, error=PowerLost):
        log = broker_log(DyingLog(self.store, dies_before, error), FlushedAtOnce(self.store))
        now_ms, topics = self.clock.now_ms, {"orders": ORDERS}.get
        self.ends = TransactionEnds(
            log,
            self.table,
            topics,
            recent=self.recent,
            now_ms=now_ms,
            bytes_max=BYTES_MAX,
        )
        self.halves = Halves(
            log,
            self.table,
            topics,
            HalfLimits(BYTES_MAX, pending_count_max=100),
            recent=self.recent,
            is_draining=lambda: False,
            service_error=ErrorTranslator(STORAGE_RULES).service_error,
        )
        self.upkeep = TransactionUpkeep(
            log,
            self.table,
            now_ms=now_ms,
            believed_ms=now_ms,
            retention_ms=1 << 60,
            is_pressed=lambda: False,
            segment_bytes=8192,
        )
        self.list = HalfList(self.store, self.table, self.clock.now_ms)

    def send(self, transaction_id):
        (stored,) = self.halves.store_rows(half_row(transaction_id), HOST)
        if stored.error is not None:
            raise stored.error
        self.store.flush()
        return stored

    def end_all(self, ends):
        requests = [end_request(*each) for each in ends]
        ended = run(self.ends.finish(requests, self.ends.end(requests)))
        self.store.flush()
        return ended

    def end(self, transaction_id, outcome):
        return result_of(self.end_all([(transaction_id, outcome)]))

    def visible(self):
        low, high = self.store.queue_bounds("orders", 1)
        found = []
        while low < high:
            read = self.store.read_queue("orders", 1, low, max_count=100, max_bytes=1 << 20)
            joined, begin = b"".join(read.chunks), 0
            for size in read.sizes.tolist():
                found.append(decode_record(joined[begin : begin + size]).body.decode())
                begin += size
            low = read.next_queue_offset
        return found

    def waiting(self):
        found = asyncio.run(self.list.page(0, 1000, ""))
        return {half.transaction_id: half for half in found.page.entries}

    def learn(self):
        """What is uncertain is looked at: whatever it is, it is one of what it may be."""
        visible, waiting = self.visible(), self.waiting()
        uncertain = {name for name, state in self.known.items() if isinstance(state, set)}
        for transaction_id, state in self.known.items():
            if not isinstance(state, set):
                continue
            if transaction_id in visible:
                found = Outcome.COMMIT
            elif transaction_id in waiting:
                found = "pending"
            elif self.table.decision(transaction_id) is not None:
                found = self.table.decision(transaction_id).outcome
            else:
                found = "never"
            assert found in state, (transaction_id, found, state)
            self.known[transaction_id] = found
        self.committed += [name for name in visible if name in uncertain]
        self.known = {name: state for name, state in self.known.items() if state != "never"}

    def is_out_of_mind(self, transaction_id):
        """Whether memory does not know how a transaction ended: nobody sends it that late."""
        decided = self.known.get(transaction_id) in DECIDED
        return decided and self.table.decision(transaction_id) is None

    def is_forgotten(self, transaction_id):
        """Whether neither memory nor log knows any more how a transaction ended."""
        if self.known.get(transaction_id) not in DECIDED:
            return False
        if self.table.decision(transaction_id) is not None:
            return False
        found = self.store.query_by_key(OP_TOPIC, transaction_id, max_count=1)
        return not found and self.store.min_offset > 0

    def check_refusal(self, error, transaction_id, forgotten=None):
        """Only what has an outcome, or was never sent, is refused; and it is said which."""
        state = self.known.get(transaction_id)
        is_forgotten = (
            self.is_forgotten(transaction_id) if forgotten is None else transaction_id in forgotten
        )
        if state is None or is_forgotten:
            assert error.row.name == "TRANSACTION_NOT_FOUND"
        else:
            assert error.row.name == "TRANSACTION_DECIDED"
            assert error.metadata["outcome"] == state

    # Rules.

    @rule(transaction_id=IDS)
    def send_half(self, transaction_id):
        state = self.known.get(transaction_id)
        if self.is_out_of_mind(transaction_id):
            return
        try:
            sent = self.send(transaction_id)
        except ServiceError as error:
            self.check_refusal(error, transaction_id)
            return
        assert sent.duplicate is (state == "pending")
        self.known[transaction_id] = "pending"

    @rule(transaction_id=IDS, outcome=OUTCOMES)
    def end_it(self, transaction_id, outcome):
        state = self.known.get(transaction_id)
        try:
            ended = self.end(transaction_id, outcome)
        except ServiceError as error:
            self.check_refusal(error, transaction_id)
            return
        assert state in {"pending", outcome}
        assert ended.outcome is outcome
        assert ended.duplicate is (state == outcome)
        if state == "pending" and outcome is Outcome.COMMIT:
            self.committed.append(transaction_id)
        self.known[transaction_id] = outcome
        self.parked.discard(transaction_id)

    @rule(transaction_id=IDS, outcome=OUTCOMES, appends=st.integers(0, 1))
    def die_while_ending(self, transaction_id, outcome, appends):
        state = self.known.get(transaction_id)
        self.compose(appends)
        with suppress(PowerLost, ServiceError):
            self.end(transaction_id, outcome)
        if state == "pending":
            self.known[transaction_id] = {"pending", outcome}
        self.kill()

    @rule(transaction_ids=st.lists(IDS, max_size=6), appends=st.sampled_from([None, 0]))
    def send_halves_together(self, transaction_ids, appends):
        """Each is stored, was stored, or is refused for what it is."""
        transaction_ids = [name for name in transaction_ids if not self.is_out_of_mind(name)]
        if not transaction_ids:
            return
        self.compose(appends)
        try:
            outcomes = list(of_each(self.halves.store_rows(half_rows(transaction_ids), HOST)))
        except PowerLost:
            self.kill()
            return
        self.compose(None)
        self.store.flush()
        for name, outcome in zip(transaction_ids, outcomes, strict=True):
            if isinstance(outcome, Exception):
                self.check_refusal(outcome, name)
                continue
            (queue_offset, begin, end), is_duplicate = outcome
            assert is_duplicate is (self.known.get(name) == "pending")
            half = self.table.find(name)
            assert (half.queue_offset, half.commit_log_offset) == (queue_offset, begin)
            assert begin < end
            self.known[name] = "pending"

    @rule(
        ends=ENDS,
        appends=st.sampled_from([None, 0, 1]),
        seed=st.none() | st.integers(0, 1000),
    )
    def end_together(self, ends, appends, seed):
        """Each is decided, as if it came alone; a death leaves either."""
        self.compose(appends)
        waiting = {name: outcome for name, outcome in ends if self.known.get(name) == "pending"}
        forgotten = self.forgotten_of(ends)
        try:
            ended = self.end_all(ends)
        except PowerLost:
            self.known |= {name: {"pending", outcome} for name, outcome in waiting.items()}
            self.kill() if seed is None else self.lose_power(seed)
            return
        self.compose(None)
        self.take_note(ends, ended, forgotten)

    @rule(ends=ENDS, appends=st.integers(0, 1))
    def end_together_on_a_full_disk(self, ends, appends):
        """What has not ended waits; what has stands, and its op record is written later."""
        forgotten = self.forgotten_of(ends)
        self.compose(appends, StoreFull(ROOT, "full"))
        ended = self.end_all(ends)
        self.compose(None)
        at_once(self.upkeep.settle())
        self.take_note(ends, ended, forgotten)

    def forgotten_of(self, ends):
        """Those that are forgotten before anything ends: what ends now makes memory forget more."""
        return {name for name, _ in ends if self.is_forgotten(name)}

    def take_note(self, ends, ended, forgotten):
        self.store.flush()
        for (name, outcome), done in zip(ends, ended, strict=True):
            if isinstance(done, StoreFull):
                assert self.known[name] == "pending"
            elif isinstance(done, Exception):
                self.check_refusal(done, name, forgotten)
            else:
                assert done.outcome is outcome
                assert done.duplicate is (self.known[name] == outcome)
                assert self.known[name] in {"pending", outcome}
                if outcome is Outcome.COMMIT and not done.duplicate:
                    self.committed.append(name)
                self.known[name] = outcome
                self.parked.discard(name)

    @rule(transaction_id=IDS)
    def park(self, transaction_id):
        state = self.known.get(transaction_id)
        try:
            duplicate = run(self.ends.park(transaction_id, 15))
        except ServiceError as error:
            self.check_refusal(error, transaction_id)
            return
        assert state == "pending"
        assert duplicate is (transaction_id in self.parked)
        self.parked.add(transaction_id)

    @rule()
    def save_snapshot(self):
        self.store.flush()
        self.snapshot = self.table.snapshot(self.store.max_offset)

    @rule(count=st.integers(1, 4))
    def grow_old(self, count):
        """Other messages come, half messages are stored anew, and old segments go."""
        for _ in range(count):
            self.store.append(block_of("others", [b"x" * 1500]), 0)
        at_once(self.upkeep.carry_forward(self.store.max_offset - 4000))
        at_once(self.upkeep.settle())
        self.disk.used_ratio = 0.86
        needed = [self.table.needed_from]
        if self.snapshot is not None:
            needed.append(self.snapshot()["commitLogOffset"])
        keep_from = min((each for each in needed if each is not None), default=None)
        report = apply_retention(self.store, keep_from=keep_from)
        self.disk.used_ratio = 0.1
        apply_retention(self.store, keep_from=keep_from)
        pending = self.table.pending()
        self.table.forget_before(report.min_offset)
        assert self.table.pending() == pending

    @rule()
    def kill(self):
        self.disk = self.disk.kill()
        self.start()
        self.learn()

    @rule(seed=st.integers(0, 1000))
    def lose_power(self, seed):
        self.disk = self.disk.lose_power(seed)
        self.start()
        self.learn()

    @rule(keep=st.booleans())
    def restart(self, keep):
        self.store.close()
        self.snapshot = self.table.snapshot(self.store.max_offset) if keep else None
        self.start()

    @rule()
    @precondition(lambda self: self.snapshot is not None)
    def lose_snapshot(self):
        self.snapshot = None
        self.kill()

    # What always holds.

    @invariant()
    def what_is_visible_was_committed_once(self):
        visible = self.visible()
        assert len(visible) == len(set(visible))
        lost = set(self.committed) - set(visible)
        # Retention takes old messages, from the front.
        assert [name for name in self.committed if name not in lost] == visible
        assert self.committed[len(lost) :] == visible

    @invariant()
    def what_has_no_outcome_waits(self):
        waiting = self.waiting()
        assert set(waiting) == {name for name, state in self.known.items() if state == "pending"}
        assert {name for name, half in waiting.items() if half.parked} == self.parked & set(waiting)
        assert self.table.owed() == []

    def teardown(self):
        if self.store is not None:
            self.store.close()


@pytest.mark.parametrize("examples", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_any_order_of_events(examples):
    run_state_machine_as_test(
        TransactionMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
