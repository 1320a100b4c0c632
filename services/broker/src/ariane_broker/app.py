"""The parts list of the broker: the one place that composes.

A broker is eleven rooms, each built by one function from those before it::

    state        topics, groups, offsets: in memory, and on the disk
    storing      the store, who waits on its disk, who is held until something arrives
    naming       what name servers are told
    changing     who may change topics, groups, offsets; who is attached
    delaying     messages that are delivered later
    appending    messages in
    reading      messages out
    transacting  half messages, and what becomes of them
    retrying     failed messages, brought back later or kept as dead letters
    receiving    messages out, for a while, to those who own no queues
    measuring    what metrics tell of all that
    rpc          the services of the contract in front of them: only they speak protobuf

Nothing here touches disk or network yet.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final, NamedTuple

from ariane_broker.append.room import AppendingRoom, appending_room
from ariane_broker.broker_life import BrokerLife
from ariane_broker.clients.room import ChangingRoom, changing_room
from ariane_broker.delay.room import DelayingRoom, delaying_room
from ariane_broker.environment import Environment, Threads
from ariane_broker.log.room import StoringRoom, storing_room
from ariane_broker.measuring.room import measuring_room
from ariane_broker.naming.room import NamingRoom, naming_room
from ariane_broker.read.room import reading_room
from ariane_broker.receive.room import ReceivingRoom, receiving_room
from ariane_broker.replication.room import Elected
from ariane_broker.retry.room import RetryingRoom, retrying_room
from ariane_broker.rpc.room import RpcRoom, rpc_room
from ariane_broker.settings import BrokerSettings
from ariane_broker.state.room import StateRoom, state_room
from ariane_broker.topics.system_topics import system_topics
from ariane_broker.transactions.room import TransactingRoom, transacting_room
from ariane_servicekit import (
    Loop,
    StopRequest,
    SystemClock,
    get_logger,
)
from ariane_storage.disk.os_disk import OsDisk

SIGNS_PER_LEASE: Final = 5
"""How often a primary gives a sign of life: some of them may be lost."""

REPLICA_ROUTES_S: Final = 1.0
"""How often it is looked whether routes name other replicas than there are."""

_log = get_logger(__name__)


class _Rooms(NamedTuple):
    """The rooms of a broker."""

    state: StateRoom
    storing: StoringRoom
    naming: NamingRoom
    changing: ChangingRoom
    delaying: DelayingRoom
    appending: AppendingRoom
    transacting: TransactingRoom
    retrying: RetryingRoom
    receiving: ReceivingRoom
    rpc: RpcRoom


def compose(settings: BrokerSettings, stop: StopRequest) -> BrokerLife:
    """Build a broker without replicas on the machine's own clock and disk."""
    return compose_from(on_this_machine(settings, stop))


def on_this_machine(settings: BrokerSettings, stop: StopRequest) -> Environment:
    """The machine's own clock and disk, and threads of its own."""
    threads = Threads(_thread("flusher"), _thread("keeper"), _thread("state"))
    return Environment(settings, stop, SystemClock(), OsDisk(), threads)


