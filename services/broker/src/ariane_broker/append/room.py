"""The append room: builds what takes messages in."""

from __future__ import annotations

from dataclasses import dataclass

from ariane_broker.append.append import AppendRecords
from ariane_broker.append.stored_quota import StoredQuota
from ariane_broker.clients.room import ClientsRoom
from ariane_broker.delay.recall import Recall
from ariane_broker.delay.room import DelayRoom
from ariane_broker.environment import Environment
from ariane_broker.errors.store_errors import STORAGE_RULES
from ariane_broker.log.room import LogRoom
from ariane_broker.naming.broker_drain import BrokerDrain
from ariane_broker.naming.room import NamingRoom
from ariane_broker.state.room import StateRoom
from ariane_servicekit import ErrorTranslator


@dataclass(frozen=True, slots=True)
class AppendRoom:
    """The parts of the append room."""

    append_records: AppendRecords
    drain: BrokerDrain
    recall: Recall
    stored: StoredQuota


def append_room(
    environment: Environment,
    state: StateRoom,
    log: LogRoom,
    naming: NamingRoom,
    clients: ClientsRoom,
    *,
    delay: DelayRoom,
) -> AppendRoom:
    """Build the append room."""
    settings = environment.settings
    append_records = AppendRecords(
        log.broker_log,
        clients.topic_changes,
        log.sequences,
        delay.parking,
        body_bytes_max=settings.message_bytes_max,
        check_table=delay.parking.check_table,
        service_error=ErrorTranslator(STORAGE_RULES).service_error,
    )

    async def stored_bytes(topic: str) -> int:
        return sum(queue.size_bytes for queue in await clients.lookup.kept_queues(topic))

    stored = append_records.stored = StoredQuota(state.topics, stored_bytes)
    return AppendRoom(
        stored=stored,
        append_records=append_records,
        drain=BrokerDrain(append_records, naming.announcement, naming.registration.announce),
        recall=Recall(
            log.broker_log,
            delay.timer_queue,
            broker_name=settings.broker_name,
            is_draining=lambda: append_records.draining,
        ),
    )
