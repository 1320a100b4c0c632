"""The composition of the broker; no other module composes its parts.

A broker is thirteen rooms, named after their folders; each is built by one function from those
before it::

    log           the store, callers that wait for its disk, calls that are held until records
                  arrive
    state         topics, groups, offsets: in memory, and on the disk
    naming        the registration with name servers
    clients       changes of topics, groups and offsets; the attached clients
    delay         messages that are delivered later
    append        messages in
    transactions  half messages, and their outcomes
    spark_batches what Spark writes: staged, then committed and published
    retry         failed messages: their next attempts, and dead letters
    receive       messages out, for an invisible time, to consumers that own no queues
    read          messages out
    rpc           the services of the contract in front of them: only they speak protobuf
    measuring     the metrics of all rooms

Composing uses neither disk nor network.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Final

from ariane_broker.append.room import append_room
from ariane_broker.append.stored_quota import LOOK_S
from ariane_broker.broker_life import BrokerLife
from ariane_broker.clients.attached_client import AttachedClient
from ariane_broker.clients.room import ClientsRoom, clients_room
from ariane_broker.delay.room import delay_room
from ariane_broker.environment import Environment, Threads
from ariane_broker.log.cold_reads import THREAD_COUNT
from ariane_broker.log.room import LogRoom, log_room
from ariane_broker.measuring.room import measuring_room
from ariane_broker.naming.broker_addresses import BrokerAddresses
from ariane_broker.naming.room import NamingRoom, naming_room
from ariane_broker.read.room import read_room
from ariane_broker.read.topic_retention import HIDING_S
from ariane_broker.receive.room import receive_room
from ariane_broker.replication.heirs import PreferredReturn, preferred_heir, sound_heir
from ariane_broker.replication.room import Elected, mark_loops, primary_operations
from ariane_broker.replication.shared_row import RowUnreachable
from ariane_broker.retry.room import retry_room
from ariane_broker.rooms import Rooms
from ariane_broker.rpc.room import rpc_room
from ariane_broker.rpc.sink_calls import SinkCalls
from ariane_broker.settings import BrokerSettings
from ariane_broker.spark_batches.room import spark_batches_room
from ariane_broker.state.room import StateRoom, state_room
from ariane_broker.topics.system_topics import system_topics
from ariane_broker.transactions.room import transactions_room
from ariane_servicekit import (
    Loop,
    ServiceError,
    StopRequest,
    SystemClock,
    get_logger,
    in_turns,
)
from ariane_storage.disk.os_disk import OsDisk

SIGNS_PER_LEASE: Final = 5
"""Renewals in one lease: some of them may fail."""

UNSAVED_LOG_S: Final = 1.0
"""Interval of checks whether much was written since the states of the log were saved."""

REPLICA_ROUTES_S: Final = 1.0
"""Interval of checks that routes have the present replicas."""

GIVE_WAY_S: Final = 1.0
"""Interval of checks whether a replica can be primary in place of a damaged one."""

GIVE_WAY_S_MAX: Final = 5.0
"""Seconds for which messages are refused while the replica catches up."""

_log = get_logger(__name__)


def compose(settings: BrokerSettings, stop: StopRequest) -> BrokerLife:
    """Build a broker without replicas on the machine's own clock and disk."""
    return compose_from(on_this_machine(settings, stop))


def on_this_machine(settings: BrokerSettings, stop: StopRequest) -> Environment:
    """The machine's own clock and disk, and threads of its own."""
    cold = ThreadPoolExecutor(THREAD_COUNT, thread_name_prefix="ariane-cold")
    threads = Threads(_thread("flusher"), _thread("keeper"), _thread("state"), cold)
    return Environment(settings, stop, SystemClock(), OsDisk(), threads)


def compose_from(
    environment: Environment,
    elected: Elected | None = None,
    close_row: Callable[[], None] | None = None,
) -> BrokerLife:
    """Build a broker.

    Args:
        environment: Its settings, clock, disk and threads.
        elected: The election that made it primary; None without replicas.
        close_row: Closes the shared row; None without one.
    """
    rooms = _rooms(environment, elected)
    return BrokerLife(
        environment,
        rooms,
        rpc_room(environment, rooms),
        measuring_room(environment, rooms),
        required_topics=system_topics(
            auto_create_topics=environment.settings.auto_create_topics,
            default_queue_count=environment.settings.default_queue_count,
        ),
        loops=(
            Loop(
                "topic-retention",
                rooms.read.retention.apply,
                interval_s=HIDING_S,
                clock=environment.clock,
            ),
            rooms.delay.delivery_loop.loop,
            rooms.delay.aged_records.loop,
            rooms.log.clock_watch.loop,
            rooms.naming.filter_servers.expiry,
            *_housekeeping(environment, rooms.state, rooms.log, rooms.clients, rooms.naming),
            rooms.transactions.upkeep,
            Loop(
                "stored-quota", rooms.append.stored.turn, interval_s=LOOK_S, clock=environment.clock
            ),
            rooms.retry.deaths,
            rooms.receive.upkeep,
            *rooms.spark_batches.loops,
            *_replica_routes(environment, rooms.log, rooms.naming),
            *_giving_way(environment, rooms),
            *mark_loops(environment, rooms.log.primary),
        ),
        signs_of_life=_signs_of_life(environment, rooms.log),
        close_row=close_row,
    )


