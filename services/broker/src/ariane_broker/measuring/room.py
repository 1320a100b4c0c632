"""The measuring room: the metrics of the broker."""

from __future__ import annotations

from ariane_broker.environment import Environment
from ariane_broker.log.room import LogRoom
from ariane_broker.measuring.broker_measures import BrokerMeasures
from ariane_broker.measuring.queue_measures import QueueMeasures
from ariane_broker.replication.replication_measures import ReplicationMeasures
from ariane_broker.replication.room import primary_operations
from ariane_broker.rooms import Rooms
from ariane_broker.state.room import StateRoom


def measuring_room(environment: Environment, rooms: Rooms) -> BrokerMeasures:
    """Build the sources of metrics."""
    log, state, clients = rooms.log, rooms.state, rooms.clients
    return BrokerMeasures(
        store=log.store,
        keeping=log.keeping,
        clock_watch=log.clock_watch,
        statistics=log.statistics,
        delayed=rooms.delay.counts,
        halves=rooms.transactions.list,
        held=log.held,
        clients=clients.table,
        drain=rooms.append.drain,
        unread=clients.unread,
        topics=state.topics,
        groups=state.groups,
        queues=QueueMeasures(
            log.store,
            clients.offset_queries,
            rooms.receive.standings,
            now_ms=environment.clock.now_ms,
            monotonic=environment.clock.monotonic,
        ),
        replication=_replication(environment, state, log),
    )


def _replication(
    environment: Environment, state: StateRoom, log: LogRoom
) -> ReplicationMeasures | None:
    if log.primary is None:
        return None
    operations = primary_operations(environment, log.primary, state.saved_offsets.save)
    return ReplicationMeasures(operations.names, operations.status, log.store)
