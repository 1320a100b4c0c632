"""The measuring room: the metrics of the broker."""

from __future__ import annotations

from ariane_broker.append.room import AppendRoom
from ariane_broker.clients.room import ClientsRoom
from ariane_broker.delay.room import DelayRoom
from ariane_broker.environment import Environment
from ariane_broker.log.room import LogRoom
from ariane_broker.measuring.broker_measures import BrokerMeasures
from ariane_broker.measuring.queue_measures import QueueMeasures
from ariane_broker.receive.room import ReceiveRoom
from ariane_broker.replication.replication_measures import ReplicationMeasures
from ariane_broker.replication.room import primary_operations
from ariane_broker.state.room import StateRoom
from ariane_broker.transactions.room import TransactionsRoom


def measuring_room(
    environment: Environment,
    state: StateRoom,
    log: LogRoom,
    clients: ClientsRoom,
    *,
    delay: DelayRoom,
    append: AppendRoom,
    transactions: TransactionsRoom,
    receive: ReceiveRoom,
) -> BrokerMeasures:
    """Build the sources of metrics."""
    return BrokerMeasures(
        store=log.store,
        keeping=log.keeping,
        clock_watch=log.clock_watch,
        statistics=log.statistics,
        delayed=delay.counts,
        halves=transactions.list,
        held=log.held,
        clients=clients.table,
        drain=append.drain,
        unread=clients.unread,
        topics=state.topics,
        groups=state.groups,
        queues=QueueMeasures(
            log.store,
            clients.offset_changes,
            receive.standings,
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
