"""The state room: topics, groups, offsets, in memory and on the disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ariane_broker.clients.deaths import suspicions as death_suspicions
from ariane_broker.clients.deaths.suspicions import Suspicions
from ariane_broker.durable.saved_state import NotifyingFile, SavedState
from ariane_broker.environment import Environment
from ariane_broker.groups.consumer_groups import ConsumerGroups
from ariane_broker.groups.consumer_offsets import ConsumerOffsets
from ariane_broker.groups.queue_locks import QueueLocks
from ariane_broker.groups.stream_queries import StreamQueries
from ariane_broker.log import log_epochs
from ariane_broker.log.log_epochs import LogEpochs
from ariane_broker.log.room import LogRoom
from ariane_broker.receive.in_hand import receive_table
from ariane_broker.receive.in_hand.receive_log import ReceiveLog
from ariane_broker.receive.in_hand.receive_table import ReceiveTable
from ariane_broker.state.state_files import BrokerState, StateFiles, StateTables
from ariane_broker.topics.topic_table import TopicTable
from ariane_storage import state_file
from ariane_storage.store_files import StoreFiles


@dataclass(frozen=True, slots=True)
class StateRoom:
    """Topics, groups and offsets, in memory and on the disk."""

    topics: TopicTable
    groups: ConsumerGroups
    offsets: ConsumerOffsets
    files: StateFiles
    state: BrokerState
    saved_offsets: SavedState
    locks: QueueLocks
    saved_locks: SavedState
    suspicions: Suspicions
    saved_suspicions: SavedState
    epochs: LogEpochs
    receiving: ReceiveTable
    receive_log: ReceiveLog
    stream_queries: StreamQueries


def state_room(environment: Environment, log: LogRoom) -> StateRoom:
    """Make the room; the state of consumers is saved only after the log of the store is flushed."""
    store = log.store
    settings, now_ms = environment.settings, environment.clock.now_ms
    topics = TopicTable(now_ms=now_ms, default_queue_count=settings.default_queue_count)
    groups = ConsumerGroups(now_ms=now_ms)
    offsets = ConsumerOffsets(now_ms=now_ms)
    folder = StoreFiles(settings.store_path).config
    primary = log.primary
    changed = primary.state_changed if primary is not None else None
    called = primary.call_for_state if primary is not None else None
    files = StateFiles(
        topics=_notifying(state_file.StateFile(folder / "topics.json", environment.disk), changed),
        offsets=state_file.StateFile(folder / "consumerOffset.json", environment.disk),
        groups=_notifying(
            state_file.StateFile(folder / "subscriptionGroup.json", environment.disk), changed
        ),
        locks=_notifying(
            state_file.StateFile(folder / "queueLocks.json", environment.disk), called
        ),
        deaths=state_file.StateFile(folder / death_suspicions.FILE_NAME, environment.disk),
        epochs=_notifying(
            state_file.StateFile(folder / log_epochs.FILE_NAME, environment.disk), called
        ),
    )
    locks = QueueLocks(
        monotonic=environment.clock.monotonic,
        now_ms=now_ms,
        lease_seconds=settings.queue_lock_lease_s,
    )
    suspicions = Suspicions()
    epochs = _log_epochs(environment, log)
    state = BrokerState(
        files,
        StateTables(topics, offsets, groups, locks, suspicions, epochs),
        statistics=log.statistics,
        end_of_queue=lambda queue: store.queue_end(*queue),
        executor=environment.threads.state,
        accept_offset_loss=settings.accept_offset_loss,
    )
    executor = environment.threads.state
    saved_offsets = SavedState(files.offsets, offsets.documented, executor, flush_log=store.flush)
    saved_suspicions = SavedState(
        files.deaths, suspicions.documented, executor, flush_log=store.flush
    )
    saved_locks = SavedState(files.locks, locks.documented, executor)
    receiving = ReceiveTable(offsets, saved_offsets.mark_changed, store.deleted_end)
    log.log_states.keep(receiving, receive_table.FILE_NAME)
    return StateRoom(
        topics,
        groups,
        offsets,
        files,
        state,
        saved_offsets,
        locks,
        saved_locks,
        suspicions,
        saved_suspicions,
        epochs,
        receiving,
        ReceiveLog(log.broker_log, receiving, offsets, draw_bytes=environment.chance.randbytes),
        StreamQueries(now_ms=now_ms),
    )


def _log_epochs(environment: Environment, log: LogRoom) -> LogEpochs:
    primary = log.primary
    return LogEpochs(
        log.store,
        log.statistics,
        draw=environment.chance.randrange,
        check_all_known=primary.check_lease if primary is not None else lambda: None,
        is_shared=lambda: primary is None or primary.is_begin_shared,
    )


def _notifying(
    file: state_file.StateFile, on_saved: Callable[[], None] | None
) -> state_file.StateFile | NotifyingFile:
    """A file that notifies replicas, if there are any, after each save."""
    return file if on_saved is None else NotifyingFile(file, on_saved)
