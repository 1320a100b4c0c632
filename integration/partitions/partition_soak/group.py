"""Three brokers of one name and a name server, each in a network namespace, and their faults."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from grpc import aio
from message_soak.power import BROKER_FLAGS, BrokerDisks

from ariane.replication.v1.replica_set_service_pb2 import (
    GetReplicaSetRequest,
    GetReplicaSetResponse,
)
from ariane.replication.v1.replica_set_service_pb2_grpc import ReplicaSetServiceStub
from ariane_servicekit import Address
from ariane_servicekit.running.processes import ServiceProcess
from ariane_testkit.small_store import SMALL_STORE
from partition_soak import harm
from partition_soak.faults import Fault, FaultKind
from partition_soak.network import CLIENTS, DATABASE, Network

BROKERS: Final = ("b0", "b1", "b2")
NAME_SERVER: Final = "ns"
BROKER_NAME: Final = "broker-a"
LEASE_S: Final = 2.0
HEAL_S_MAX: Final = 120.0
"""Seconds until all are in sync again: on a busy machine a start alone takes long."""

_LAST_IN_SYNC: Final = "it was the only one in sync"
_CALL_S: Final = 3.0
_STEP_S: Final = 0.1

_SIZES: Final = (
    *SMALL_STORE,
    # A run leaves several segments, so that one of them can be lost.
    *("--segment-bytes", str(1 << 20), "--message-bytes-max", str(1 << 16)),
)


def _flags(lease_s: float) -> Sequence[str]:
    return (
        *_SIZES,
        *("--broker-name", BROKER_NAME, "--insecure"),
        *("--primary-lease-s", str(lease_s), "--replica-behind-s-max", str(lease_s)),
        *("--replication-wait-s", str(2 * lease_s)),
    )


class NotHealed(Exception):
    """The group did not come back although nothing was wrong any more; says how it is."""


class Group:
    """One group, over many runs."""

    def __init__(
        self,
        folder: Path,
        network: Network,
        database_url: str,
        *,
        power_losses: bool,
        lease_s: float = LEASE_S,
    ) -> None:
        """Start nothing yet.

        Args:
            folder: Where everything is kept.
            network: With the nodes of this module.
            database_url: Where they agree who is primary, as they reach it.
            power_losses: Whether brokers have disks that may lose power; they flush synchronously
                then.
            lease_s: How long a primary reigns without renewing, in seconds.
        """
        self._flags = _flags(lease_s)
        self.network = network
        """Where they are."""
        self._folder = folder
        self._url = database_url
        self._power_losses = power_losses
        self._disks = BrokerDisks(folder / "disks", [folder / name for name in BROKERS])
        self._name_server = self._process(
            NAME_SERVER, "ariane_namesrv", "--data-path", str(folder / NAME_SERVER)
        )
        self.processes: list[ServiceProcess] = []
        """The brokers, by their place."""
        self._under_fault: set[int] = set()
        self._foreign = folder / "foreign"
        self._is_harmed = False

    @property
    def name_servers(self) -> str:
        """What clients ask first."""
        return self._name_server.address

    async def start(self) -> None:
        """Start all, and wait until all are in sync.

        Raises:
            ProcessFailed: One did not start.
            NotHealed: They do not come in sync.
        """
        if self._power_losses:
            await asyncio.to_thread(self._disks.plug_in)
        await self._name_server.start()
        sizes = (*_SIZES, *BROKER_FLAGS) if self._power_losses else _SIZES
        self._foreign = await harm.make_foreign_store(self._foreign, BROKER_NAME, sizes)
        mode = ("--flush-mode", "sync", *BROKER_FLAGS) if self._power_losses else ()
        self.processes = [
            self._process(
                name,
                "ariane_broker",
                *("--store-path", str(self._folder / name), "--broker-id", str(number)),
                *("--name-servers", self._name_server.address),
                *("--replica-set-url", self._url),
                *self._flags,
                *mode,
            )
            for number, name in enumerate(BROKERS)
        ]
        await asyncio.gather(*(process.start() for process in self.processes))
        await self.heal()

    async def stop(self) -> None:
        """Stop all in order; mounts go, too."""
        await asyncio.gather(*(each.stop() for each in self.processes if each.running))
        if self._name_server.running:
            await self._name_server.stop()

    async def unmount(self) -> None:
        """Let no disk stay mounted."""
        await asyncio.to_thread(self._disks.unmount)

    # Faults.

    async def suffer(self, fault: Fault) -> str:
        """Let a fault happen, and be over.

        Returns:
            Whom it met; empty where it could not happen.
        """
        place = await self._primary_place() if fault.place is None else fault.place
        if place is None:
            return ""
        name = BROKERS[place]
        if fault.kind.is_of_process:
            if place in self._under_fault or not self.processes[place].running:
                return ""
            self._under_fault.add(place)
            try:
                await self._suffer_in_process(self.processes[place], fault)
            finally:
                self._under_fault.discard(place)
            return name
        cuts = cuts_of(fault.kind, name, [each for each in BROKERS if each != name], fault.peer)
        for cut in cuts:
            await self.network.cut(*cut)
        await asyncio.sleep(fault.duration_s)
        for cut in cuts:
            await self.network.mend(*cut)
        return name

    async def _suffer_in_process(self, process: ServiceProcess, fault: Fault) -> None:
        if fault.kind is FaultKind.PAUSE:
            os.kill(process.pid, signal.SIGSTOP)
            await asyncio.sleep(fault.duration_s)
            os.kill(process.pid, signal.SIGCONT)
            return
        store = self._folder / process.name
        if fault.kind is FaultKind.FULL_DISK:
            await self._fill_disk(process, store, fault.duration_s)
            return
        if fault.kind is FaultKind.POWER and self._power_losses:
            await self._disks.cut_power(process)
        else:
            process.kill()
            await process.wait()
        backup = self._folder / "older" / process.name
        if not backup.exists():
            await asyncio.to_thread(harm.back_up, store, backup)
        elif fault.kind.is_of_files and not self._is_harmed and await self._is_spared(process):
            # One broker a run: two that lose files may lose what only they have.
            self._is_harmed = True
            await self._harm_files(process, store, fault)
            return
        await asyncio.sleep(fault.duration_s)
        await process.start()

    async def _fill_disk(self, process: ServiceProcess, disk: Path, duration_s: float) -> None:
        """Fill a replica's disk for a while; a primary's is another test's matter."""
        if self.processes.index(process) == await self._primary_place():
            return
        await asyncio.to_thread(harm.fill, disk)
        await asyncio.sleep(duration_s)
        await asyncio.to_thread(harm.empty, disk)
        if not process.running:
            await process.start()

    async def _is_spared(self, dead: ServiceProcess) -> bool:
        """Whether brokers say that another one has all that a dead one has."""
        number = self.processes.index(dead)
        known = [state for state in await self.states() if state is not None]
        return bool(known) and all(
            set(state.replica_set.in_sync_broker_ids) - {number} for state in known
        )

    async def _put_back(self, process: ServiceProcess, store: Path, duration_s: float) -> None:
        """Let all others die, and a dead one come back first, with an earlier state of its store.

        What was confirmed last, the shared row does not know yet.
        """
        others = {
            place: one
            for place, one in enumerate(self.processes)
            if one is not process and one.running and place not in self._under_fault
        }
        self._under_fault |= others.keys()
        for one in others.values():
            one.kill()
        await asyncio.gather(*(one.wait() for one in others.values()))
        backup, away = (self._folder / where / process.name for where in ("older", "away"))
        await asyncio.to_thread(harm.put_back, store, backup, away)
        await process.start()
        await asyncio.sleep(duration_s)
        state = await _state_of(process.address)
        if state is not None and _LAST_IN_SYNC in state.trouble:
            # The others had fallen behind, which nobody could tell: only its own store goes on.
            await process.stop()
            await asyncio.to_thread(harm.put_back, store, backup, away)
            await process.start()
        await asyncio.gather(*(one.start() for one in others.values()))
        self._under_fault -= others.keys()

    async def _harm_files(self, process: ServiceProcess, store: Path, fault: Fault) -> None:
        if fault.kind is FaultKind.OLDER:
            await self._put_back(process, store, fault.duration_s)
            return
        if fault.kind is FaultKind.OTHER_SET:
            away = self._folder / "away" / process.name
            await asyncio.to_thread(harm.exchange, store, self._foreign, away)
            await process.start()
            await asyncio.sleep(fault.duration_s)
            await process.stop()
            await asyncio.to_thread(harm.bring_back, store, away)
        else:
            does = harm.lose_file if fault.kind is FaultKind.LOSES_FILE else harm.damage
            await asyncio.to_thread(does, store, fault.peer)
            await asyncio.sleep(fault.duration_s)
        await process.start()

    async def heal(self) -> GetReplicaSetResponse:
        """Wait until there is a primary with all in sync; what it says of the set.

        Raises:
            NotHealed: There is none in time.
        """
        self._is_harmed = False
        end_s = asyncio.get_running_loop().time() + HEAL_S_MAX
        while asyncio.get_running_loop().time() < end_s:
            for state in await self.states():
                members = state.replica_set.in_sync_broker_ids if state is not None else ()
                if state is not None and state.has_lease and len(members) == len(BROKERS):
                    return state
            await asyncio.sleep(_STEP_S)
        told = [_told(state) for state in await self.states()]
        raise NotHealed(f"not all are in sync within {HEAL_S_MAX:.0f} s: {'; '.join(told)}")

    async def states(self) -> Sequence[GetReplicaSetResponse | None]:
        """What each broker says of the set; None where it does not answer."""
        return await asyncio.gather(*(_state_of(process.address) for process in self.processes))

    async def _primary_place(self) -> int | None:
        states = await self.states()
        places = [place for place, each in enumerate(states) if each is not None and each.has_lease]
        return places[0] if places else None

    def _process(self, node: str, module: str, *arguments: str) -> ServiceProcess:
        insecure = () if "--insecure" in arguments else ("--insecure",)
        return ServiceProcess(
            node,
            module,
            (*arguments, *insecure),
            self._folder / "logs" / f"{node}.log",
            Address(self.network.address(node), 0),
            command_prefix=self.network.command_prefix(node),
        )


