"""The measuring room: what metrics tell of the broker."""

from __future__ import annotations

from ariane_broker.append.room import AppendingRoom
from ariane_broker.clients.room import ChangingRoom
from ariane_broker.delay.room import DelayingRoom
from ariane_broker.environment import Environment
from ariane_broker.log.room import StoringRoom
from ariane_broker.measuring.broker_measures import BrokerMeasures
from ariane_broker.measuring.queue_measures import QueueMeasures
from ariane_broker.receive.room import ReceivingRoom
from ariane_broker.state.room import StateRoom
from ariane_broker.transactions.room import TransactingRoom


def measuring_room(
    environment: Environment,
    state: StateRoom,
    storing: StoringRoom,
    changing: ChangingRoom,
    *,
    delaying: DelayingRoom,
    appending: AppendingRoom,
    transacting: TransactingRoom,
    receiving: ReceivingRoom,
) -> BrokerMeasures:
    """What metrics are read from."""
    return BrokerMeasures(
        store=storing.store,
        keeping=storing.keeping,
        clock_watch=storing.clock_watch,
        statistics=storing.statistics,
        delayed=delaying.counts,
        halves=transacting.list,
        held=storing.held,
        clients=changing.clients,
        drain=appending.drain,
        unread=changing.unread,
        topics=state.topics,
        groups=state.groups,
        queues=QueueMeasures(
            storing.store,
            changing.offset_changes,
            receiving.standings,
            now_ms=environment.clock.now_ms,
            monotonic=environment.clock.monotonic,
        ),
    )
