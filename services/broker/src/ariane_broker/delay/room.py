"""The delay room: builds what delivers messages later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from ariane_broker.delay import level_queues
from ariane_broker.delay.delayed_counts import DelayedCounts
from ariane_broker.delay.delivery import Delivery
from ariane_broker.delay.delivery_loop import DeliveryLoop
from ariane_broker.delay.level_queues import LevelQueues
from ariane_broker.delay.parked.parked_queue import ParkedRows
from ariane_broker.delay.parking import Parking
from ariane_broker.delay.timer import timer_queue as timer
from ariane_broker.delay.timer.aged_records import AgedRecords
from ariane_broker.delay.timer.reparking import Reparking
from ariane_broker.delay.timer.timer_handover import TimerHandover
from ariane_broker.delay.timer.timer_queue import TIMER_QUEUE, TimerQueue
from ariane_broker.delay.waiting_messages import WaitingMessages
from ariane_broker.environment import Environment
from ariane_broker.log.room import LogRoom
from ariane_broker.settings import BrokerSettings
from ariane_broker.state.room import StateRoom
from ariane_record import RecordTable
from ariane_record.names import DELAY_TOPIC
from ariane_storage.store_files import StoreFiles
from ariane_storage.writing.append import Appended
from ariane_storage.writing.few_records import FewRecords
from ariane_storage.writing.table_check import TableLimits, check_table

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class DelayRoom:
    """The parts of the delay room."""

    parking: Parking
    delivery: Delivery
    delivery_loop: DeliveryLoop
    timer_queue: TimerQueue
    aged_records: AgedRecords
    counts: DelayedCounts
    waiting: WaitingMessages


def delay_room(environment: Environment, state: StateRoom, log: LogRoom) -> DelayRoom:
    """Build the delay room."""
    settings, clock = environment.settings, environment.clock
    store, broker_log = log.store, log.broker_log
    levels_ms = settings.delay_levels_ms
    levels = LevelQueues(store, levels_ms=levels_ms, now_ms=clock.now_ms)
    root = StoreFiles(settings.store_path).root
    handover = TimerHandover(environment.disk, root)
    timer_queue = TimerQueue(store, handover, now_ms=clock.now_ms)
    log.keeping.keep_needed(lambda: levels.needed_from)
    log.keeping.keep_needed(lambda: timer_queue.needed_from)
    log.log_states.keep(levels, level_queues.FILE_NAME)
    log.log_states.keep(timer_queue, timer.FILE_NAME)

    def parked(block: RecordTable, queue_id: int, appended: Appended) -> None:
        times_ms = block.delivery_times_ms
        if times_ms is None:
            # Not counted from the store timestamp, which may be ahead of the clock.
            delivery_loop.parked(clock.now_ms() + levels_ms[queue_id])
            return
        timer_queue.parked(ParkedRows.appended(appended, times_ms.astype(np.int64)))
        delivery_loop.parked(int(times_ms.min()))

    for topic in (TIMER_QUEUE.topic, DELAY_TOPIC):
        broker_log.listen(topic, parked)
    delivery = Delivery(broker_log, state.topics.find)
    reparking = Reparking(broker_log, clock.now_ms)
    delivery_loop = DeliveryLoop(
        levels, timer_queue, delivery, reparking, log=broker_log, clock=clock
    )
    aged_records = AgedRecords(
        store,
        timer_queue,
        reparking,
        clock,
        believed_ms=store.believed_ms,
        age_ms=round(settings.retention_hours * HOUR_MS / 2),
        is_pressed=lambda: log.keeping.disk_used_ratio >= settings.disk_force_ratio,
    )
    parking = Parking(
        levels_ms=levels_ms,
        delay_ms_max=round(settings.delay_days_max * DAY_MS),
        now_ms=clock.now_ms,
        check_table=table_check(settings),
    )
    return DelayRoom(
        parking=parking,
        delivery=delivery,
        delivery_loop=delivery_loop,
        timer_queue=timer_queue,
        aged_records=aged_records,
        counts=DelayedCounts(levels, timer_queue, delivery, levels_ms=levels_ms),
        waiting=WaitingMessages(levels, timer_queue, store, log.cold_reads),
    )


def table_check(settings: BrokerSettings) -> Callable[[RecordTable], object]:
    """Make a function that raises for tables that the store would refuse; it writes nothing."""
    config = settings.store_config()
    limits = TableLimits(config.record_bytes_max, config.segment_bytes)

    def check(table: RecordTable) -> None:
        if FewRecords.of(table, limits) is None:
            check_table(table, limits)

    return check
