r"""The life of a broker that is not primary: recover, follow, stand for election, stop.

::

    open the store -> read the row -> follow the primary ---------> stop
                         ^     \                      |
                         |      elected: the process builds a primary on the same store
                         twenty times a lease

Calls of clients are refused with BROKER_NOT_PRIMARY, which names the primary.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from grpc import aio

from ariane_broker.environment import Environment
from ariane_broker.errors.store_errors import STORAGE_RULES
from ariane_broker.following.replica_client import ReplicaClient
from ariane_broker.following.replica_registration import ReplicaRegistration
from ariane_broker.following.standing import Standing
from ariane_broker.log.recovery_words import RecoveryProgress
from ariane_broker.log.room import LogRoom
from ariane_broker.naming.store_host import store_host
from ariane_broker.replication.log_taker import CannotFollow
from ariane_broker.replication.operating import ROW_AWAY, SetStatus
from ariane_broker.replication.replica_set import IN_SYNC, ReplicaSet
from ariane_broker.replication.replication_measures import ReplicationMeasures
from ariane_broker.replication.room import Elected
from ariane_broker.replication.shared_row import ROW_RULES, RowUnreachable
from ariane_servicekit import (
    Address,
    ErrorRules,
    ExitStatus,
    Loop,
    RpcService,
    StartRefused,
    get_logger,
)
from ariane_servicekit.observability.measures import Measures
from ariane_storage.errors import StorageError, StorePoisoned

TURNS_PER_LEASE: Final = 20
"""Reads of the row in one lease: so a new primary is found or elected within a 20th of a lease."""

READY_LEASES_MAX: Final = 2
"""Leases for which a start waits for a primary: longer than an election takes."""

RETRY_S: Final = 0.2
"""Seconds between two tries to follow a primary."""

NOT_FOUND_YET: Final = "it has not found a primary yet"

OPEN_WHILE_DRAINING: Final = frozenset({"/ariane.replication.v1.ReplicaSetService/GetReplicaSet"})

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaParts:
    """What a replica consists of, beside its log."""

    make_standing: Callable[[str, bool], Standing]
    """Takes the replica's address, and whether its log may lack its end."""
    client: ReplicaClient
    """Follows a primary."""
    registration: ReplicaRegistration
    """Its own registration with the name servers, while the set has no primary."""
    rpc_services: Sequence[RpcService]
    """Its gRPC services."""
    may_lack_end: Callable[[bool], bool]
    """Whether the log may lack its end, from whether the previous process has crashed. It blocks,
    and keeps the answer over starts."""
    open_row: Callable[[], Awaitable[None]]
    """Opens the shared row."""
    close_row: Callable[[], None]
    """Closes it; blocks."""
    on_elected: Callable[[Elected], None]
    """Called with an election that was won; the shared row then stays open."""
    read_state: Callable[[], Awaitable[None]]
    """Reads the topics that readers need."""
    hide: Callable[[], Awaitable[None]]
    """Hides messages that are too old for their topics, or purged."""
    hiding: Loop
    """Does so again and again."""
    checking: Loop
    """Looks for damage in the log."""


