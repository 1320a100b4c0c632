"""The retry room: builds the parts that retry failed messages or keep them as dead letters."""

from __future__ import annotations

from dataclasses import dataclass

from ariane_broker.append.room import AppendRoom
from ariane_broker.clients.deaths.verdicts import DeathVerdicts
from ariane_broker.clients.room import ClientsRoom
from ariane_broker.consuming.group_deletion import GroupDeletion
from ariane_broker.delay.room import DAY_MS, DelayRoom
from ariane_broker.environment import Environment
from ariane_broker.log.room import LogRoom
from ariane_broker.retry import redriven_table, return_table
from ariane_broker.retry.copy_append import CopyAppend
from ariane_broker.retry.failures import ReturnLimits
from ariane_broker.retry.redriven_table import RedrivenTable
from ariane_broker.retry.redriving import DeadLetterRedrive
from ariane_broker.retry.return_table import ReturnTable
from ariane_broker.retry.returning import MessageReturns
from ariane_broker.state.room import StateRoom
from ariane_servicekit import Loop


@dataclass(frozen=True, slots=True)
class RetryRoom:
    """The parts of the retry room."""

    returns: MessageReturns
    redrive: DeadLetterRedrive
    deaths: Loop
    group_deletion: GroupDeletion


def retry_room(
    environment: Environment,
    state: StateRoom,
    log: LogRoom,
    clients: ClientsRoom,
    *,
    delay: DelayRoom,
    append: AppendRoom,
) -> RetryRoom:
    """Build the retry room."""
    settings, clock = environment.settings, environment.clock
    # Copies that were parked while the clock is doubted are remembered by the believed time.
    table = ReturnTable(
        now_ms=log.store.believed_ms,
        delay_levels_ms=settings.delay_levels_ms,
        deleted_end=log.store.deleted_end,
    )
    redriven = RedrivenTable(log.store.deleted_end)
    log.log_states.keep(table, return_table.FILE_NAME)
    log.log_states.keep(redriven, redriven_table.FILE_NAME)
    broker_log = log.broker_log
    limits = ReturnLimits(
        delay_ms_max=round(settings.delay_days_max * DAY_MS),
        deaths_max=settings.consumer_deaths_max,
    )
    returns = MessageReturns(
        broker_log,
        CopyAppend(broker_log, delay.parking, limits=limits, now_ms=clock.now_ms),
        table,
        topics=state.topics,
        groups=state.groups,
        limits=limits,
        make_topic=clients.topic_changes.create_for_group,
        is_draining=lambda: append.append_records.draining,
    )
    redrive = DeadLetterRedrive(
        broker_log,
        redriven,
        topics=state.topics,
        groups=state.groups,
        make_topic=clients.topic_changes.create_for_group,
        is_draining=lambda: append.append_records.draining,
    )
    deaths = _counting_deaths(environment, state, log, clients, returns)
    deletion = GroupDeletion(
        clients.group_changes,
        clients.topic_changes,
        log.store,
        clients=clients.table,
        returns=table,
        redriven=redriven,
        receiving=state.receive_log,
        save_states=log.log_states.save,
    )
    return RetryRoom(returns, redrive, deaths, deletion)


def _counting_deaths(
    environment: Environment,
    state: StateRoom,
    log: LogRoom,
    clients: ClientsRoom,
    returns: MessageReturns,
) -> Loop:
    """Make the counter of consumers' deaths, which count as tries of the message."""
    settings = environment.settings
    verdicts = DeathVerdicts(
        clients.members,
        state.suspicions,
        state.saved_suspicions,
        store=log.store,
        offsets=state.offsets,
        saved_offsets=state.saved_offsets,
        groups=state.groups,
        returns=returns,
        statistics=log.statistics,
        deaths_max=settings.consumer_deaths_max,
        message_bytes_max=settings.message_bytes_max,
    )
    return Loop(
        "count-consumer-deaths",
        verdicts.turn,
        interval_s=min(0.5, settings.consumer_grace_s / 4),
        clock=environment.clock,
    )
