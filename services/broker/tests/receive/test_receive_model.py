"""Receiving against a model: any order of hand-outs, settlements, passing time, deaths, power cuts.

Nothing is lost, nothing comes again once it is settled, nobody has what another has in hand, and
where order is promised a message group has one message in hand at a time, the oldest, or the oldest
ones that one consumer got together.
"""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ariane_broker.filters.expression import FilterExpression
from ariane_broker.filters.filter import filter_for
from ariane_broker.groups.consumer_groups import ConsumerGroups, GroupConfig, TableRetry
from ariane_broker.groups.consumer_offsets import ConsumerOffsets
from ariane_broker.log.statistics import BrokerStatistics
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.dead_letters import DeadLetters
from ariane_broker.receive.handing_out.hand_outs import HandOuts
from ariane_broker.receive.handing_out.receive_order import ReceiveOrder, checked_order
from ariane_broker.receive.in_hand.queue_window import OFFSET_MAX
from ariane_broker.receive.in_hand.ranges import ranges_of
from ariane_broker.receive.in_hand.receive_log import ReceiveLog
from ariane_broker.receive.in_hand.receive_table import ReceiveTable
from ariane_broker.receive.in_hand.receive_time import ReceiveTime
from ariane_broker.receive.settling import DONE, Failed, Hidden, Settlement, Settling
from ariane_broker.receive.standing import Standings
from ariane_broker.topics.topic_table import TopicConfig, TopicTable
from ariane_broker.turn_budget import TurnBudget
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_servicekit import EXAMINED_MAX, at_once
from ariane_storage import FlushMode, Store
from ariane_storage.testing import FaultyDisk, FixedClock, small_config
from services.broker.tests.log_side import FlushedAtOnce, broker_log, cold_reads
from services.broker.tests.receive import lives_elsewhere
from services.broker.tests.receive.receive_truth import Buried, Model
from services.broker.tests.transactions.test_transactions_model import run

ROOT = Path("/store")
GROUP = "billing"
QUEUES = [QueueKey("orders", 0), QueueKey("orders", 1)]
ATTEMPTS_MAX = 3
WANTED = FilterExpression(text="wanted")
SOME = st.lists(st.integers(0, 7), min_size=1, max_size=8, unique=True)