class ReplicaLife:
    """The life of a replica, run by servicekit: opens the store, follows, stands for election."""

    def __init__(self, environment: Environment, log: LogRoom, parts: ReplicaParts) -> None:
        self._environment = environment
        self._log = log
        self._parts = parts
        self._standing: Standing | None = None
        self._following: asyncio.Task[None] | None = None
        self._followed = ("", 0)
        self._elected: Elected | None = None
        self._reached = environment.settings.listen
        self._trouble = NOT_FOUND_YET
        self._follows = asyncio.Event()
        self._is_row_away = False
        settings = environment.settings
        self._watching = Loop(
            "replica-set",
            self._turn,
            interval_s=settings.primary_lease_s / TURNS_PER_LEASE,
            clock=environment.clock,
        )
        self.rpc_services = parts.rpc_services
        """Its gRPC services."""

    @property
    def error_rules(self) -> ErrorRules:
        """The public errors for errors of the store and of the shared row."""
        return {**STORAGE_RULES, **ROW_RULES}

    @property
    def open_while_draining(self) -> Collection[str]:
        """Methods that are answered while it stops."""
        return OPEN_WHILE_DRAINING

    def health_conditions(self) -> Mapping[str, Callable[[], bool]]:
        """Whether the set relies on this replica: rollouts wait for it."""
        own_id = self._environment.settings.broker_id
        return {IN_SYNC: lambda: own_id in self.status().replica_set.in_sync}

    def status(self) -> SetStatus:
        """The status of the set, as this broker sees it."""
        known = self._standing.replica_set if self._standing is not None else None
        return SetStatus(
            self._environment.settings.broker_id,
            known or ReplicaSet(),
            (),
            has_lease=False,
            now_s=self._environment.clock.monotonic(),
            trouble=self._why_apart,
            is_row_away=self._is_row_away,
        )

    @property
    def _why_apart(self) -> str:
        """Why it does not follow; empty if it does."""
        standing = self._standing
        if self._is_row_away:
            return ROW_AWAY
        if standing is not None and standing.trouble:
            return standing.trouble
        if standing is None or standing.replica_set is None:
            return self._trouble
        if not standing.has_primary or not self._followed[0]:
            return _awaited(standing.replica_set)
        return self._trouble

    def measure(self, measures: Measures) -> None:
        """Make the instruments of a replica."""
        settings = self._environment.settings
        names = (settings.cluster_name, settings.broker_name)
        ReplicationMeasures(names, self.status, self._log.store).make(measures)

    async def recover(self, address: Address) -> None:
        """Open the store and the shared row.

        Raises:
            StartRefused: One of them cannot be opened.
        """
        settings, threads = self._environment.settings, self._environment.threads
        reached = self._reached = settings.advertised_address or address
        loop = asyncio.get_running_loop()
        try:
            lacks_end = await loop.run_in_executor(threads.state, self._open_store, reached)
            await self._parts.read_state()
            await self._parts.hide()
        except (StorageError, OSError) as error:
            raise StartRefused(str(error)) from error
        self._standing = self._parts.make_standing(str(reached), lacks_end)
        await self._parts.open_row()

    def _open_store(self, address: Address) -> bool:
        """Whether the log may lack its end: asked before anything can close the store. Blocks."""
        store = self._log.store
        store.recover(store_host(address), progress=RecoveryProgress())
        # Until a primary reports more: the offset that was known when this broker stopped.
        store.copying.confirm_up_to(store.recovery.confirmed_offset)
        return self._parts.may_lack_end(store.recovery.crashed)

    async def serve_started(self, address: Address) -> None:  # noqa: ARG002 - it is known already
        """Start to read the row, and wait a while for a primary.

        The process reports that it is ready once the replica follows, or is primary.
        """
        self._log.keeping.start()
        self._parts.hiding.start()
        self._parts.checking.start()
        self._watching.start(at_once=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(
                READY_LEASES_MAX * self._environment.settings.primary_lease_s
            ):
                await self._follows.wait()

    async def drain(self) -> None:
        """Stop following."""
        await self._watching.stop()
        await self._stop_following()
        await self._parts.registration.end()

    async def stop(self) -> None:
        """Stop, flush, close the store.

        Raises:
            StorePoisoned: The disk failed now.
        """
        threads, loop = self._environment.threads, asyncio.get_running_loop()
        await self._watching.stop()
        await self._stop_following()
        await self._parts.hiding.stop()
        await self._parts.checking.stop()
        await self._log.keeping.stop()
        await asyncio.to_thread(threads.flusher.shutdown)
        await asyncio.to_thread(threads.keeper.shutdown)
        await asyncio.to_thread(threads.cold.shutdown, cancel_futures=True)
        try:
            await loop.run_in_executor(threads.state, self._log.store.close)
        except StorePoisoned:
            _log.exception("store_close_failed")
            raise
        finally:
            await asyncio.to_thread(threads.state.shutdown)
            if self._elected is None:
                await asyncio.to_thread(self._parts.close_row)

    async def _turn(self) -> None:
        if self._elected is not None or self._standing is None:
            return
        try:
            elected = await self._standing.turn()
        except RowUnreachable as error:
            if not self._is_row_away:
                _log.warning("shared_row_away", cause=str(error))
            self._is_row_away = True
            await self._tend_routes(self._standing)
            return
        self._is_row_away = False
        if elected is not None:
            self._elected = elected
            self._parts.on_elected(elected)
            self._environment.stop.request("elected as primary", anew=True)
            return
        known = self._standing.replica_set
        if known is not None:
            await self._follow_whom(known, may_follow=self._standing.may_follow)
        await self._tend_routes(self._standing)

    async def _tend_routes(self, standing: Standing) -> None:
        """Stand in routes while no primary lists this replica there; also without the row."""
        follows = bool(self._followed[0]) and not self._trouble
        known = standing.replica_set
        if standing.has_primary or follows:
            await self._parts.registration.end()
        elif known is not None:
            route_id = known.route_id(self._environment.settings.broker_id)
            self._parts.registration.begin(route_id, self._reached)

    async def _follow_whom(self, known: ReplicaSet, *, may_follow: bool) -> None:
        """Follow the primary of the row, and no other."""
        is_other = known.primary_id != self._environment.settings.broker_id
        primary = (known.primary_address, known.epoch) if is_other and may_follow else ("", 0)
        if primary == self._followed:
            return
        await self._stop_following()
        self._followed = primary
        if primary[0]:
            self._following = asyncio.create_task(self._follow(*primary), name="follow")

    async def _stop_following(self) -> None:
        task, self._following = self._following, None
        self._followed, self._trouble = ("", 0), NOT_FOUND_YET
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def _follow_begun(self) -> None:
        self._trouble = ""
        self._follows.set()

    async def _follow(self, address: str, epoch: int) -> None:
        """Follow a primary, anew after each failure, until cancelled."""
        logged = ""
        while True:
            try:
                await self._parts.client.follow(address, epoch, self._follow_begun)
                trouble = "the primary has ended the stream"
            except StorePoisoned as error:
                self._environment.stop.request(str(error), exit_status=ExitStatus.FAULT)
                return
            except aio.AioRpcError as error:
                trouble = f"{error.code().name}: {error.details()}"
            except TimeoutError:
                trouble = "the primary is silent"
            except (CannotFollow, StorageError, OSError) as error:
                trouble = str(error)
            except Exception as error:  # noqa: BLE001 - who ends here follows nobody any more.
                _log.exception("following_failed", primary=address)
                trouble = str(error) or type(error).__name__
            self._trouble = trouble
            if trouble != logged:
                _log.warning("replica_does_not_follow", primary=address, cause=trouble)
            logged = trouble
            await self._environment.clock.sleep(RETRY_S)


def _awaited(known: ReplicaSet) -> str:
    """Which brokers a set without a primary waits for."""
    if known.unclean:
        return f"there is no primary: an operator has ordered that broker {known.wanted_id} be it"
    in_sync = ", ".join(map(str, sorted(known.in_sync)))
    return f"there is no primary: a broker that is in sync is awaited (of {in_sync})"
