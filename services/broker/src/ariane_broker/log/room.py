"""The log room: builds the store, what waits for it, and the state rebuilt from its log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ariane_broker.environment import Environment
from ariane_broker.log.broker_log import BrokerLog
from ariane_broker.log.clock_watch import ClockWatch
from ariane_broker.log.cold_reads import ColdReads
from ariane_broker.log.derived.log_states import LogStates
from ariane_broker.log.derived.producer_sequences import ProducerSequences
from ariane_broker.log.filtered_watches import FilteredWatches
from ariane_broker.log.group_flush import GroupFlush
from ariane_broker.log.held_requests import Arrivals, HeldRequests
from ariane_broker.log.promise import LonePromises
from ariane_broker.log.statistics import BrokerStatistics
from ariane_broker.log.store_keeping import (
    FLUSH_TICK_SECONDS,
    INDEX_BACKLOG_KEYS,
    Copying,
    StoreKeeping,
)
from ariane_broker.replication.primary import Primary
from ariane_broker.replication.room import Elected, PrimaryPromises, primary_of
from ariane_broker.settings import BrokerSettings
from ariane_servicekit import (
    ExitStatus,
    get_logger,
)
from ariane_servicekit.security.gate.asking import user_name
from ariane_storage.store import Store

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LogRoom:
    """The parts of the log room."""

    store: Store
    broker_log: BrokerLog
    held: HeldRequests
    arrivals: Arrivals
    group_flush: GroupFlush
    keeping: StoreKeeping
    cold_reads: ColdReads
    clock_watch: ClockWatch
    statistics: BrokerStatistics
    sequences: ProducerSequences
    log_states: LogStates
    primary: Primary | None


def log_room(
    environment: Environment,
    elected: Elected | None = None,
    *,
    set_begin: Callable[[], int] | None = None,
) -> LogRoom:
    """Build the log room.

    Args:
        environment: What the broker gets from its process.
        elected: The election that made it primary of a set; None for a broker without replicas.
        set_begin: Returns where the log of the set begins, for a replica; None for others.
    """
    settings, threads = environment.settings, environment.threads
    store = Store(
        settings.store_path,
        replace(settings.store_config(), index_backlog_keys=INDEX_BACKLOG_KEYS),
        disk=environment.disk,
        clock=environment.store_clock,
    )
    held = HeldRequests(FilteredWatches(store), count_max=settings.held_pulls_max)
    arrivals = Arrivals(store, held)

    flush_failed = _end_process(environment)
    primary = primary_of(environment, elected, store, arrivals) if elected is not None else None
    on_flushed = arrivals.confirm if primary is None else primary.advance
    group_flush = GroupFlush(
        store,
        threads.flusher,
        timeout_seconds=settings.flush_wait_s,
        on_flushed=on_flushed,
        on_failed=flush_failed,
    )
    keeping = _store_keeping(
        environment,
        store,
        held,
        _copying(primary, set_begin),
        on_flushed=on_flushed,
        on_failed=flush_failed,
    )
    sequences = _sequences(settings, store)
    statistics = BrokerStatistics()
    cold_reads = ColdReads(threads.cold, statistics)
    broker_log = BrokerLog(
        store,
        LonePromises(settings.flush_mode, group_flush)
        if primary is None
        else PrimaryPromises(settings, group_flush, primary),
        sequences,
        arrivals,
        keeping,
        cold_reads=cold_reads,
        statistics=statistics,
        monotonic=environment.clock.monotonic,
        replicas=primary,
    )
    if primary is not None:
        keeping.keep_needed(lambda: primary.needed_from)
    log_states = LogStates(store, threads.state, settings.store_path, environment.disk)
    keeping.keep_needed(lambda: log_states.needed_from)
    log_states.keep(sequences, "config/producerSequences.json")
    return LogRoom(
        store=store,
        broker_log=broker_log,
        held=held,
        arrivals=arrivals,
        group_flush=group_flush,
        keeping=keeping,
        cold_reads=cold_reads,
        clock_watch=ClockWatch(store, environment.store_clock, environment.clock),
        statistics=statistics,
        sequences=sequences,
        log_states=log_states,
        primary=primary,
    )


def _sequences(settings: BrokerSettings, store: Store) -> ProducerSequences:
    return ProducerSequences(
        now_ms=store.believed_ms,
        expiry_ms=round(settings.producer_expiry_s * 1000),
        stream_count_max=settings.producer_streams_max,
        deleted_end=store.deleted_end,
        user=user_name,
    )


def _store_keeping(
    environment: Environment,
    store: Store,
    held: HeldRequests,
    copies: Copying | None,
    *,
    on_flushed: Callable[[], None],
    on_failed: Callable[[BaseException], None],
) -> StoreKeeping:
    settings = environment.settings
    return StoreKeeping(
        store,
        environment.threads.keeper,
        environment.clock,
        flush_tick_seconds=min(FLUSH_TICK_SECONDS, settings.flush_interval_ms / 1000),
        disk_refuse_ratio=settings.disk_refuse_ratio,
        copies=copies,
        on_flushed=on_flushed,
        on_repaired=held.wake_all,
        on_failed=on_failed,
    )


def _copying(primary: Primary | None, set_begin: Callable[[], int] | None) -> Copying | None:
    async def always(_: int) -> bool:
        return True

    if primary is not None:
        return Copying(lambda: None, primary.may_begin)
    return Copying(set_begin, always) if set_begin is not None else None


def _end_process(environment: Environment) -> Callable[[BaseException], None]:
    """Make the function to be called when a flush has failed."""
    reported: set[str] = set()

    def flush_failed(error: BaseException) -> None:
        # All calls to a poisoned store meet the same failure: it is logged once.
        if not reported:
            _log.error("flush_failed", cause=str(error))
        reported.add(str(error))
        environment.stop.request(str(error), exit_status=ExitStatus.FAULT)

    return flush_failed
