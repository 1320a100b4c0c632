"""The room of Spark's batches: builds the parts that stage, commit and publish them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ariane_broker.append.room import AppendRoom
from ariane_broker.delay.room import DelayRoom
from ariane_broker.environment import Environment
from ariane_broker.log.room import LogRoom
from ariane_broker.spark_batches.batch_commits import BatchCommits
from ariane_broker.spark_batches.batch_publication import BatchPublication
from ariane_broker.spark_batches.batch_table import BatchTable
from ariane_broker.spark_batches.batch_upkeep import BatchUpkeep
from ariane_broker.spark_batches.sinks import Sinks
from ariane_broker.state.room import StateRoom
from ariane_servicekit import Loop

UPKEEP_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class SparkBatchesRoom:
    """The parts of the room of Spark's batches."""

    commits: BatchCommits
    sinks: Sinks
    loops: tuple[Loop, Loop]


def spark_batches_room(
    environment: Environment,
    state: StateRoom,
    log: LogRoom,
    delay: DelayRoom,
    append: AppendRoom,
) -> SparkBatchesRoom:
    """Build the room of Spark's batches."""
    settings, clock, store = environment.settings, environment.clock, log.store
    broker_log = log.broker_log
    table = BatchTable()
    log.log_states.keep(table, "config/batchTransactions.json")
    log.keeping.keep_needed(lambda: table.needed_from)
    publication = BatchPublication(broker_log, table, state.topics.find, delay.parking, clock)
    commits = BatchCommits(
        broker_log,
        table,
        append.topics_for_send,
        publication,
        delay.parking,
        broker_name=settings.broker_name,
        now_ms=clock.now_ms,
        body_bytes_max=settings.message_bytes_max,
        is_draining=lambda: append.append_records.draining,
    )
    upkeep = BatchUpkeep(
        broker_log,
        table,
        commits,
        now_ms=store.believed_ms,
        expiry_ms=round(settings.batch_expiry_s * 1000),
        retention_ms=settings.retention_hours * 3_600_000,
    )
    loop = Loop("batches", upkeep.turn, interval_s=UPKEEP_SECONDS, clock=clock)
    sinks = Sinks(broker_log, table, publication, now_ms=clock.now_ms)
    return SparkBatchesRoom(commits, sinks, (publication.loop, loop))
