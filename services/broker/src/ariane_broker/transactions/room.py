"""The transaction room: builds the parts that store half messages and end transactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ariane_broker.append.room import AppendRoom
from ariane_broker.clients.room import ClientsRoom
from ariane_broker.environment import Environment
from ariane_broker.log.room import LogRoom
from ariane_broker.state.room import StateRoom
from ariane_broker.transactions.checking import TransactionChecks
from ariane_broker.transactions.ending import TransactionEnds
from ariane_broker.transactions.half_list import HalfList
from ariane_broker.transactions.halves import HalfLimits, Halves
from ariane_broker.transactions.recent_halves import RecentHalves
from ariane_broker.transactions.transaction_table import TransactionTable
from ariane_broker.transactions.upkeep import TransactionUpkeep
from ariane_servicekit import Loop

UPKEEP_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class TransactionsRoom:
    """The parts of the transaction room."""

    halves: Halves
    ends: TransactionEnds
    checks: TransactionChecks
    list: HalfList
    upkeep: Loop


def transactions_room(
    environment: Environment,
    state: StateRoom,
    log: LogRoom,
    clients: ClientsRoom,
    append: AppendRoom,
) -> TransactionsRoom:
    """Build the transaction room."""
    settings, clock, store = environment.settings, environment.clock, log.store
    table = TransactionTable(decision_count_max=settings.transaction_outcomes_max)
    log.log_states.keep(table, "config/transactions.json")
    broker_log = log.broker_log
    call_bytes_max, recent = settings.call_bytes_max, RecentHalves()
    halves = Halves(
        broker_log,
        table,
        state.topics.find,
        HalfLimits(call_bytes_max, settings.half_messages_max),
        recent=recent,
        is_draining=lambda: append.append_records.draining,
        service_error=append.append_records.service_error,
    )
    append.append_records.halves = halves
    ends = TransactionEnds(
        broker_log,
        table,
        state.topics.find,
        recent=recent,
        now_ms=clock.now_ms,
        bytes_max=call_bytes_max,
    )
    log.keeping.keep_needed(lambda: table.needed_from)
    upkeep = TransactionUpkeep(
        broker_log,
        table,
        now_ms=clock.now_ms,
        believed_ms=store.believed_ms,
        retention_ms=settings.retention_hours * 3_600_000,
        is_pressed=lambda: log.keeping.disk_used_ratio >= settings.disk_force_ratio,
        segment_bytes=settings.segment_bytes,
    )
    return TransactionsRoom(
        halves=halves,
        ends=ends,
        checks=TransactionChecks(broker_log, ends, clients.table),
        list=HalfList(store, table, clock.now_ms),
        upkeep=Loop("transactions", upkeep.turn, interval_s=UPKEEP_SECONDS, clock=clock),
    )
