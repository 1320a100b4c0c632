"""The read room: builds the parts for pulls, ranges and queries."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass

from ariane_broker.clients.room import ClientsRoom
from ariane_broker.environment import Environment
from ariane_broker.errors.store_errors import STORAGE_RULES
from ariane_broker.log.room import LogRoom
from ariane_broker.naming.room import NamingRoom
from ariane_broker.naming.store_host import literal_host
from ariane_broker.read.message_query import MessageQuery
from ariane_broker.read.pull import PullRecords
from ariane_broker.read.queue_looks import QueueLooks
from ariane_broker.read.queue_lookup import QueueLookup
from ariane_broker.read.range_pull import PullRange
from ariane_broker.read.replica_hints import ReplicaHints, memory_bytes_of
from ariane_broker.read.topic_retention import TopicRetention
from ariane_broker.state.room import StateRoom
from ariane_servicekit import ErrorTranslator


@dataclass(frozen=True, slots=True)
class ReadRoom:
    """The parts of the read room."""

    pull_records: PullRecords
    pull_range: PullRange
    query: MessageQuery
    retention: TopicRetention


def read_room(
    environment: Environment,
    state: StateRoom,
    log: LogRoom,
    naming: NamingRoom,
    clients: ClientsRoom,
) -> ReadRoom:
    """Build the read room."""
    store, topics, primary = log.store, state.topics, log.primary
    looks = QueueLooks(
        store=store,
        topics=topics,
        statistics=log.statistics,
        check_group=clients.group_changes.check_not_paused,
        clients=clients.table,
        members=clients.members,
        locks=state.locks,
        epochs=state.epochs,
        receiving=state.receiving,
        service_error=ErrorTranslator(STORAGE_RULES).service_error,
        draw=random.Random(environment.chance.getrandbits(64)).randrange,  # noqa: S311 - fairness, no secret.
        now_ms=environment.clock.now_ms,
        cold_reads=log.cold_reads,
        filtered=log.held.filtered,
        replica_hints=_replica_hints(environment, log),
        monotonic=environment.clock.monotonic,
    )
    return ReadRoom(
        pull_records=PullRecords(looks, log.held, monotonic=environment.clock.monotonic),
        pull_range=PullRange(
            store,
            topics,
            log.held,
            log.statistics,
            state.epochs,
            log.cold_reads,
            hides_end=lambda: primary is not None and primary.hides_end,
        ),
        query=MessageQuery(
            store,
            topics,
            log.cold_reads,
            own_host=lambda: literal_host(naming.announcement.address),
        ),
        retention=TopicRetention(
            store, topics, QueueLookup(store, topics, log.cold_reads), log.cold_reads
        ),
    )


def _replica_hints(environment: Environment, log: LogRoom) -> ReplicaHints | None:
    """Make the hints that send deep backlogs to replicas; None without replicas."""
    if log.primary is None:
        return None
    machine_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    share = environment.settings.backlog_memory_ratio
    memory_bytes = int(share * memory_bytes_of(environment.disk, machine_bytes))
    return ReplicaHints(log.store, memory_bytes, log.primary.readable_replicas)
