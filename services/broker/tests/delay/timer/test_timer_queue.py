"""The timer's queue against a model, with a clock that jumps: nothing early, nothing twice."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ariane_broker.delay.level_queues import LevelQueues
from ariane_broker.delay.parked import parked_queue as parked_module
from ariane_broker.delay.parked.parked_queue import ParkedRows
from ariane_broker.delay.parked.queue_progress import QueueProgress, copied_marks, encoded_marks
from ariane_broker.delay.timer import timer_queue as timer_module
from ariane_broker.delay.timer.timer_handover import TimerHandover
from ariane_broker.delay.timer.timer_queue import TimerQueue
from ariane_broker.delay.timer.timer_window import TimerWindow
from ariane_storage.queues.consume_queue_entry import ENTRY
from ariane_storage.testing import FaultyDisk

RECORD_BYTES = 100
DAY_MS = 86_400_000


class ListedEntries:
    """A consume queue as a list of times."""

    def __init__(self):
        self.times_ms = []
        self.read_count = 0

    def queue_bounds(self, topic, queue_id):
        return 0, len(self.times_ms)

    def queue_entries(self, topic, queue_id, queue_offset, *, max_count):
        chosen = self.times_ms[queue_offset : queue_offset + max_count]
        self.read_count += len(chosen)
        entries = np.zeros(len(chosen), ENTRY)
        entries["commit_log_offset"] = np.arange(len(chosen)) * RECORD_BYTES
        entries["commit_log_offset"] += queue_offset * RECORD_BYTES
        entries["size"] = RECORD_BYTES
        entries["tags_code"] = chosen
        return entries

    def add(self, times_ms):
        first = len(self.times_ms)
        self.times_ms += times_ms
        return rows_of(range(first, first + len(times_ms)), times_ms)


def rows_of(queue_offsets, times_ms):
    offsets = np.array(list(queue_offsets), np.int64)
    sizes = np.full(len(offsets), RECORD_BYTES)
    return ParkedRows(offsets, offsets * RECORD_BYTES, sizes, np.array(times_ms, np.int64))


@pytest.fixture(autouse=True, scope="module")
def small_parts():
    patch = pytest.MonkeyPatch()
    patch.setattr(timer_module, "SCAN_COUNT", 7)
    patch.setattr(parked_module, "SCAN_COUNT", 5)
    yield
    patch.undo()


class TimerMachine(RuleBasedStateMachine):
    """Parks, delivers, fails, restarts; the clock goes where it likes."""

    def __init__(self):
        super().__init__()
        self.now_ms = 1_000_000_000_000
        self.log = ListedEntries()
        self.delivered = []
        self.origins = []
        self.saved = None
        self.timer = self.made()

    def made(self):
        timer = TimerQueue(
            self.log,
            TimerHandover(FaultyDisk(), Path("/store")),
            now_ms=lambda: self.now_ms,
            window_count_max=8,
        )
        timer.keep_topics(lambda topic: True)
        return timer

    @rule(delays_ms=st.lists(st.integers(-1000, 200_000), min_size=1, max_size=12))
    def park(self, delays_ms):
        self.timer.parked(self.log.add([self.now_ms + delay for delay in delays_ms]))

    @rule(delay_ms=st.integers(DAY_MS, 40 * DAY_MS))
    def park_far_ahead(self, delay_ms):
        self.timer.parked(self.log.add([self.now_ms + delay_ms]))

    @rule(span_ms=st.one_of(st.integers(0, 40_000), st.integers(-DAY_MS, 2 * DAY_MS)))
    def let_time_pass(self, span_ms):
        self.now_ms += span_ms

    @rule()
    def read_a_part(self):
        self.timer.refill()

    @rule(count=st.integers(1, 9), delivered=st.integers(0, 9))
    def deliver_a_slice(self, count, delivered):
        rows = self.timer.take_due(count)
        done = rows.queue_offsets[:delivered]
        self.take_over(done)
        self.timer.mark(done)
        self.timer.give_back(rows)

    def take_over(self, queue_offsets):
        for queue_offset in queue_offsets.tolist():
            assert self.log.times_ms[queue_offset] <= self.now_ms, "early"
            assert queue_offset not in self.delivered, "twice"
            self.delivered.append(queue_offset)
            self.origins.append((queue_offset + 1) * RECORD_BYTES)

    @rule()
    def save(self):
        self.saved = self.timer.snapshot(len(self.origins))

    @rule()
    def crash(self):
        self.timer = TimerQueue(
            self.log,
            TimerHandover(FaultyDisk(), Path("/store")),
            now_ms=lambda: self.now_ms,
            window_count_max=8,
        )
        begin = 0 if self.saved is None else self.timer.load(self.saved())
        self.timer._origins.append(np.array(self.origins[begin:], np.int64))
        self.timer.keep_topics(lambda topic: True)

    @rule()
    def deliver_everything_due(self):
        more = True
        while more:
            more = self.timer.refill()
            rows = self.timer.take_due(5)
            more = more or len(rows) > 0
            self.take_over(rows.queue_offsets)
            self.timer.mark(rows.queue_offsets)
        due = [place for place, time_ms in enumerate(self.log.times_ms) if time_ms <= self.now_ms]
        assert set(due) <= set(self.delivered)

    @invariant()
    def keeps_what_is_delivered(self):
        every = np.arange(len(self.log.times_ms))
        pending = self.timer.pending(rows_of(every, self.log.times_ms)).queue_offsets
        assert set(pending.tolist()) == set(every.tolist()) - set(self.delivered)
        assert self.timer.window_count <= 2 * 8 + 12


TimerMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, derandomize=True)
TestTimer = TimerMachine.TestCase


def test_what_is_far_away_is_not_read_again_and_again():
    log = ListedEntries()
    now_ms = 1_000_000_000_000
    timer = TimerQueue(log, TimerHandover(FaultyDisk(), Path("/store")), now_ms=lambda: now_ms)
    timer.keep_topics(lambda topic: True)
    for _ in range(100):
        timer.parked(log.add([now_ms + DAY_MS] * 70))
    before = log.read_count
    for _ in range(100):
        now_ms += 40_000
        while timer.refill():
            pass
    assert log.read_count == before
    assert timer.window_count == 0


def test_the_window_gives_the_order_of_time_then_of_arrival():
    window = TimerWindow()
    rng = np.random.default_rng(7)
    times_ms = rng.integers(0, 50, 2000)
    for first in range(0, 2000, 100):
        part = range(first, first + 100)
        window.add(rows_of(part, times_ms[first : first + 100]))
    taken = []
    while len(rows := window.take_due(40, 64)):
        taken += rows.queue_offsets.tolist()
    expected = np.lexsort((np.arange(2000), times_ms))
    assert taken == [place for place in expected.tolist() if times_ms[place] <= 40]
    assert len(window) == 2000 - len(taken)
    assert window.next_due_ms == 41


def test_progress_survives_its_document():
    progress = QueueProgress()
    progress.mark(np.array([0, 1, 3, 700]))
    assert progress.begin == 2
    again = QueueProgress.decoded(*encoded_marks(*copied_marks([progress])[0]))
    every = np.arange(800)
    assert again.begin == 2
    assert (again.pending(every) == progress.pending(every)).all()
    assert set(every[~again.pending(every)].tolist()) == {0, 1, 3, 700}


@pytest.mark.parametrize(("begin", "count", "encoded"), [(-1, 0, ""), (0, 9, "AA=="), (0, 1, "?")])
def test_a_document_without_sense_is_refused(begin, count, encoded):
    with pytest.raises(ValueError, match=r"."):
        QueueProgress.decoded(begin, count, encoded)


def test_marks_of_a_level_survive_its_document():
    """What found no room in the middle of a slice is delivered later, and the rest not twice."""
    log = ListedEntries()
    log.add([1, 2, 3, 4, 5])

    def levels():
        return LevelQueues(log, levels_ms=(1000,), now_ms=lambda: 9)

    before, after = levels(), levels()
    before.mark(1, np.array([1, 3]))
    assert after.load(before.snapshot(77)()) == 77
    assert after.due(1, 9).queue_offsets.tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    ("begin", "pending"), [(0, [0, 2]), (1, [2]), (2, [2]), (3, []), (4, []), (9, [])]
)
def test_deleted_messages_are_not_waited_for(begin, pending):
    progress = QueueProgress()
    progress.mark(np.array([1, 3]))
    progress.raise_begin(begin)
    places = np.arange(4)
    assert places[progress.pending(places)].tolist() == pending
    assert progress.pending(np.arange(9, 12)).all()


def test_what_retention_deleted_leaves_the_marks_of_later_deliveries():
    progress = QueueProgress(begin=10)
    progress.mark(np.array([11, 15]))
    progress.raise_begin(12)
    places = np.arange(10, 17)
    assert places[progress.pending(places)].tolist() == [12, 13, 14, 16]


def test_a_queue_that_ends_sooner_has_nothing_delivered_behind_its_end():
    progress = QueueProgress()
    progress.mark(np.array([0, 1, 2, 5]))
    progress.lower_end(2)
    assert progress.begin == 2
    assert progress.pending(np.arange(2, 7)).all()


def test_entries_that_lost_their_times_since_the_start_are_followed():
    now_ms = [1_000_000_000_000]
    log = ListedEntries()
    timer = TimerQueue(log, TimerHandover(FaultyDisk(), Path("/store")), now_ms=lambda: now_ms[0])
    timer.keep_topics(lambda topic: True)
    timer.parked(log.add([now_ms[0] + 10_000, *[now_ms[0] + 200_000] * 3]))
    while timer.refill():
        pass
    # As zeros in the file say: no time, and less than what is in memory already.
    log.times_ms[1:] = [0] * 3
    now_ms[0] += 200_000
    while timer.refill():
        pass
    rows = timer.take_due(9)
    assert rows.queue_offsets.tolist() == [1, 2, 3, 0]
