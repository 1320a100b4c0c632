"""The room of Spark's batches: builds the parts that stage, commit and publish them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ariane_broker.append.room import AppendRoom
from ariane_broker.clients.room import ClientsRoom
from ariane_broker.delay.room import DelayRoom
from ariane_broker.environment import Environment
from ariane_broker.log.room import LogRoom
from ariane_broker.spark_batches.batch_commits import BatchCommits
from ariane_broker.spark_batches.batch_coordinator import BatchCoordinator
from ariane_broker.spark_batches.batch_parts import BatchParts
from ariane_broker.spark_batches.batch_publication import BatchPublication
from ariane_broker.spark_batches.batch_staging import BatchStaging
from ariane_broker.spark_batches.batch_upkeep import BatchUpkeep
from ariane_broker.spark_batches.records.batch_table import BatchTable
from ariane_broker.spark_batches.sink_peers import SinkPeers
from ariane_broker.spark_batches.sinks import Sinks
from ariane_broker.state.room import StateRoom
from ariane_servicekit import Loop

UPKEEP_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class SparkBatchesRoom:
    """The parts of the room of Spark's batches."""

    staging: BatchStaging
    commits: BatchCommits
    parts: BatchParts
    sinks: Sinks
    loops: tuple[Loop, Loop]


def spark_batches_room(
    environment: Environment,
    state: StateRoom,
    log: LogRoom,
    delay: DelayRoom,
    clients: ClientsRoom,
    *,
    append: AppendRoom,
    peers: SinkPeers,
) -> SparkBatchesRoom:
    """Build the room of Spark's batches."""
    settings, clock, store = environment.settings, environment.clock, log.store
    broker_log = log.broker_log
    table = BatchTable()
    log.log_states.keep(table, "config/batchTransactions.json")
    log.keeping.keep_needed(lambda: table.needed_from)
    name, now_ms = settings.broker_name, clock.now_ms
    coordinator = BatchCoordinator(broker_log, table, peers, broker_name=name, now_ms=now_ms)
    publication = BatchPublication(
        broker_log, table, state.topics.find, delay.parking, coordinator, clock=clock
    )
    staging = BatchStaging(
        broker_log,
        table,
        clients.topic_changes,
        delay.parking,
        now_ms=now_ms,
        body_bytes_max=settings.message_bytes_max,
        is_draining=lambda: append.append_records.draining,
    )
    commits = BatchCommits(
        broker_log,
        table,
        publication,
        coordinator,
        broker_name=name,
        now_ms=now_ms,
        chance=environment.chance,
    )
    parts = BatchParts(broker_log, table, publication, coordinator, broker_name=name, now_ms=now_ms)
    upkeep = BatchUpkeep(
        broker_log,
        table,
        commits,
        parts,
        now_ms=store.believed_ms,
        expiry_ms=round(settings.batch_expiry_s * 1000),
        retention_ms=settings.retention_hours * 3_600_000,
    )
    loop = Loop("batches", upkeep.turn, interval_s=UPKEEP_SECONDS, clock=clock)
    sinks = Sinks(broker_log, table, publication, parts, broker_name=name, now_ms=now_ms)
    return SparkBatchesRoom(staging, commits, parts, sinks, (publication.loop, loop))
