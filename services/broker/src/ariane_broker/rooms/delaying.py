"""The delaying room: messages that are delivered later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ariane_broker.consumer_offsets import QueueKey
from ariane_broker.delay.delayed_append import DelayedAppend
from ariane_broker.delay.delivery import Delivery
from ariane_broker.delay.delivery_loop import DeliveryLoop
from ariane_broker.delay.level_queues import FILE_NAME, LevelQueues
from ariane_broker.delay.parking import Parked, Parking
from ariane_broker.rooms.outside import Outside
from ariane_broker.rooms.state import StateRoom
from ariane_broker.rooms.storing import StoringRoom
from ariane_broker.settings import BrokerSettings
from ariane_broker.system_topics import DELAY_LEVEL_COUNT
from ariane_record import RecordBlock
from ariane_storage.append import Appended
from ariane_storage.block_check import check_block
from ariane_storage.config import DELAY_LEVELS_MS
from ariane_storage.state_file import StateFile
from ariane_storage.store_files import StoreFiles


@dataclass(frozen=True, slots=True)
class DelayingRoom:
    """Messages that are delivered later."""

    delayed_append: DelayedAppend
    delivery: Delivery
    delivery_loop: DeliveryLoop


def delaying_room(outside: Outside, state: StateRoom, storing: StoringRoom) -> DelayingRoom:
    """Messages that are delivered later."""
    settings, clock, store = outside.settings, outside.clock, storing.store
    levels = LevelQueues(store, level_count=DELAY_LEVEL_COUNT, now_ms=clock.now_ms)
    file = StateFile(StoreFiles(settings.store_path).root / FILE_NAME, outside.disk)
    storing.log_states.keep(levels, file, FILE_NAME)

    def delivered(queue: QueueKey, appended: Appended) -> None:
        storing.arrivals.appended(queue, appended.next_commit_log_offset)
        storing.keeping.appended(appended.next_commit_log_offset)

    def flush() -> None:
        if settings.flush_mode == "sync":
            storing.group_flush.request()

    delivery = Delivery(store, store, find_topic=state.topics.find, on_appended=delivered)
    delivery_loop = DeliveryLoop(levels, delivery, clock, on_delivered=flush)

    def parked(parked: Parked, appended: Appended) -> None:
        level = parked.queue.queue_id + 1
        delivery_loop.parked(appended.store_timestamp_ms + DELAY_LEVELS_MS[level - 1])

    parking = Parking(level_count=DELAY_LEVEL_COUNT, check_block=block_check(settings))
    return DelayingRoom(
        delayed_append=DelayedAppend(parking, store, on_parked=parked),
        delivery=delivery,
        delivery_loop=delivery_loop,
    )


def block_check(settings: BrokerSettings) -> Callable[[RecordBlock], object]:
    """Raises for a block that the store would not take; writes nothing."""
    config = settings.store_config(("127.0.0.1", 0))
    return partial(
        check_block,
        record_bytes_max=config.record_bytes_max,
        block_bytes_max=config.segment_bytes,
        checksum=config.checksum,
    )
