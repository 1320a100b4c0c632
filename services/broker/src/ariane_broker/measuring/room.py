"""The measuring room: the metrics of the broker."""

from __future__ import annotations

from ariane_broker.environment import Environment
from ariane_broker.measuring.broker_measures import BrokerMeasures
from ariane_broker.measuring.queue_measures import QueueMeasures
from ariane_broker.replication.replication_measures import ReplicationMeasures
from ariane_broker.replication.room import primary_operations
from ariane_broker.rooms import Rooms


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
        replication=_replication(environment, rooms),
    )


def _replication(environment: Environment, rooms: Rooms) -> ReplicationMeasures | None:
    primary, store = rooms.log.primary, rooms.log.store
    if primary is None:
        return None
    operations = primary_operations(
        environment, primary, rooms.state.saved_offsets.save, rooms.clients.farewell.notify
    )
    return ReplicationMeasures(operations.names, operations.status, store)