def _rooms(environment: Environment, elected: Elected | None) -> Rooms:
    """Build the rooms, each from the rooms before it."""
    log = log_room(environment, elected)
    state = state_room(environment, log)
    naming = naming_room(environment, state, epoch=elected.replica_set.epoch if elected else 0)
    clients = clients_room(environment, state, log, naming)
    delay = delay_room(environment, state, log)
    append = append_room(environment, state, log, naming, clients, delay=delay)
    transactions = transactions_room(environment, state, log, clients, append)
    sink_calls = _sink_calls(environment)
    spark_batches = spark_batches_room(
        environment, state, log, delay, clients, append=append, peers=sink_calls
    )
    retry = retry_room(environment, state, log, clients, delay=delay, append=append)
    receive = receive_room(environment, state, log, clients, retry)
    read = read_room(environment, state, log, naming, clients)
    return Rooms(
        log,
        state,
        naming,
        clients,
        delay,
        append,
        transactions,
        spark_batches,
        retry,
        receive,
        read,
        sink_calls,
    )


def _sink_calls(environment: Environment) -> SinkCalls:
    """The calls to other brokers of sinks."""
    addresses = BrokerAddresses(
        environment.settings, environment.clock.monotonic, environment.chance
    )
    return SinkCalls(addresses, environment.chance)


def _housekeeping(
    environment: Environment,
    state: StateRoom,
    log: LogRoom,
    clients: ClientsRoom,
    naming: NamingRoom,
) -> list[Loop]:
    """The loops that the broker runs by itself, without a call."""
    settings = environment.settings

    async def forget_silent_clients() -> None:
        await in_turns(map(log_expired, clients.table.expire(settings.client_silence_s)))

    async def forget_silent_producers() -> None:
        await in_turns(log.sequences.forget_expired())

    def log_expired(client: AttachedClient | None) -> None:
        if client is not None:
            _log.info("client_expired", client_id=client.client_id, address=client.address)

    turns = (
        ("expire-clients", forget_silent_clients, settings.client_scan_s),
        ("find-name-servers", naming.registration.reread, settings.name_server_reread_s),
        ("save-offsets", state.saved_offsets.save, settings.offset_save_s),
        ("forget-producers", forget_silent_producers, settings.producer_save_s),
        ("save-log-states", log.log_states.save, settings.producer_save_s),
        ("save-log-states-after-much", log.log_states.save_after_much, UNSAVED_LOG_S),
    )
    return [
        Loop(name, turn, interval_s=interval_s, clock=environment.clock)
        for name, turn, interval_s in turns
    ]


def _signs_of_life(environment: Environment, log: LogRoom) -> Loop | None:
    """The loop in which a primary with replicas renews its lease."""
    if log.primary is None:
        return None
    interval_s = environment.settings.primary_lease_s / SIGNS_PER_LEASE
    return Loop("primary", log.primary.turn, interval_s=interval_s, clock=environment.clock)


def _replica_routes(environment: Environment, log: LogRoom, naming: NamingRoom) -> list[Loop]:
    """The loop that updates the replicas of a primary in routes."""
    primary, announcement = log.primary, naming.announcement
    if primary is None:
        return []

    async def update_routes() -> None:
        known = announcement.version
        announcement.replica_addresses = primary.reign.replica_set.routed_replicas
        if announcement.version != known:
            await naming.registration.announce()

    return [
        Loop("replica-routes", update_routes, interval_s=REPLICA_ROUTES_S, clock=environment.clock)
    ]


def _giving_way(environment: Environment, rooms: Rooms) -> list[Loop]:
    """The loop in which a primary hands on its role by itself.

    With a damaged log to a replica without damage, and to one that is preferred, if that is set.
    """
    primary = rooms.log.primary
    if primary is None:
        return []
    operations = primary_operations(
        environment, primary, rooms.state.saved_offsets.save, rooms.clients.farewell.notify
    )
    preferred_now = partial(preferred_heir, primary)
    returning = PreferredReturn(preferred_now, after_s=environment.settings.preferred_return_s)

    async def give_way() -> None:
        sound = sound_heir(primary)
        preferred = returning.due(environment.clock.monotonic())
        heir = preferred if sound is None else sound
        if heir is None:
            return
        try:
            await operations.transfer(heir, grace_s=GIVE_WAY_S_MAX)
        except (ServiceError, RowUnreachable) as error:
            _log.warning("primary_does_not_give_way", heir=heir, cause=str(error))
            return
        if sound is None:
            _log.info("preferred_broker_gets_the_role", heir=heir)
        else:
            _log.warning("damaged_primary_gave_way", heir=heir)

    return [Loop("give-way", give_way, interval_s=GIVE_WAY_S, clock=environment.clock)]


def _thread(name: str) -> Executor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"ariane-{name}")
