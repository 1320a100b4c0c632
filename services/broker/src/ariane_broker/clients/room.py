"""The clients room: changes of topics, groups and offsets; the attached clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from ariane_broker.clients.client_admission import ClientAdmission
from ariane_broker.clients.client_questions import ClientQuestions
from ariane_broker.clients.client_table import ClientTable, Conflict
from ariane_broker.clients.deaths.vanished_members import VanishedMembers
from ariane_broker.clients.farewell import Farewell
from ariane_broker.clients.members.returning_members import ReturningMembers
from ariane_broker.clients.producers import Producers
from ariane_broker.clients.subscription_conflicts import SubscriptionConflicts
from ariane_broker.consuming.offset_changes import OffsetChanges
from ariane_broker.consuming.offset_deletion import OffsetDeletion
from ariane_broker.consuming.offset_queries import OffsetQueries
from ariane_broker.consuming.queue_locking import QueueLocking
from ariane_broker.durable.saved_state import StateFile
from ariane_broker.environment import Environment
from ariane_broker.groups.group_changes import GroupChanges
from ariane_broker.log.log_epochs import LogEpochs
from ariane_broker.log.room import LogRoom
from ariane_broker.naming.room import NamingRoom
from ariane_broker.read.queue_lookup import QueueLookup
from ariane_broker.state.room import StateRoom
from ariane_broker.topics.topic_changes import TopicChanges, TopicEffects
from ariane_broker.topics.topic_limits import TopicLimits
from ariane_broker.topics.unread_queues import UnreadQueues
from ariane_servicekit import get_logger, in_turns, new_id
from ariane_servicekit.observability.logs import LineBudget

CONFLICTS_LOGGED_PER_S: Final = 20
"""Conflicts of subscriptions that are logged in one second."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ClientsRoom:
    """The parts for changes of topics, groups and offsets, and for attached clients."""

    topic_changes: TopicChanges
    group_changes: GroupChanges
    offset_changes: OffsetChanges
    offset_queries: OffsetQueries
    offset_deletion: OffsetDeletion
    table: ClientTable
    members: VanishedMembers
    returning: ReturningMembers
    producers: Producers
    client_admission: ClientAdmission
    farewell: Farewell
    lookup: QueueLookup
    questions: ClientQuestions
    conflicts: SubscriptionConflicts
    locking: QueueLocking
    unread: UnreadQueues


def clients_room(
    environment: Environment, state: StateRoom, log: LogRoom, naming: NamingRoom
) -> ClientsRoom:
    """Build the parts for changes of topics, groups and offsets, and for attached clients."""
    settings = environment.settings
    copied = log.primary.state_copied if log.primary is not None else _nobody_copies
    unread = UnreadQueues(log.store, state.topics, state.offsets)
    topic_changes = TopicChanges(
        state.topics,
        TopicLimits(settings.topics_max, settings.queues_max, 2 * settings.groups_max),
        unread,
        _topic_effects(environment, state, log, naming, copied),
        auto_create_queue_count=settings.default_queue_count if settings.auto_create_topics else 0,
    )
    group_changes = GroupChanges(
        state.groups,
        save=_saver(state.files.groups, environment.threads.state),
        forget_offsets=partial(_forget_group, state, log),
        copied=copied,
        auto_create=settings.auto_create_groups,
        groups_max=settings.groups_max,
    )
    clock = environment.clock
    conflicts = SubscriptionConflicts(now_ms=clock.now_ms, monotonic=clock.monotonic)
    clients = ClientTable(
        clock,
        flags_conflicts=group_changes.flags_conflicts,
        on_conflict=partial(_note_conflict, conflicts, LineBudget(CONFLICTS_LOGGED_PER_S)),
        receiver_silence_seconds=settings.client_heartbeat_s,
    )
    lookup = QueueLookup(log.store, state.topics, log.cold_reads)
    offset_changes = OffsetChanges(
        state.offsets,
        log.store,
        state.topics,
        state.groups,
        group_changes=group_changes,
        clients=clients,
        cold_reads=log.cold_reads,
        locks=state.locks,
        epochs=state.epochs,
        saved=state.saved_offsets,
        replicate=partial(_replicate_offsets, log, copied),
    )
    return ClientsRoom(
        topic_changes=topic_changes,
        group_changes=group_changes,
        offset_changes=offset_changes,
        offset_queries=OffsetQueries(state.offsets, log.store, lookup, log.cold_reads),
        offset_deletion=_offset_deletion(state, log, clients, copied),
        table=clients,
        members=_vanished_members(environment, state, log, clients),
        returning=ReturningMembers(
            state.offsets.has_any,
            monotonic=clock.monotonic,
            had_another_primary=log.primary is not None,
        ),
        producers=Producers(clock.now_ms),
        client_admission=ClientAdmission(
            clients, group_changes, make_topic=topic_changes.create_for_group
        ),
        farewell=Farewell(clients, grace_seconds=settings.grace_s),
        lookup=lookup,
        questions=ClientQuestions(new_id=lambda: new_id(environment.chance)),
        conflicts=conflicts,
        locking=QueueLocking(state.locks, clients, state.topics, state.saved_locks, copied=copied),
        unread=unread,
    )


