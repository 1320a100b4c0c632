"""The retry room: builds what retries failed messages or keeps them as dead letters."""

from __future__ import annotations

from dataclasses import dataclass

from ariane_broker.append.room import AppendingRoom
from ariane_broker.clients.deaths.verdicts import DeathVerdicts
from ariane_broker.clients.room import ChangingRoom
from ariane_broker.consuming.group_deletion import GroupDeletion
from ariane_broker.delay.room import DAY_MS, DelayingRoom
from ariane_broker.environment import Environment
from ariane_broker.log.room import StoringRoom
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
class RetryingRoom:
    """The parts of the retry room."""

    returns: MessageReturns
    redrive: DeadLetterRedrive
    deaths: Loop
    group_deletion: GroupDeletion


def retrying_room(
    environment: Environment,
    state: StateRoom,
    storing: StoringRoom,
    changing: ChangingRoom,
    *,
    delaying: DelayingRoom,
    appending: AppendingRoom,
) -> RetryingRoom:
    """Build the retry room."""
    settings, clock = environment.settings, environment.clock
    table = ReturnTable(now_ms=clock.now_ms, delay_levels_ms=settings.delay_levels_ms)
    redriven = RedrivenTable()
    storing.log_states.keep(table, return_table.FILE_NAME)
    storing.log_states.keep(redriven, redriven_table.FILE_NAME)
    log = storing.log
    limits = ReturnLimits(
        delay_ms_max=round(settings.delay_days_max * DAY_MS),
        deaths_max=settings.consumer_deaths_max,
    )
    returns = MessageReturns(
        log,
        CopyAppend(log, delaying.parking, limits=limits, now_ms=clock.now_ms),
        table,
        topics=state.topics,
        groups=state.groups,
        limits=limits,
        make_topic=changing.topic_changes.create_for_group,
        is_draining=lambda: appending.append_records.draining,
    )
    redrive = DeadLetterRedrive(
        log,
        redriven,
        topics=state.topics,
        groups=state.groups,
        make_topic=changing.topic_changes.create_for_group,
        is_draining=lambda: appending.append_records.draining,
    )
    deaths = _counting_deaths(environment, state, storing, changing, returns)
    deletion = GroupDeletion(
        changing.group_changes,
        changing.topic_changes,
        storing.store,
        clients=changing.clients,
        returns=table,
        redriven=redriven,
        receiving=state.receiving,
        save_states=storing.log_states.save,
    )
    return RetryingRoom(returns, redrive, deaths, deletion)


def _counting_deaths(
    environment: Environment,
    state: StateRoom,
    storing: StoringRoom,
    changing: ChangingRoom,
    returns: MessageReturns,
) -> Loop:
    """Make the counter of consumers' deaths, which count as tries of the message."""
    settings = environment.settings
    verdicts = DeathVerdicts(
        changing.members,
        state.suspicions,
        state.saved_suspicions,
        store=storing.store,
        offsets=state.offsets,
        saved_offsets=state.saved_offsets,
        groups=state.groups,
        returns=returns,
        statistics=storing.statistics,
        deaths_max=settings.consumer_deaths_max,
        message_bytes_max=settings.message_bytes_max,
    )
    return Loop(
        "count-consumer-deaths",
        verdicts.turn,
        interval_s=min(0.5, settings.consumer_grace_s / 4),
        clock=environment.clock,
    )