class ReceiveMachine(RuleBasedStateMachine):
    in_order = False

    def __init__(self):
        super().__init__()
        self.disk = FaultyDisk()
        self.clock = FixedClock()
        self.config = small_config(flush_mode=FlushMode.SYNC)
        self.topics = TopicTable(now_ms=self.clock.now_ms, default_queue_count=2)
        self.topics.put(TopicConfig(topic="orders", read_queue_count=2, write_queue_count=2))
        self.groups = ConsumerGroups(now_ms=self.clock.now_ms)
        self.groups.put(
            GroupConfig(
                consumer_group=GROUP,
                attempts_max=ATTEMPTS_MAX,
                ordered_attempts_max=ATTEMPTS_MAX,
                retry_policy=TableRetry((10_000,)),
                receive_in_order=self.in_order,
            )
        )
        self.model = Model()
        self.loses_power = True
        self.lives = 0
        self.hands = []
        """What was handed out and may not be settled."""
        self.snapshot = None
        self.saved_offsets = None
        self.start()

    def start(self):
        self.store = Store.open(ROOT, self.config, disk=self.disk, clock=self.clock)
        self.offsets = ConsumerOffsets(now_ms=self.clock.now_ms)
        if self.saved_offsets is not None:
            self.offsets.load(self.saved_offsets)
        self.table = ReceiveTable(self.offsets, lambda: None)
        begin = self.store.min_offset
        if self.snapshot is not None:
            begin = self.table.load(self.snapshot())
        for stretch in self.store.stretches(begin):
            self.table.replay(stretch.between(begin, self.store.max_offset))
        self.table.forget_lost(lambda queue: self.store.queue_end(*queue))
        log = self.log = ReceiveLog(
            broker_log(self.store, FlushedAtOnce(self.store)),
            self.table,
            self.offsets,
            draw_bytes=self.draw_bytes,
        )
        self.now_ms = now_ms = ReceiveTime(
            log,
            self.table,
            now_ms=self.clock.now_ms,
            monotonic=lambda: self.clock.steady_ms() / 1000,
        ).now_ms
        self.turn = 0
        self.hand_outs = HandOuts(
            self.store,
            log,
            self.table,
            topics=self.topics,
            groups=self.groups,
            offsets=self.offsets,
            statistics=BrokerStatistics(),
            cold_reads=cold_reads(),
            now_ms=now_ms,
            draw=self.draw,
        )
        self.settling = Settling(
            log,
            DeadLetters(self.store, log, self.table, Buried(self.model), now_ms=now_ms),
            groups=self.groups,
            delay_levels_ms=(1000,),
            now_ms=now_ms,
            freed=lambda group, queue: None,
        )
        self.standings = Standings(
            self.store,
            self.table,
            self.offsets,
            topics=self.topics,
            groups=self.groups,
            now_ms=now_ms,
        )

    def draw_bytes(self, count):
        """Bytes that no life before had, as chance gives them to a broker."""
        self.lives += 1
        return self.lives.to_bytes(count)

    def draw(self, count):
        self.turn += 1
        return self.turn % count

    @initialize(
        loses_power=st.booleans(),
        life=st.sampled_from([None, *range(lives_elsewhere.LIVES)]),
    )
    def begin(self, loses_power, life):
        """After a power cut less can be said; every other run has none."""
        self.loses_power = loses_power
        if self.in_order and life is not None:
            self.go_on_from(lives_elsewhere.lives()[life])

    def go_on_from(self, left):
        """Start with what a life in another process left."""
        self.store.close()
        left = copy.deepcopy(left)  # Other runs begin with it, too.
        vars(self.model).update(left.pop("said"))
        vars(self).update(left)
        self.start()

    @rule(queue=st.sampled_from(QUEUES), groups=st.lists(st.sampled_from("abc-"), max_size=12))
    def send(self, queue, groups):
        for group in groups:
            wanted = group != "-"
            encoder = BlockEncoder(queue.topic, size_bytes_max=1 << 20)
            encoder.add(
                b"x" * 10,
                message_group=group if wanted else "",
                tag="wanted" if wanted else "other",
                born_timestamp_ms=1,
            )
            appended = self.store.append(encoder.finish(), queue.queue_id)
            if wanted:
                self.model.sent[queue, appended.first_queue_offset] = group
        self.store.flush()

    @rule(
        count=st.integers(1, 8),
        span_s=st.integers(1, 40),
        by_priority=st.booleans(),
        several=st.booleans(),
        things=st.integers(len(QUEUES), 16),
    )
    def receive(self, count, span_s, by_priority, several, things):
        """Receive messages; each turn examines a few things only."""
        self.take(count, span_s, by_priority=by_priority, several=several, things=things)

    def take(self, count, span_s, *, by_priority=False, several=False, things=EXAMINED_MAX):
        order = checked_order(
            ReceiveOrder(
                group=GROUP,
                filters={"orders": WANTED},
                count_max=count,
                invisible_ms=span_s * 1000,
                by_priority=by_priority,
                several_of_a_group=several,
            )
        )
        now_ms, model = self.clock.now_ms(), self.model
        free = model.open(now_ms)
        counts = self.hand_outs.queue_counts(order)
        walk, handed, turns = self.hand_outs.walk(counts), [], 0
        while not handed and (queues := walk.take()):
            turns += 1
            assert turns < 1000, "it goes on and on"
            look = self.hand_outs.hand_out(
                order,
                {"orders": filter_for(WANTED)},
                counts,
                queues,
                bytes_max=1 << 20,
                budget=TurnBudget(things),
            )
            handed = look.handed
            walk.put_back(look.left)
        total = sum(len(out.offsets) for out in handed)
        assert total <= count
        for out in handed:
            assert len(out.sizes) == len(out.attempts) == len(out.offsets)
            assert sum(map(len, out.chunks)) == out.sizes.sum()
            for offset, attempts in zip(out.offsets.tolist(), out.attempts.tolist(), strict=True):
                key = (out.queue, offset)
                assert key in model.sent
                assert key not in model.settled, "it was settled"
                assert key in free or model.unsure, "another has it in hand"
                assert attempts == model.attempts.get(key, 0) + 1 or model.unsure
                model.attempts[key] = attempts
                model.held[key] = (out.serial, out.until_ms)
                if self.in_order:
                    self.check_order(key, set(out.offsets.tolist()) if several else set())
            self.hands.append(out)
        if not total and not self.in_order and not model.unsure:
            left = {key for key in model.open(now_ms) if model.attempts.get(key, 0) <= ATTEMPTS_MAX}
            assert not left, "it could be had"
        return handed

    def check_order(self, key, together):
        queue, offset = key
        before = [
            other
            for other, group in self.model.sent.items()
            if other[0] == queue and other[1] < offset and group == self.model.sent[key]
            if other[1] not in together
        ]
        assert all(other in self.model.settled for other in before), "one before it is not settled"

    def settle(self, out, places, outcome):
        """Settle some messages of a hand-out; those that were still its own."""
        places = sorted({place % len(out.offsets) for place in places})
        offsets = out.offsets[places]
        own = {
            (out.queue, offset)
            for offset in offsets.tolist()
            if self.model.held.get((out.queue, offset), (0, 0))[0] == out.serial
        }
        settlement = Settlement(out.queue, out.serial, ranges_of(offsets), outcome)
        (result,) = run(self.settling.settle(GROUP, [settlement]))
        done = {(out.queue, offset) for offset in result.settled.tolist()}
        if not self.model.unsure:
            assert done == own
        return done, result

    @precondition(lambda self: self.hands)
    @rule(data=st.data(), places=SOME)
    def ack(self, data, places):
        out = data.draw(st.sampled_from(self.hands))
        done, result = self.settle(out, places, DONE)
        for key in done:
            self.model.settle(key)
        chosen = {(out.queue, out.offsets[place % len(out.offsets)]) for place in places}
        assert result.expired == (not chosen <= self.model.settled)

    @precondition(lambda self: self.hands)
    @rule(data=st.data(), places=SOME, span_s=st.integers(0, 100))
    def extend(self, data, places, span_s):
        out = data.draw(st.sampled_from(self.hands))
        done, result = self.settle(out, places, Hidden(span_s * 1000))
        for key in done:
            self.model.held[key] = (out.serial, result.until_ms)

    @precondition(lambda self: self.hands)
    @rule(data=st.data(), places=SOME, span_s=st.sampled_from([None, 0, 5]), dead=st.booleans())
    def nack(self, data, places, span_s, dead):
        out = data.draw(st.sampled_from(self.hands))
        failed = Failed(None if span_s is None else span_s * 1000, dead and span_s == 0)
        done, result = self.settle(out, places, failed)
        buried = {(out.queue, offset) for offset in result.dead.tolist()}
        assert buried <= self.model.settled
        for key in done - buried:
            assert self.model.attempts[key] <= ATTEMPTS_MAX or self.model.unsure
            delay_s = 10 if span_s is None else span_s
            self.model.held[key] = (0, self.clock.now_ms() + delay_s * 1000)

    @rule(queue=st.sampled_from(QUEUES), count=st.integers(1, 20))
    def own(self, queue, count):
        """Members own the queue for a while: they read on, and store how far they have come."""
        stored = self.offsets.find(GROUP, queue)
        place = 0 if stored is None else int(stored)
        window = self.table.window(GROUP, queue)
        end = self.store.queue_bounds(*queue)[1]
        for _ in range(count):
            behind = OFFSET_MAX
            if window is not None:
                place, behind = window.gap(place, self.clock.now_ms())
            if place >= min(end, behind):
                break
            key = (queue, place)
            if key in self.model.sent:
                assert key not in self.model.settled, "it was settled"
                held = self.model.held.get(key, (0, 0))
                assert held[1] <= self.clock.now_ms() or self.model.unsure, "another has it"
                self.model.settle(key)
            place += 1
        self.offsets.put(GROUP, queue, max(place, stored or 0))
        # What owners store is as safe as they have it saved.
        self.saved_offsets = self.offsets.document()

    @rule(seconds=st.integers(1, 50))
    def tick(self, seconds):
        self.clock.advance(seconds * 1000)

    @rule(seconds=st.sampled_from([-3600, -5, 5, 3600, 15 * 24 * 3600]))
    def set_clock(self, seconds):
        """Somebody sets the clock: nobody's time is over earlier or later for that."""
        self.clock.jump(seconds * 1000)
        self.now_ms()  # As it is asked all the time.
        for key, (serial, until_ms) in self.model.held.items():
            self.model.held[key] = (serial, until_ms + seconds * 1000)

    @rule()
    def save(self):
        self.saved_offsets = self.offsets.document()
        self.snapshot = self.table.snapshot(self.store.max_offset)

    @rule()
    def die(self):
        """The process ends; what it wrote is there."""
        self.store.close()
        self.start()

    @precondition(lambda self: self.loses_power)
    @rule(seed=st.integers(0, 99))
    def lose_power(self, seed):
        """What was not flushed is gone: hand-outs are, settlements are not."""
        self.disk = self.disk.lose_power(seed)
        self.model.unsure = True
        self.snapshot = None
        self.start()

    @invariant()
    def counts_are_exact(self):
        if self.model.unsure:
            return
        now_ms = self.clock.now_ms()
        for queue in QUEUES:
            standing = self.standings.of_queue(GROUP, queue)
            if standing is None or standing.consumer_offset < self.store.queue_bounds(*queue)[1]:
                continue
            assert standing.unsettled_count == 0
        held = [
            key for key, (serial, until) in self.model.held.items() if serial and until > now_ms
        ]
        waits = [
            key for key, (serial, until) in self.model.held.items() if not serial and until > now_ms
        ]
        standings = at_once(self.standings.walk(GROUP))
        assert sum(each.in_flight_count for each in standings) == len(held)
        assert sum(each.delayed_count for each in standings) == len(waits)

    def teardown(self):
        """Nothing is lost: with time and patience all is settled."""
        for _ in range(200):
            if not self.model.open(1 << 62):
                break
            self.clock.advance(3_600_000)
            handed = self.take(8, 10)
            for out in handed:
                self.settle_all(out)
            self.bury_exhausted()
        assert self.model.settled >= set(self.model.sent)
        assert not self.take(8, 10)

    def settle_all(self, out):
        run(self.settling.settle(GROUP, [Settlement(out.queue, out.serial)]))
        for offset in out.offsets.tolist():
            self.model.settle((out.queue, offset))

    def bury_exhausted(self):
        for key, attempts in self.model.attempts.items():
            if attempts > ATTEMPTS_MAX and key not in self.model.settled:
                queue, offset = key
                letters = self.settling.dead_letters
                run(letters.bury(GROUP, queue, np.array([offset]), reason="ATTEMPTS_EXHAUSTED"))