def _topic_effects(
    environment: Environment,
    state: StateRoom,
    log: LogRoom,
    naming: NamingRoom,
    copied: Callable[[], Awaitable[None]],
) -> TopicEffects:
    save_epochs = _saver(state.files.epochs, environment.threads.state)
    return TopicEffects(
        save=_saver(state.files.topics, environment.threads.state),
        announce=partial(_announce_topics, naming, copied),
        copied=copied,
        reserve_epoch=partial(_reserve_epoch, state.epochs, save_epochs, copied),
        delete_queues=partial(_delete_queues, log, environment.threads.keeper),
        forget=partial(forget_topics, state, log),
        save_forgotten=partial(_save_forgotten, state, log, save_epochs),
        save_offsets=state.saved_offsets.save,
        wake_queue=log.held.wake,
    )


def _offset_deletion(
    state: StateRoom,
    log: LogRoom,
    clients: ClientTable,
    copied: Callable[[], Awaitable[None]],
) -> OffsetDeletion:
    return OffsetDeletion(
        state.groups,
        state.offsets,
        clients,
        state.receive_log,
        saved=state.saved_offsets,
        save_states=log.log_states.save,
        replicate=partial(_replicate_offsets, log, copied),
    )


async def _nobody_copies() -> None:
    """Without replicas."""


async def _announce_topics(naming: NamingRoom, copied: Callable[[], Awaitable[None]]) -> None:
    """Topics have changed: name servers and replicas know it before the caller does."""
    await naming.registration.announce()
    await copied()


async def _replicate_offsets(log: LogRoom, copied: Callable[[], Awaitable[None]]) -> None:
    """Wait until replicas have the saved offsets, which they else pull now and then only."""
    _call_for_state(log)
    await copied()


async def _reserve_epoch(
    epochs: LogEpochs,
    save: Callable[[dict[str, Any]], Awaitable[None]],
    copied: Callable[[], Awaitable[None]],
) -> None:
    """Make the number of the next epoch durable, here and on replicas."""
    epochs.reserve()
    await save(epochs.document())
    await copied()


async def _delete_queues(log: LogRoom, executor: Executor, topics: Collection[str]) -> None:
    """Delete queues; a thread waits for the disk, so that appends and reads continue."""
    store = log.store
    deletion = store.keeping.let_go_of_topics(topics)
    try:
        await in_turns(log.held.filtered.begin_anew(topics))
        await asyncio.get_running_loop().run_in_executor(
            executor, store.keeping.finish_deletion, deletion
        )
    except BaseException:
        store.keeping.take_back(deletion)
        raise
    _call_for_state(log)


async def forget_topics(state: StateRoom, log: LogRoom, topics: Collection[str]) -> None:
    """Delete the state of groups and producers in deleted topics."""
    # Later topics of the same names are other topics: positions known so far must not count there.
    state.epochs.begin()
    gone = frozenset(topics)
    await in_turns(state.locks.remove_topics(gone))
    if await in_turns(state.suspicions.remove_topics(gone)):
        state.saved_suspicions.mark_changed()
    # In this order: a window raises the offset of its group.
    await in_turns(state.receiving.forget_topics(gone))
    if await in_turns(state.offsets.remove_topics(gone)):
        state.saved_offsets.mark_changed()
    await in_turns(log.sequences.forget_topics(gone))
    await in_turns(log.statistics.forget_expired(topics=gone))


async def _save_forgotten(
    state: StateRoom,
    log: LogRoom,
    save_epochs: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    await save_epochs(state.epochs.document())
    await state.saved_offsets.save()
    await log.log_states.save()


def _call_for_state(log: LogRoom) -> None:
    """Have replicas pull what they else pull now and then only."""
    if log.primary is not None:
        log.primary.call_for_state()


async def _forget_group(state: StateRoom, log: LogRoom, consumer_group: str) -> None:
    """Delete the offsets and locks of a deleted group, and its stream query."""
    state.locks.remove_group(consumer_group)
    state.stream_queries.forget_group(consumer_group)
    await in_turns(log.statistics.forget_expired(groups=(consumer_group,)))
    if await in_turns(state.suspicions.remove_group(consumer_group)):
        state.saved_suspicions.mark_changed()
    if state.offsets.remove_group(consumer_group):
        state.saved_offsets.mark_changed()
        await state.saved_offsets.save()
        _call_for_state(log)


def _vanished_members(
    environment: Environment, state: StateRoom, log: LogRoom, clients: ClientTable
) -> VanishedMembers:
    settings = environment.settings
    return VanishedMembers(
        clients,
        state.offsets,
        state.suspicions,
        state.saved_suspicions,
        statistics=log.statistics,
        monotonic=environment.clock.monotonic,
        grace_seconds=settings.consumer_grace_s,
        deaths_max=settings.consumer_deaths_max,
    )


def _note_conflict(
    conflicts: SubscriptionConflicts,
    budget: LineBudget,
    conflict: Conflict,
    refused: bool,
) -> None:
    if refused:
        conflicts.refuse(conflict)
    left_out = budget.spend()
    if left_out is None:
        return  # Whoever is refused may come again at once.
    _log.warning(
        "subscription_conflict",
        consumer_group=conflict.newcomer.membership.consumer_group,
        member=conflict.member.client_id,
        newcomer=conflict.newcomer.client_id,
        difference=conflict.difference,
        refused=refused,
        **({"suppressed_before": left_out} if left_out else {}),
    )


def _saver(file: StateFile, executor: Executor) -> Callable[[dict[str, Any]], Awaitable[None]]:
    async def save(document: dict[str, Any]) -> None:
        await asyncio.get_running_loop().run_in_executor(executor, file.save, document)

    return save
