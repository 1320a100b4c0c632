"""Messages that wait longer than the log is kept, on a real store with a clock that is moved."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from structlog.testing import capture_logs

from ariane_broker.delay.delay import Delay
from ariane_broker.delay.delivery import Delivery
from ariane_broker.delay.delivery_loop import DeliveryLoop
from ariane_broker.delay.level_queues import LevelQueues
from ariane_broker.delay.parked.delivered_origins import delivered_origins
from ariane_broker.delay.parked.parked_queue import ParkedRows
from ariane_broker.delay.parking import Parking
from ariane_broker.delay.timer.aged_records import AgedRecords
from ariane_broker.delay.timer.reparking import Reparking
from ariane_broker.delay.timer.timer_handover import TimerHandover
from ariane_broker.delay.timer.timer_queue import TIMER_QUEUE, TimerQueue
from ariane_broker.queue_key import QueueKey
from ariane_broker.topics.topic_table import TopicConfig
from ariane_record.decoding.columns import decode_columns
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_servicekit import ServiceError
from ariane_storage import Store
from ariane_storage.config import DELAY_LEVELS_MS
from ariane_storage.errors import StoreFull
from ariane_storage.testing import FaultyDisk, FixedClock, apply_retention, block_of, small_config
from services.broker.tests.log_side import broker_log

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
HOST = ("10.1.2.3", 4000)


class LogThatFills:
    """A store that takes nothing more while it is told so."""

    is_full = False

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)

    def append(self, *block, **fields):
        if self.is_full:
            raise StoreFull(Path("store"), "no room")
        return self._store.append(*block, **fields)


class Delays:
    """The rooms of delay on one store."""

    def __init__(self, store, clock):
        self.store, self.clock = store, clock
        self.levels = LevelQueues(store, levels_ms=DELAY_LEVELS_MS, now_ms=clock.now_ms)
        self.timer = TimerQueue(
            store, TimerHandover(FaultyDisk(), Path("/store")), now_ms=clock.now_ms
        )
        self.on_appended = lambda: None
        self.log = LogThatFills(store)
        log = broker_log(self.log, arrivals=self)
        log.listen(TIMER_QUEUE.topic, self.parked)
        delivery = Delivery(log, self.topic)
        reparking = Reparking(log, clock.now_ms)
        self.delivery = DeliveryLoop(
            self.levels, self.timer, delivery, reparking, log=log, clock=clock
        )
        self.is_pressed = False
        self.aged = AgedRecords(
            store,
            self.timer,
            reparking,
            clock,
            believed_ms=clock.now_ms,
            age_ms=DAY_MS,
            is_pressed=lambda: self.is_pressed,
        )
        self.parking = Parking(
            levels_ms=DELAY_LEVELS_MS,
            delay_ms_max=40 * DAY_MS,
            now_ms=clock.now_ms,
            check_table=lambda block: None,
        )
        self.restore()

    def restore(self):
        for state in (self.levels, self.timer):
            state.clear()
            for stretch in self.store.stretches(0):
                state.replay(stretch)
            state.forget_lost(lambda queue: self.store.queue_end(*queue))
            state.keep_topics(lambda topic: True)

    def topic(self, name):
        return TopicConfig(topic=name, read_queue_count=2, write_queue_count=2)

    def appended(self, queues, next_commit_log_offsets, _tag_codes=None, _counts=()):
        if queues[0].topic == "orders":
            self.on_appended()

    def parked(self, block, queue_id, appended):
        self.timer.parked(ParkedRows.appended(appended, block.delivery_times_ms))

    def park(self, bodies, times_ms):
        block = block_of("orders", bodies, unique_ids=[body.decode() for body in bodies])
        times = Delay(times_ms=np.array(times_ms, np.int64))
        self.append(self.parking.park(block, QueueKey("orders", 1), times))

    def park_for_level(self, body, level):
        block = block_of("orders", [body])
        self.append(self.parking.park(block, QueueKey("orders", 1), Delay(level)))

    def append(self, parked):
        appended = self.store.append(parked.block, parked.queue.queue_id, born_host=HOST)
        if parked.queue == TIMER_QUEUE:
            self.parked(parked.block, parked.queue.queue_id, appended)

    def fill(self, count=30):
        for _ in range(count):
            self.store.append(block_of("others", [b"x" * 1000]), 0)

    def retain(self):
        places = [place for place in (self.levels.needed_from, self.timer.needed_from) if place]
        return apply_retention(self.store, keep_from=min(places, default=None))

    def delivered(self):
        read = self.store.read_queue(
            "orders", 1, self.store.queue_bounds("orders", 1)[0], max_count=99, max_bytes=1 << 20
        )
        return read.count


@pytest.fixture
def clock():
    return FixedClock()


@pytest.fixture
def store(tmp_path, clock):
    config = replace(
        small_config(), retention_ms=2 * DAY_MS, disk_clean_ratio=1e-9, delete_batch_max=1000
    )
    with Store.open(tmp_path / "store", config, clock=clock) as store:
        yield store


@pytest.fixture
def delays(store, clock):
    return Delays(store, clock)


async def test_delayed_messages_hold_back_retention_until_they_are_parked_again(
    delays, store, clock
):
    delays.fill(3)
    due = clock.now_ms() + 20 * DAY_MS
    delays.park([b"a", b"b"], [due, due + 5])
    delays.fill()
    clock.advance(3 * DAY_MS)
    delays.fill()
    assert delays.retain().min_offset <= delays.timer.needed_from
    held = store.min_offset
    await delays.aged.turn()
    assert delays.aged.reparked_count == 2
    assert delays.retain().min_offset > held
    await delays.aged.turn()
    assert delays.aged.reparked_count == 2, "they are young again"
    delays.restore()
    clock.time_ms = due - 1
    await delays.delivery.turn()
    assert delays.delivered() == 0
    clock.time_ms = due + 5
    await delays.delivery.turn()
    await delays.delivery.turn()
    assert delays.delivered() == 2
    message = store.query_by_key("orders", "a")[0]
    assert message.born_host == HOST
    assert message.properties == {"UNIQ_KEY": "a", "TIMER_DELIVER_MS": str(due)}


async def test_a_full_disk_does_not_wait_for_what_waits(delays, store, clock):
    delays.fill(3)
    due = clock.now_ms() + 20 * DAY_MS
    delays.park([b"a", b"b"], [due, due])
    delays.fill(60)
    delays.park([b"young"], [due])
    held = delays.timer.needed_from
    await delays.aged.turn()
    assert delays.aged.reparked_count == 0
    delays.is_pressed = True
    await delays.aged.turn()
    assert delays.aged.reparked_count == 2
    assert delays.timer.needed_from > held
    await delays.aged.turn()
    assert delays.aged.reparked_count == 2, "the older half has none any more"
    delays.restore()
    clock.time_ms = due
    await delays.delivery.turn()
    assert delays.delivered() == 3


async def test_a_disk_that_is_full_of_what_waits_is_not_filled_with_copies(delays, clock):
    due = clock.now_ms() + 20 * DAY_MS
    for number in range(40):
        delays.park([b"%d" % number], [due])
    delays.is_pressed = True
    await delays.aged.turn()
    assert delays.aged.reparked_count == 0


async def test_a_message_parked_again_twice_is_delivered_once(delays, store, clock):
    due = clock.now_ms() + 9 * DAY_MS
    delays.park([b"a"], [due])
    for _ in range(4):
        clock.advance(2 * DAY_MS)
        await delays.aged.turn()
        delays.restore()
    assert delays.aged.reparked_count == 4
    clock.time_ms = due
    await delays.delivery.turn()
    assert delays.delivered() == 1
    origins = [place for stretch in store.stretches(0) for place in delivered_origins(stretch)]
    assert len(set(origins)) == len(origins) == 5


async def test_entries_of_rocketmq_do_not_say_the_time(delays, store, clock):
    """Its consume queue has the hash of a tag there; the record says when it is due."""
    due = clock.now_ms() + DAY_MS
    block = block_of("orders", [b"a"])
    times = Delay(times_ms=np.array([due], np.int64))
    parked = delays.parking.park(block, QueueKey("orders", 1), times)
    wrong = replace(parked.block, delivery_times_ms=np.array([2598919], np.int64))
    store.append(wrong, TIMER_QUEUE.queue_id)
    delays.restore()
    await delays.delivery.turn()
    assert delays.delivered() == 0
    clock.time_ms = due
    await delays.delivery.turn()
    assert delays.delivered() == 1


async def test_a_clock_that_is_set_makes_nothing_early_and_nothing_twice(delays, clock):
    begin = clock.now_ms()
    delays.park([b"a"], [begin + 1000])
    clock.advance(-DAY_MS)
    await delays.delivery.turn()
    assert delays.delivered() == 0
    clock.time_ms = begin + 2 * DAY_MS
    await delays.delivery.turn()
    assert delays.delivered() == 1
    clock.time_ms = begin
    await delays.delivery.turn()
    delays.restore()
    await delays.delivery.turn()
    assert delays.delivered() == 1


async def test_a_message_of_a_level_is_not_a_millisecond_early(delays, clock):
    delays.park_for_level(b"a", 1)
    clock.advance(999)
    await delays.delivery.turn()
    assert delays.delivered() == 0
    clock.advance(1)
    await delays.delivery.turn()
    assert delays.delivered() == 1


@pytest.mark.parametrize("of_level", [0, 1])
async def test_a_message_without_room_is_delivered_once_there_is_room(delays, clock, of_level):
    due = clock.now_ms() + 1000
    delays.park([b"a", b"b"], [due, due + 1])
    for _ in range(of_level):
        delays.park_for_level(b"c", 1)
    clock.advance(5000)
    delays.log.is_full = True
    for _ in range(3):
        await delays.delivery.turn()
    assert delays.delivered() == 0
    delays.log.is_full = False
    await delays.delivery.turn()
    assert delays.delivered() == 2 + of_level


async def test_a_level_that_is_never_done_holds_up_no_other(delays, store, clock):
    """More falls due all the time, as fast as it is delivered."""
    delays.park([b"timed"], [clock.now_ms() + 500])
    delays.park_for_level(b"of level 1", 1)
    delays.park_for_level(b"of level 2", 2)
    clock.advance(10_000)
    left = iter(range(60))

    def more_falls_due():
        if next(left, None) is not None:
            delays.park_for_level(b"of level 1", 1)
            clock.advance(1000)

    delays.on_appended = more_falls_due
    await delays.delivery.turn()
    assert delays.delivered() == 63
    bodies = [message.body for message in store_order(store)]
    assert set(bodies[:30]) == {b"timed", b"of level 1", b"of level 2"}


def store_order(store):
    read = store.read_queue("orders", 1, 0, max_count=99, max_bytes=1 << 20)
    columns = decode_columns(b"".join(read.chunks), read.sizes.astype(np.int32))
    return list(map(columns.message, range(len(columns))))


def test_the_longest_delay_is_that_of_the_settings(delays, clock):
    delays.park([b"a"], [clock.now_ms() + 40 * DAY_MS])
    with pytest.raises(ServiceError, match="40 days"):
        delays.park([b"a"], [clock.now_ms() + 40 * DAY_MS + 1])


# What the store refuses.


def park_as_rocketmq(store, due_ms, entry_ms):
    """Park a record that has no room for what our copy says of it, as RocketMQ may have done."""
    said = {"REAL_TOPIC": "orders", "REAL_QID": "1", "TIMER_OUT_MS": str(due_ms)}
    encoder = BlockEncoder(TIMER_QUEUE.topic, size_bytes_max=1 << 14)
    empty_bytes = encoder.add(b"", unique_id="full", properties=said, born_timestamp_ms=1)
    encoder.clear()
    body = bytes(store.config.record_bytes_max - empty_bytes)
    encoder.add(body, unique_id="full", properties=said, born_timestamp_ms=1)
    block = replace(encoder.finish(), delivery_times_ms=np.array([entry_ms], np.int64))
    store.append(block, TIMER_QUEUE.queue_id)


def told(logs, event):
    names = ("topic", "unique_id", "count")
    return [tuple(each[name] for name in names) for each in logs if each["event"] == event]


async def test_messages_parked_again_at_once_may_be_more_than_a_segment(delays, clock):
    due = clock.now_ms() + 20 * DAY_MS
    for number in range(12):
        delays.park([b"%d " % number + b"x" * 600], [due])
    clock.advance(3 * DAY_MS)
    await delays.aged.turn()
    assert delays.aged.reparked_count == 12
    clock.time_ms = due
    await delays.delivery.turn()
    assert delays.delivered() == 12


async def test_one_that_cannot_be_parked_again_waits_on_and_keeps_no_other_from_it(
    delays, store, clock
):
    due = clock.now_ms() + 20 * DAY_MS
    park_as_rocketmq(store, due, due)
    delays.park([b"a"], [due])
    delays.restore()
    clock.advance(3 * DAY_MS)
    with capture_logs() as logs:
        await delays.aged.turn()
    assert delays.aged.reparked_count == 1
    assert told(logs, "records_not_parked_again") == [("orders", "full", 1)]
    clock.time_ms = due
    await delays.delivery.turn()
    assert delays.delivered() == 2


async def test_one_without_a_time_that_cannot_be_parked_again_is_not_early(delays, store, clock):
    due = clock.now_ms() + DAY_MS
    park_as_rocketmq(store, due, 2598919)
    delays.restore()
    delays.park([b"a"], [clock.now_ms() + 1000])
    clock.advance(1000)
    await delays.delivery.turn()
    assert delays.delivered() == 1
    for before_ms in (30_000, 1):
        clock.time_ms = due - before_ms
        await delays.delivery.turn()
        assert delays.delivered() == 1
    clock.time_ms = due
    await delays.delivery.turn()
    assert delays.delivered() == 2


async def test_what_the_store_refuses_is_named_and_takes_no_other_with_it(tmp_path, clock):
    config = small_config()
    due = clock.now_ms() + 1000
    with Store.open(tmp_path / "store", config, clock=clock) as store:
        Delays(store, clock).park([b"a", b"x" * 1200, b"b"], [due] * 3)
    config = replace(config, record_bytes_max=2000)
    with Store.open(tmp_path / "store", config, clock=clock) as store:
        delays = Delays(store, clock)
        clock.advance(1000)
        with capture_logs() as logs:
            await delays.delivery.turn()
        assert [message.body for message in store_order(store)] == [b"a", b"b"]
        assert told(logs, "delayed_messages_dropped") == [("orders", "x" * 1200, 1)]