def compose_from(
    environment: Environment,
    elected: Elected | None = None,
    close_row: Callable[[], None] | None = None,
) -> BrokerLife:
    """Build a broker.

    Args:
        environment: What it is given.
        elected: The election that made it primary; None where it has no replicas.
        close_row: Lets the shared row go; None without one.
    """
    rooms = _rooms(environment, elected)
    return BrokerLife(
        broker_name=environment.settings.broker_name,
        rpc_services=rooms.rpc.services,
        store=rooms.storing.store,
        state=rooms.state.state,
        required_topics=system_topics(
            auto_create_topics=environment.settings.auto_create_topics,
            default_queue_count=environment.settings.default_queue_count,
        ),
        announcement=rooms.naming.announcement,
        registration=rooms.naming.registration,
        held=rooms.storing.held,
        clients=rooms.changing.clients,
        client_admission=rooms.changing.client_admission,
        append_records=rooms.appending.append_records,
        append_streams=rooms.rpc.append_streams,
        transaction_streams=rooms.rpc.transaction_streams,
        group_flush=rooms.storing.group_flush,
        saved_offsets=rooms.state.saved_offsets,
        keeping=rooms.storing.keeping,
        log_states=rooms.storing.log_states,
        timer_queue=rooms.delaying.timer_queue,
        loops=(
            rooms.delaying.delivery_loop.loop,
            rooms.delaying.aged_records.loop,
            rooms.storing.clock_watch.loop,
            rooms.naming.filter_servers.expiry,
            *_housekeeping(environment, rooms.state, rooms.storing, rooms.changing),
            rooms.transacting.upkeep,
            rooms.retrying.deaths,
            rooms.receiving.upkeep,
            *rooms.transacting.batch_loops,
            *_replica_routes(environment, rooms.storing, rooms.naming),
        ),
        primary=rooms.storing.primary,
        signs_of_life=_signs_of_life(environment, rooms.storing),
        close_row=close_row,
        threads=environment.threads,
        grace_seconds=environment.settings.grace_s,
        measures=measuring_room(
            environment,
            rooms.state,
            rooms.storing,
            rooms.changing,
            delaying=rooms.delaying,
            appending=rooms.appending,
            transacting=rooms.transacting,
            receiving=rooms.receiving,
        ),
    )


def _rooms(environment: Environment, elected: Elected | None) -> _Rooms:
    """Build the rooms, each from those before it."""
    storing = storing_room(environment, elected)
    state = state_room(environment, storing)
    naming = naming_room(environment, state, epoch=elected.replica_set.epoch if elected else 0)
    changing = changing_room(environment, state, storing, naming)
    delaying = delaying_room(environment, state, storing)
    appending = appending_room(environment, storing, naming, changing, delaying)
    transacting = transacting_room(
        environment, state, storing, changing, appending, delaying=delaying
    )
    retrying = retrying_room(
        environment, state, storing, changing, delaying=delaying, appending=appending
    )
    receiving = receiving_room(environment, state, storing, changing, retrying)

    rpc = rpc_room(
        environment,
        state,
        storing,
        naming,
        changing,
        delaying=delaying,
        appending=appending,
        reading=reading_room(environment, state, storing, naming, changing),
        transacting=transacting,
        retrying=retrying,
        receiving=receiving,
    )
    return _Rooms(
        state, storing, naming, changing, delaying, appending, transacting, retrying, receiving, rpc
    )


def _housekeeping(
    environment: Environment, state: StateRoom, storing: StoringRoom, changing: ChangingRoom
) -> list[Loop]:
    """What the broker does now and then by itself, without a call."""
    settings = environment.settings

    async def forget_silent_clients() -> None:
        for client in changing.clients.expire(settings.client_silence_s):
            _log.info("client_expired", client_id=client.client_id, address=client.address)

    turns = (
        ("expire-clients", forget_silent_clients, settings.client_scan_s),
        ("save-offsets", state.saved_offsets.save, settings.offset_save_s),
        ("save-log-states", storing.log_states.save, settings.producer_save_s),
    )
    return [
        Loop(name, turn, interval_s=interval_s, clock=environment.clock)
        for name, turn, interval_s in turns
    ]


def _signs_of_life(environment: Environment, storing: StoringRoom) -> Loop | None:
    """What a primary with replicas does to stay it."""
    if storing.primary is None:
        return None
    interval_s = environment.settings.primary_lease_s / SIGNS_PER_LEASE
    return Loop("primary", storing.primary.turn, interval_s=interval_s, clock=environment.clock)


def _replica_routes(
    environment: Environment, storing: StoringRoom, naming: NamingRoom
) -> list[Loop]:
    """What has routes name the replicas of a primary."""
    primary, announcement = storing.primary, naming.announcement
    if primary is None:
        return []

    async def tell() -> None:
        known = announcement.version
        announcement.replica_addresses = primary.reign.replica_set.routed_replicas
        if announcement.version != known:
            await naming.registration.announce()

    return [Loop("replica-routes", tell, interval_s=REPLICA_ROUTES_S, clock=environment.clock)]


def _thread(name: str) -> Executor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"ariane-{name}")