class OrderedMachine(ReceiveMachine):
    in_order = True


@pytest.mark.parametrize("machine", [ReceiveMachine, OrderedMachine])
def test_no_message_is_lost_or_comes_twice(machine):
    run_state_machine_as_test(
        machine,
        settings=settings(
            stateful_step_count=40,
            deadline=None,
            # What it finds is short enough; to make it shorter takes minutes.
            phases=(Phase.explicit, Phase.reuse, Phase.generate),
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("life", range(lives_elsewhere.LIVES))
def test_order_holds_over_a_restart_in_another_process(life):
    machine = OrderedMachine()
    machine.go_on_from(lives_elsewhere.lives()[life])
    assert machine.model.held, "somebody has messages of it in hand"
    for queue in QUEUES:
        machine.send(queue=queue, groups=["a", "b", "c"])
    machine.take(8, 10)  # While others have messages of the same groups in hand.
    machine.teardown()


def test_owners_begin_behind_what_a_filter_left_out_after_a_restart():
    machine, queue = OrderedMachine(), QUEUES[1]
    machine.save()
    machine.send(queue=queue, groups=["-", "b", "c", "c", "b", "-", "b", "a"])
    (out,) = machine.take(5, 23, by_priority=True)
    machine.settle_all(out)
    machine.tick(seconds=34)
    machine.take(3, 39)
    machine.die()
    # Only now it is learnt again which of them the filter leaves out.
    machine.take(2, 28, by_priority=True)
    machine.tick(seconds=40)
    machine.own(count=11, queue=queue)
    assert {offset for _, offset in machine.model.settled} == {1, 2, 3, 4, 6, 7}


@pytest.mark.parametrize("seconds", [-3600, 15 * 24 * 3600])
def test_a_clock_that_is_set_shows_no_message_and_hides_none(seconds):
    machine = ReceiveMachine()
    machine.send(queue=QUEUES[0], groups=["a", "b", "c"])
    machine.take(2, 30)
    machine.set_clock(seconds=seconds)
    (out,) = machine.take(8, 30)
    assert out.offsets.tolist() == [2]
    machine.tick(seconds=29)
    assert machine.take(8, 30) == []
    machine.die()  # The log knows it, too.
    assert machine.take(8, 30) == []
    machine.tick(seconds=2)
    (out,) = machine.take(8, 30)
    assert out.offsets.tolist() == [0, 1, 2]


@pytest.mark.parametrize("acknowledged", [0, 1])
def test_a_receipt_that_a_crash_has_taken_settles_nothing_that_another_has(acknowledged):
    """Also if the clock of the next broker shows the time at which the last one handed out."""
    machine = ReceiveMachine()
    machine.send(queue=QUEUES[0], groups=["a", "b"])
    for _ in range(acknowledged):
        machine.settle_all(*machine.take(1, 30))
    (lost,) = machine.take(1, 30)
    machine.lose_power(seed=1)
    machine.turn = 1000  # What another process draws.
    (again,) = machine.take(1, 30)
    assert again.offsets.tolist() == lost.offsets.tolist() == [acknowledged]
    assert machine.settle(lost, [0], DONE)[0] == set()
    assert machine.settle(again, [0], DONE)[0] == {(QUEUES[0], acknowledged)}
