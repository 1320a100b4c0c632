"""The parts list of a replica: the one place that composes it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from ariane_broker.following.replica_client import ReplicaClient, ReplicaIdentity
from ariane_broker.following.replica_life import ReplicaLife
from ariane_broker.following.standing import Standing
from ariane_broker.log.room import storing_room
from ariane_broker.outside import Outside
from ariane_broker.replication.database_row import DatabaseRow
from ariane_broker.replication.log_taker import LogTaker
from ariane_broker.replication.operating import ReplicaOperations, SetStatus
from ariane_broker.replication.room import Elected
from ariane_broker.replication.state_copies import StateCopies
from ariane_broker.replication.tables import SCHEMA
from ariane_broker.rpc.not_primary import NotPrimary
from ariane_broker.rpc.replication_servicers import ReplicaSetServicer
from ariane_broker.rpc.rpc_services import CLIENTS, REPLICATION, rpc_service
from ariane_servicekit import StartRefused
from ariane_servicekit.database import Database, DatabaseError
from ariane_storage.disk.disk import Disk
from ariane_storage.state_file import StateFile
from ariane_storage.store_files import StoreFiles

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
DATABASE_WAIT_S: Final = 30.0


class Won(NamedTuple):
    """An election that was won, and the way to let the row go.

    Attributes:
        elected: The election.
        close_row: To be called when the primary stops. Blocks.
    """

    elected: Elected
    close_row: Callable[[], None]


def compose_replica(outside: Outside, on_won: Callable[[Won], None]) -> ReplicaLife:
    """Build a replica.

    Args:
        outside: What it is given.
        on_won: Is told of the election that it has won.

    Raises:
        StartRefused: The database cannot be what the settings say.
    """
    settings, clock = outside.settings, outside.clock
    try:
        database = Database(
            settings.replica_set_url, SCHEMA, clock, threads=2, survives_power_loss=True
        )
    except DatabaseError as error:
        raise StartRefused(str(error)) from error
    names = (settings.cluster_name, settings.broker_name)
    row = DatabaseRow(database, *names)

    async def open_row() -> None:
        try:
            await database.open(wait_s=DATABASE_WAIT_S)
        except DatabaseError as error:
            raise StartRefused(str(error)) from error

    storing = storing_room(outside)
    store, files = storing.store, StoreFiles(settings.store_path)
    state = StateCopies(outside.disk, files.config)
    taker = LogTaker(store, state.forget_snapshots)
    client = ReplicaClient(
        ReplicaIdentity(*names, settings.broker_id),
        store,
        taker,
        state,
        keeper=outside.threads.keeper,
        flusher=outside.threads.flusher,
        is_sync_flush=settings.flush_mode == "sync",
        state_interval_s=settings.replica_state_s,
        sleep=clock.sleep,
        on_taken=lambda: storing.keeping.appended(store.max_offset),
    )

    def make_standing(address: str, may_lack_end: bool) -> Standing:
        return Standing(
            row,
            settings.broker_id,
            address,
            lease_s=settings.primary_lease_s,
            may_lack_end=may_lack_end,
            is_new=not store.copying.epochs,
            latest_epoch=lambda: max((start.epoch for start in store.copying.epochs), default=0),
            confirmed=lambda: taker.confirmed,
            monotonic=clock.monotonic,
        )

    def status() -> SetStatus:
        return life.status()

    refusing = NotPrimary(lambda: status().replica_set.primary_address)
    servicers: dict[str, object] = dict.fromkeys((*CLIENTS, *REPLICATION), refusing)
    servicers["ReplicaSetService"] = ReplicaSetServicer(
        ReplicaOperations(names, row, status), store
    )
    life = ReplicaLife(
        outside,
        storing,
        make_standing=make_standing,
        client=client,
        rpc_services=[rpc_service(name, servicer) for name, servicer in servicers.items()],
        lost_power=lambda crashed: _lost_power(outside.disk, files, crashed=crashed),
        open_row=open_row,
        close_row=database.close,
        on_elected=lambda elected: on_won(Won(elected, database.close)),
    )
    return life


def _lost_power(disk: Disk, files: StoreFiles, *, crashed: bool) -> bool:
    """Whether the machine was off between a crash and now; notes which run of it this is."""
    boot_id = ""
    with contextlib.suppress(OSError):
        boot_id = disk.read(BOOT_ID).decode().strip()
    file = StateFile(files.machine, disk)
    before = (file.load() or {}).get("boot_id", "")
    if boot_id != before:
        file.save({"boot_id": boot_id})
    return crashed and (not boot_id or boot_id != before)
