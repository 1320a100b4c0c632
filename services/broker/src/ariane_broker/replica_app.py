"""The parts list of a replica: the one place that composes it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from ariane_broker.environment import Environment
from ariane_broker.following.log_checking import STEP_S, LogChecking
from ariane_broker.following.log_mending import LogMending
from ariane_broker.following.lost_end import LostEnd
from ariane_broker.following.replica_client import FollowEnvironment, ReplicaClient, ReplicaIdentity
from ariane_broker.following.replica_life import ReplicaLife, ReplicaParts
from ariane_broker.following.replica_registration import ReplicaRegistration
from ariane_broker.following.standing import Member, OwnLog, OwnStore, Standing
from ariane_broker.following.state_pulls import StatePulls
from ariane_broker.log.log_epochs import LogEpochs
from ariane_broker.log.room import LogRoom, log_room
from ariane_broker.naming.room import own_registration
from ariane_broker.read.queue_lookup import QueueLookup
from ariane_broker.read.range_pull import PullRange
from ariane_broker.read.topic_retention import HIDING_S, TopicRetention
from ariane_broker.replication.database_row import SCHEMA, DatabaseRow
from ariane_broker.replication.log_taker import LogTaker
from ariane_broker.replication.operating import ReplicaOperations, SetStatus
from ariane_broker.replication.replica_set import BrokerWish
from ariane_broker.replication.room import Elected
from ariane_broker.replication.state_copies import StateCopies
from ariane_broker.replication.store_mark import StoreMark
from ariane_broker.rpc.not_primary import NotPrimary
from ariane_broker.rpc.replica_pulls import ReplicaLogGate, ReplicaPulls
from ariane_broker.rpc.rpc_services import CLIENTS, REPLICATION, rpc_service
from ariane_broker.rpc.servicers.pull_servicer import PullServicer
from ariane_broker.rpc.servicers.replication_servicers import ReplicaSetServicer
from ariane_broker.topics.topic_table import TopicTable
from ariane_servicekit import AnswerBudget, Loop, StartRefused, new_id
from ariane_servicekit.database import Database, DatabaseError
from ariane_storage.disk.disk import Disk
from ariane_storage.state_file import StateFile
from ariane_storage.store import Store
from ariane_storage.store_files import StoreFiles

if TYPE_CHECKING:
    from ariane_broker.read.pull import PullRecords

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
DATABASE_WAIT_S: Final = 30.0


class WonElection(NamedTuple):
    """An election that was won, and the function that closes the row."""

    elected: Elected
    """The election."""
    close_row: Callable[[], None]
    """To be called when the primary stops. Blocks."""


class _Reading(NamedTuple):
    """The parts for reading from a replica."""

    topics: TopicTable
    """Its topics."""
    pulls: ReplicaPulls
    """Answers pulls."""
    read_state: Callable[[], Awaitable[None]]
    """Reads the files of topics."""
    hide: Callable[[], Awaitable[None]]
    """Hides what is too old for its topic, or was purged, as the primary does."""
    hiding: Loop
    """Does so again and again."""

    async def follow_state(self) -> None:
        """Read the files again, which have changed, and soon hide what they want."""
        await self.read_state()
        self.hiding.wake()


def _reading(
    environment: Environment,
    log: LogRoom,
    files: StoreFiles,
    primary_address: Callable[[], str],
    gate: ReplicaLogGate,
) -> _Reading:
    settings, store = environment.settings, log.store
    topics = TopicTable(
        now_ms=environment.clock.now_ms, default_queue_count=settings.default_queue_count
    )
    # No epoch is known here: requests with one are refused, and name the primary.
    epochs = LogEpochs(store, log.statistics, draw=lambda _: 0)
    topics_file = StateFile(files.config / "topics.json", environment.disk)

    lookup = QueueLookup(store, topics, log.cold_reads, open_log=gate.open)
    retention = TopicRetention(store, topics, lookup, log.cold_reads)

    async def read_state() -> None:
        loop = asyncio.get_running_loop()
        document = await loop.run_in_executor(environment.threads.keeper, topics_file.load)
        if document is not None:
            topics.load(document)

    async def hide() -> None:
        if not gate.is_agreeing():
            await retention.apply()

    servicer = PullServicer(
        # Never called: these methods are refused before.
        cast("PullRecords", None),
        log.held,
        PullRange(
            store, topics, log.held, log.statistics, epochs, log.cold_reads, open_log=gate.open
        ),
        lookup,
        epochs=epochs,
        answers=AnswerBudget(settings.answer_bytes_max),
        broker_name=settings.broker_name,
        now_ms=environment.store_clock.now_ms,
    )
    pulls = ReplicaPulls(primary_address, servicer, store, gate)
    hiding = Loop("topic-retention", hide, interval_s=HIDING_S, clock=environment.clock)
    return _Reading(topics, pulls, read_state, hide, hiding)


def _gate(
    primary_address: Callable[[], str], taker: LogTaker, client: Callable[[], ReplicaClient]
) -> ReplicaLogGate:
    return ReplicaLogGate(
        primary_address,
        knows_confirmed=lambda: taker.confirmed is not None,
        is_agreeing=lambda: client().is_agreeing,
        agreement_count=lambda: client().agreement_count,
    )


def _database(environment: Environment) -> Database:
    """The database of the replica set.

    Raises:
        StartRefused: It is invalid.
    """
    url = environment.settings.replica_set_url.get_secret_value()
    try:
        return Database(url, SCHEMA, environment.clock, threads=2, survives_power_loss=True)
    except DatabaseError as error:
        raise StartRefused(str(error)) from error


def compose_replica(environment: Environment, on_won: Callable[[WonElection], None]) -> ReplicaLife:
    """Build a replica.

    Args:
        environment: Its settings, clock, disk and threads.
        on_won: Called with an election that it has won.

    Raises:
        StartRefused: The database in the settings is invalid.
    """
    settings = environment.settings
    database = _database(environment)
    names = (settings.cluster_name, settings.broker_name)
    row = DatabaseRow(database, *names, wait_s_max=settings.primary_lease_s)
    log = log_room(environment, set_begin=lambda: status().replica_set.begin)
    store, files = log.store, StoreFiles(settings.store_path)
    state = StateCopies(environment.disk, files.config)
    taker = LogTaker(store, state.forget_snapshots)
    lost_end = LostEnd(
        StateFile(files.machine, environment.disk),
        partial(_boot_id, environment.disk),
        flush_mode=settings.flush_mode,
    )
    mark = StoreMark(
        StateFile(files.store_mark, environment.disk), settings.broker_id, environment.threads.state
    )

    def may_lack_end(crashed: bool) -> bool:
        mark.load()
        return lost_end.check(crashed=crashed)

    def primary_address() -> str:
        return status().replica_set.primary_address

    gate = _gate(primary_address, taker, lambda: client)
    reading = _reading(environment, log, files, primary_address, gate)
    client = ReplicaClient(
        _following(environment),
        store,
        taker,
        _state_pulls(environment, store, state, reading),
        _mending(environment, store, state, lambda: status().replica_set.begin),
        is_relied_on=lambda: settings.broker_id in status().replica_set.in_sync,
        on_taken=lambda: log.keeping.appended(store.max_offset),
    )

    def status() -> SetStatus:
        return life.status()

    refusing = NotPrimary(primary_address)
    servicers: dict[str, object] = dict.fromkeys((*CLIENTS, *REPLICATION), refusing)
    servicers["ReplicaSetService"] = ReplicaSetServicer(
        ReplicaOperations(names, row, status), store
    )
    servicers["PullService"] = reading.pulls
    parts = ReplicaParts(
        make_standing=_standings(
            environment, row, log, lost_end, mark, has_agreed=lambda: client.agreement_count > 0
        ),
        client=client,
        registration=ReplicaRegistration(partial(own_registration, environment, reading.topics)),
        rpc_services=[rpc_service(name, servicer) for name, servicer in servicers.items()],
        may_lack_end=may_lack_end,
        open_row=lambda: _open(database),
        close_row=database.close,
        on_elected=lambda elected: on_won(WonElection(elected, database.close)),
        read_state=reading.read_state,
        hide=reading.hide,
        hiding=reading.hiding,
        checking=_checking(environment, store, client),
    )
    life = ReplicaLife(environment, log, parts)
    return life


def _following(environment: Environment) -> FollowEnvironment:
    settings, threads = environment.settings, environment.threads
    return FollowEnvironment(
        ReplicaIdentity(settings.cluster_name, settings.broker_name, settings.broker_id),
        threads.keeper,
        threads.flusher,
        is_sync_flush=settings.flush_mode == "sync",
        chance=environment.chance,
    )


def _state_pulls(
    environment: Environment, store: Store, state: StateCopies, reading: _Reading
) -> StatePulls:
    return StatePulls(
        store,
        state,
        environment.threads.keeper,
        interval_s=environment.settings.replica_state_s,
        sleep=environment.clock.sleep,
        on_state=reading.follow_state,
    )


def _checking(environment: Environment, store: Store, client: ReplicaClient) -> Loop:
    checking = LogChecking(
        store, environment.threads.keeper, agreement_count=lambda: client.agreement_count
    )
    return Loop("log-check", checking.step, interval_s=STEP_S, clock=environment.clock)


def _mending(
    environment: Environment, store: Store, state: StateCopies, set_begin: Callable[[], int]
) -> LogMending:
    return LogMending(
        store,
        environment.threads.keeper,
        set_begin=set_begin,
        forget_snapshots=state.forget_snapshots,
        on_mended=lambda: environment.stop.request("the log was mended", anew=True),
    )


def _standings(
    environment: Environment,
    row: DatabaseRow,
    log: LogRoom,
    lost_end: LostEnd,
    mark: StoreMark,
    *,
    has_agreed: Callable[[], bool],
) -> Callable[[str, bool], Standing]:
    settings, threads = environment.settings, environment.threads

    async def settle() -> None:
        await asyncio.get_running_loop().run_in_executor(threads.state, lost_end.settle)

    def make(address: str, may_lack_end: bool) -> Standing:
        return Standing(
            row,
            Member(
                settings.broker_id, address, BrokerWish(settings.primary_preference, settings.zone)
            ),
            OwnStore(
                log=lambda: _own_log(log, settings.disk_force_ratio),
                mark=mark,
                is_new=not log.store.copying.epochs,
                may_lack_end=may_lack_end,
                has_agreed=has_agreed,
                settle=settle,
            ),
            lease_s=settings.primary_lease_s,
            begins_anew=settings.accept_set_loss,
            draw_set_id=lambda: new_id(environment.chance),
            monotonic=environment.clock.monotonic,
        )

    return make


def _own_log(log: LogRoom, disk_force_ratio: float) -> OwnLog:
    store, used = log.store, log.keeping.disk_used_ratio
    copying = store.copying
    is_pressed = used >= disk_force_ratio
    return OwnLog(
        copying.set_id,
        max((start.epoch for start in copying.epochs), default=0),
        store.min_offset,
        store.max_offset,
        store.confirmed_offset,
        is_damaged=bool(store.damage),
        pressure=f"its disk is {used:.0%} full, and it deletes nothing that the primary keeps: "
        "make room for it"
        if is_pressed
        else "",
    )


async def _open(database: Database) -> None:
    try:
        await database.open(wait_s=DATABASE_WAIT_S)
    except DatabaseError as error:
        raise StartRefused(str(error)) from error


def _boot_id(disk: Disk) -> str:
    """The id of the machine's present run; empty if the machine does not have one."""
    try:
        return disk.read(BOOT_ID).decode().strip()
    except OSError:
        return ""
