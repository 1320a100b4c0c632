"""The transacting room: half messages, and what becomes of them."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from typing import Final

from ariane_broker.append.room import AppendingRoom
from ariane_broker.clients.room import ChangingRoom
from ariane_broker.delay.parking import Parking
from ariane_broker.delay.room import DelayingRoom
from ariane_broker.errors import STORAGE_RULES
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.log.room import StoringRoom
from ariane_broker.outside import Outside
from ariane_broker.rpc.plain_send import PLAIN_CALL_BYTES_MAX
from ariane_broker.rpc.transaction_streams import StreamParts, TransactionStreams
from ariane_broker.settings import BrokerSettings
from ariane_broker.spark_batches.batch_commits import BatchCommits
from ariane_broker.spark_batches.batch_publication import BatchPublication
from ariane_broker.spark_batches.batch_table import BatchTable
from ariane_broker.spark_batches.batch_upkeep import BatchUpkeep
from ariane_broker.state.room import StateRoom
from ariane_broker.transactions.checking import TransactionChecks
from ariane_broker.transactions.ending import TransactionEnds
from ariane_broker.transactions.ends_together import EndsTogether
from ariane_broker.transactions.half_list import HalfList
from ariane_broker.transactions.half_send import HalfLimits, HalfSend
from ariane_broker.transactions.halves_together import HalvesTogether
from ariane_broker.transactions.transaction_table import TransactionTable
from ariane_broker.transactions.upkeep import TransactionUpkeep
from ariane_record.layout import BLANK_SIZE_MIN_BYTES
from ariane_record.single.message_id import UniqueIdGenerator
from ariane_servicekit import ErrorTranslator, Loop
from ariane_storage.state_file import StateFile
from ariane_storage.store_files import StoreFiles

UPKEEP_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class TransactingRoom:
    """Half messages, and what becomes of them."""

    half_send: HalfSend
    ends: TransactionEnds
    streams: TransactionStreams
    checks: TransactionChecks
    list: HalfList
    upkeep: Loop
    batch_commits: BatchCommits
    batch_loops: tuple[Loop, Loop]


def transacting_room(
    outside: Outside,
    state: StateRoom,
    storing: StoringRoom,
    changing: ChangingRoom,
    appending: AppendingRoom,
    *,
    delaying: DelayingRoom,
) -> TransactingRoom:
    """Half messages, and what becomes of them."""
    settings, clock, store = outside.settings, outside.clock, storing.store
    table = TransactionTable(decision_count_max=settings.transaction_outcomes_max)
    snapshot = StoreFiles(settings.store_path).config / "transactions.json"
    storing.log_states.keep(table, StateFile(snapshot, outside.disk), "config/transactions.json")
    log = storing.log
    unique_ids = UniqueIdGenerator(
        clock.now_ms, ip="127.0.0.1", pid=os.getpid(), origin=secrets.randbits(32)
    )
    half_send = HalfSend(
        log,
        table,
        appending.topics_for_send,
        _half_limits(settings),
        next_unique_id=unique_ids.next_id,
        now_ms=clock.now_ms,
        is_draining=lambda: appending.append_records.draining,
    )
    ends = TransactionEnds(log, table, state.topics.find, now_ms=clock.now_ms)
    streams = _streams(
        outside, state, storing, appending, log=log, table=table, singly=(half_send, ends)
    )
    storing.keeping.keep_needed(lambda: table.needed_from)
    upkeep = TransactionUpkeep(
        store,
        table,
        ends,
        now_ms=store.believed_ms,
        retention_ms=settings.retention_hours * 3_600_000,
        is_pressed=lambda: storing.keeping.disk_used_ratio >= settings.disk_force_ratio,
        segment_bytes=settings.segment_bytes,
    )
    commits, loops = _batches(outside, state, storing, appending, log=log, parking=delaying.parking)
    return TransactingRoom(
        half_send=half_send,
        ends=ends,
        streams=streams,
        checks=TransactionChecks(log, ends, changing.clients),
        list=HalfList(store, table, clock.now_ms),
        upkeep=Loop("transactions", upkeep.turn, interval_s=UPKEEP_SECONDS, clock=clock),
        batch_commits=commits,
        batch_loops=loops,
    )


def _streams(
    outside: Outside,
    state: StateRoom,
    storing: StoringRoom,
    appending: AppendingRoom,
    *,
    log: BrokerLog,
    table: TransactionTable,
    singly: tuple[HalfSend, TransactionEnds],
) -> TransactionStreams:
    """Producers that have many transactions under way."""
    settings, store = outside.settings, storing.store
    half_send, ends = singly
    limits = _half_limits(settings)
    ends_together = EndsTogether(
        log,
        table,
        state.topics.find,
        store_host=lambda: store.config.store_host,
        bytes_max=limits.call_bytes_max,
    )
    parts = StreamParts(
        log=log,
        halves=HalvesTogether(log, table, appending.topics_for_send, limits),
        half_send=half_send,
        ends_together=ends_together,
        ends=ends,
        broker_name=settings.broker_name,
        now_ms=outside.clock.now_ms,
        is_draining=lambda: appending.append_records.draining,
        service_error=ErrorTranslator(STORAGE_RULES).service_error,
    )
    return TransactionStreams(parts)


def _half_limits(settings: BrokerSettings) -> HalfLimits:
    """What half messages are taken."""
    return HalfLimits(
        body_bytes_max=settings.message_bytes_max,
        call_bytes_max=min(settings.segment_bytes - BLANK_SIZE_MIN_BYTES, PLAIN_CALL_BYTES_MAX),
        pending_count_max=settings.half_messages_max,
    )


def _batches(
    outside: Outside,
    state: StateRoom,
    storing: StoringRoom,
    appending: AppendingRoom,
    *,
    log: BrokerLog,
    parking: Parking,
) -> tuple[BatchCommits, tuple[Loop, Loop]]:
    """Batch transactions."""
    settings, clock, store = outside.settings, outside.clock, storing.store
    table = BatchTable()
    snapshot = StoreFiles(settings.store_path).config / "batchTransactions.json"
    file = StateFile(snapshot, outside.disk)
    storing.log_states.keep(table, file, "config/batchTransactions.json")
    storing.keeping.keep_needed(lambda: table.needed_from)
    publication = BatchPublication(log, table, state.topics.find, parking, clock)
    commits = BatchCommits(
        log,
        table,
        appending.topics_for_send,
        publication,
        parking,
        now_ms=clock.now_ms,
        body_bytes_max=settings.message_bytes_max,
        is_draining=lambda: appending.append_records.draining,
    )
    upkeep = BatchUpkeep(
        store,
        log,
        table,
        commits,
        now_ms=store.believed_ms,
        expiry_ms=round(settings.batch_expiry_s * 1000),
        retention_ms=settings.retention_hours * 3_600_000,
    )
    loop = Loop("batches", upkeep.turn, interval_s=UPKEEP_SECONDS, clock=clock)
    return commits, (publication.loop, loop)
