"""The receive room: messages out, for an invisible time, to members that own no queues."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ariane_broker.clients.client_table import ClientTable
from ariane_broker.clients.room import ClientsRoom
from ariane_broker.environment import Environment
from ariane_broker.log.held_requests import HeldRequests
from ariane_broker.log.room import LogRoom
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.dead_letters import DeadLetters
from ariane_broker.receive.handing_out.attempts import Attempts
from ariane_broker.receive.handing_out.hand_outs import HandOuts
from ariane_broker.receive.handing_out.receiving import Receiving
from ariane_broker.receive.handing_out.waiting_line import WaitingLines
from ariane_broker.receive.in_hand.receive_table import ReceiveTable
from ariane_broker.receive.in_hand.receive_time import ReceiveTime
from ariane_broker.receive.settling import Settling
from ariane_broker.receive.standing import Standings
from ariane_broker.receive.upkeep import TURN_SECONDS, ReceiveUpkeep
from ariane_broker.retry.room import RetryRoom
from ariane_broker.state.room import StateRoom
from ariane_servicekit import Loop


@dataclass(frozen=True, slots=True)
class ReceiveRoom:
    """The parts that serve members which receive without owning queues."""

    receiving: Receiving
    settling: Settling
    standings: Standings
    table: ReceiveTable
    keeping: ReceiveUpkeep
    upkeep: Loop


def receive_room(
    environment: Environment,
    state: StateRoom,
    log: LogRoom,
    clients: ClientsRoom,
    retry: RetryRoom,
) -> ReceiveRoom:
    """Build the parts that serve members which receive without owning queues."""
    store, table, clock = log.store, state.receiving, environment.clock
    receive_log = state.receive_log
    now_ms = ReceiveTime(receive_log, table, now_ms=clock.now_ms, monotonic=clock.monotonic).now_ms
    hand_outs = HandOuts(
        store,
        receive_log,
        table,
        topics=state.topics,
        groups=state.groups,
        offsets=state.offsets,
        statistics=log.statistics,
        cold_reads=log.cold_reads,
        now_ms=now_ms,
        draw=_draw_by(random.Random(environment.chance.getrandbits(64))),  # noqa: S311 - fairness, no secret.
    )
    lines = WaitingLines(hand_outs, log.held, log.cold_reads)
    state.offsets.on_reset = lines.call
    dead_letters = DeadLetters(store, receive_log, table, retry.returns, now_ms=now_ms)
    upkeep = ReceiveUpkeep(
        receive_log,
        table,
        lines,
        dead_letters,
        groups=state.groups,
        clients=clients.table,
        held=log.held,
        now_ms=now_ms,
    )
    return ReceiveRoom(
        receiving=Receiving(
            hand_outs,
            lines,
            receive_log,
            group_changes=clients.group_changes,
            clients=clients.table,
            attempts=Attempts(receive_log),
            cold_reads=log.cold_reads,
            monotonic=clock.monotonic,
            now_ms=now_ms,
        ),
        settling=Settling(
            receive_log,
            dead_letters,
            groups=state.groups,
            delay_levels_ms=environment.settings.delay_levels_ms,
            now_ms=now_ms,
            freed=partial(_freed, lines, clients.table, log.held),
        ),
        standings=Standings(
            store, table, state.offsets, topics=state.topics, groups=state.groups, now_ms=now_ms
        ),
        table=table,
        keeping=upkeep,
        upkeep=Loop("keep-up-receiving", upkeep.turn, interval_s=TURN_SECONDS, clock=clock),
    )


def _draw_by(chance: random.Random) -> Callable[[int], int]:
    """Draw numbers below a limit, none of more than 53 bits; half as dear as ``randrange``."""
    return lambda limit: int(chance.random() * limit)


def _freed(
    lines: WaitingLines, clients: ClientTable, held: HeldRequests, group: str, queue: QueueKey
) -> None:
    """Wake who may have messages now that receiving members held: other members, or the owner."""
    lines.call(group, queue)
    if clients.owners(group):
        held.wake(queue)