def cuts_of(kind: FaultKind, name: str, peers: Sequence[str], peer: int) -> list[tuple[str, str]]:
    """Which packets are lost: from whom, to whom.

    Args:
        kind: A fault of connections.
        name: Whom it meets.
        peers: Its peers.
        peer: Which of these, where one is meant.
    """
    out = [(name, other) for other in peers]
    back = [(other, name) for other in peers]
    database = [(name, DATABASE), (DATABASE, name)]
    name_server = [(name, NAME_SERVER), (NAME_SERVER, name)]
    clients = [(name, CLIENTS), (CLIENTS, name)]
    return {
        FaultKind.ISOLATED: [*out, *back, *database, *name_server, *clients],
        FaultKind.FROM_PEERS: [*out, *back],
        FaultKind.FROM_ONE_PEER: [out[peer], back[peer]],
        FaultKind.DEAF_TO_PEERS: back,
        FaultKind.MUTE_TO_PEERS: out,
        FaultKind.FROM_DATABASE: database,
        FaultKind.DEAF_TO_DATABASE: database[1:],
        FaultKind.FROM_NAME_SERVER: name_server,
        FaultKind.FROM_CLIENTS: clients,
    }[kind]


async def _state_of(address: str) -> GetReplicaSetResponse | None:
    with suppress(aio.AioRpcError):
        async with aio.insecure_channel(address) as channel:
            stub = ReplicaSetServiceStub(channel)
            state: GetReplicaSetResponse = await stub.GetReplicaSet(
                GetReplicaSetRequest(), timeout=_CALL_S
            )
            return state
    return None


def _told(state: GetReplicaSetResponse | None) -> str:
    if state is None:
        return "one does not answer"
    row = state.replica_set
    role = "is primary" if state.has_lease else state.trouble or "follows"
    return f"broker {state.broker_id} {role}, in sync {list(row.in_sync_broker_ids)}"
