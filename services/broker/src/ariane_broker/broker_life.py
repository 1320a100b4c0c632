"""The life of a broker process: recover, serve, drain, stop, each in one order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ariane_broker.append.append_spans import AppendSpans
from ariane_broker.environment import Environment, Threads
from ariane_broker.errors.store_errors import STORAGE_RULES
from ariane_broker.log.recovery_words import RecoveryProgress, recovery_findings, recovery_notes
from ariane_broker.measuring.broker_measures import BrokerMeasures
from ariane_broker.naming.store_host import store_host
from ariane_broker.replication.primary import Primary
from ariane_broker.replication.replica_set import IN_SYNC
from ariane_broker.replication.shared_row import ROW_RULES, RowUnreachable
from ariane_broker.rooms import Rooms
from ariane_broker.settings import BrokerSettings
from ariane_broker.topics.topic_table import TopicConfig
from ariane_servicekit import (
    Address,
    ErrorRules,
    Loop,
    RpcService,
    StartRefused,
    StopIncomplete,
    get_logger,
)
from ariane_servicekit.observability.measures import Measures
from ariane_servicekit.observability.tracing import WorkTracer
from ariane_servicekit.security.caller import Caller
from ariane_servicekit.security.gate.gate import Gate
from ariane_storage.disk.disk import is_exhausted
from ariane_storage.errors import QueueUnderRepair, StorageError, StorePoisoned
from ariane_storage.store import Store

OPEN_WHILE_DRAINING: Final = frozenset(
    {
        "/ariane.broker.v1.BrokerService/GetBrokerState",
        "/ariane.broker.v1.ClientService/UnlockQueues",
        "/ariane.broker.v1.OffsetService/StoreConsumerOffsets",
    }
)
"""Methods for clients that leave: they may still store their progress."""

HAND_OVER_S_MAX: Final = 2.0
"""Seconds that a stopping primary waits until replicas have the whole log."""

RESIGN_S_MAX: Final = 4.0
"""The same, and until the database knows that the reign has ended: it may hang."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class BrokerLife:
    """A broker, as servicekit runs it."""

    environment: Environment
    """Its settings, clock, disk and threads."""
    rooms: Rooms
    """Its rooms."""
    rpc_services: Sequence[RpcService]
    """Its gRPC services."""
    measures: BrokerMeasures
    """The metrics of all rooms."""
    required_topics: Sequence[TopicConfig]
    """Topics that must exist before it serves."""
    loops: Sequence[Loop]
    """Other loops, in the order of their stopping."""
    signs_of_life: Loop | None = None
    """The loop that renews its lease; None without replicas."""
    close_row: Callable[[], None] | None = None
    """Closes the shared row; likewise."""

    @property
    def _settings(self) -> BrokerSettings:
        return self.environment.settings

    @property
    def _threads(self) -> Threads:
        return self.environment.threads

    @property
    def _store(self) -> Store:
        return self.rooms.log.store

    @property
    def _primary(self) -> Primary | None:
        return self.rooms.log.primary

    @property
    def error_rules(self) -> ErrorRules:
        """The public errors for errors of the store and of the shared row."""
        return {**STORAGE_RULES, **ROW_RULES}

    def guarded_by(self, gate: Gate) -> None:
        """Take the quotas of the process, and what judges those who hold messages."""
        self.rooms.append.stored.quotas = gate.quotas
        self.rooms.receive.keeping.gate = gate

    def client_caller(self, client_id: str) -> Caller | None:
        """Who attached the client with an id; None without one."""
        client = self.rooms.clients.table.find(client_id)
        return None if client is None else client.caller

    @property
    def open_while_draining(self) -> Collection[str]:
        """Methods that are answered while it drains."""
        return OPEN_WHILE_DRAINING

    def health_conditions(self) -> Mapping[str, Callable[[], bool]]:
        """Who serves as primary, or alone, is in sync with itself."""
        return {IN_SYNC: lambda: True}

    def measure(self, measures: Measures) -> None:
        """Make the instruments of the broker."""
        self.measures.make(measures)

    def trace(self, tracer: WorkTracer) -> None:
        """Make a span of each append that was sent in spans."""
        self.rooms.append.append_records.spans = AppendSpans(tracer, self._settings.broker_name)

    async def recover(self, address: Address) -> None:
        """Open the store and load the state.

        Args:
            address: The address it listens on; written into records unless another is advertised.

        Raises:
            StartRefused: The store is locked, of another format or full; a state file is damaged
                or lost; the folder cannot be used.
        """
        self.rooms.naming.announcement.listen_on(address)
        if self.signs_of_life is not None:
            self.signs_of_life.start(at_once=True)
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._threads.state, self._open_store)
            for note in recovery_notes(self._store.recovery):
                _log.info("recovery_note", note=note)
            for finding in recovery_findings(
                self._store.recovery, self._store.damage, self._store.unreadable
            ):
                _log.warning("recovery_finding", finding=finding)
            await self.rooms.state.state.load(self._store.queues(), self.required_topics)
            await self.rooms.log.log_states.restore(self.rooms.state.state.has_topic)
            await self.rooms.state.state.set_back_offsets()
            await self.rooms.read.retention.apply()
            if self._primary is not None:
                await loop.run_in_executor(self._threads.state, self._primary.begin)
        except StorageError as error:
            raise StartRefused(str(error)) from error
        except OSError as error:
            what = "no space left to load the state: " if is_exhausted(error) else ""
            raise StartRefused(f"{what}{error}") from error
        _log.info("store_recovered", max_commit_log_offset=self._store.max_offset)

    def _open_store(self) -> None:
        """Blocks: a resolver may be asked for the host, and the store recovers."""
        self._store.recover(
            store_host(self.rooms.naming.announcement.address), progress=RecoveryProgress()
        )
        if self._primary is not None:
            self._primary.hide_unconfirmed()

    async def serve_started(self, address: Address) -> None:  # noqa: ARG002 - it is known already
        """Start all loops, and register with the name servers.

        Raises:
            StartRefused: A name server knows another living broker of this name. Two of them would
                share one place in the routes, and each would have half of the messages.
        """
        self.rooms.log.keeping.start()
        for background in self.loops:
            background.start()
        await self.rooms.naming.registration.start()
        # Primaries of a set succeed one another; the set decides which one it is.
        if self.rooms.naming.registration.name_taken and self._primary is None:
            taken = self.rooms.naming.registration.name_taken
            await self.rooms.naming.registration.unregister()
            raise StartRefused(
                f"{taken}: give this broker another --broker-name, or stop the other one; one that "
                "did not say goodbye is forgotten after two minutes of silence"
            )

    async def drain(self) -> None:
        """Let members store offsets, leave the routes, then release held requests and clients."""
        self.rooms.clients.client_admission.draining = True
        if self._primary is None or not self._primary.reign.is_deposed:
            await self.rooms.clients.farewell.notify()
        await self._resign()
        await self.rooms.naming.registration.unregister()
        self.rooms.clients.table.close()
        self.rooms.log.held.close()

    async def _resign(self) -> None:
        """End the reign, so that a replica need not wait until the lease is over."""
        primary = self._primary
        if primary is None:
            return
        if primary.has_begun and primary.has_copies and not primary.reign.is_deposed:
            try:
                async with asyncio.timeout(RESIGN_S_MAX):
                    await primary.hand_over(
                        None,
                        grace_s=HAND_OVER_S_MAX,
                        save_state=self.rooms.state.saved_offsets.save,
                    )
            except (RowUnreachable, OSError) as error:  # The lease runs out.
                _log.warning("primary_not_resigned", cause=str(error) or "it took too long")
        primary.close()

    async def stop(self) -> None:
        """Stop loops, save offsets, flush and close; the store last.

        What cannot be saved keeps nothing else from being saved.

        Raises:
            StorePoisoned: The disk failed now.
            StopIncomplete: Something could not be saved; the next start does without it.
        """
        await self.rooms.naming.registration.close()
        if self.signs_of_life is not None:
            await self.signs_of_life.stop()
        for background in self.loops:
            await background.stop()
        await self.rooms.sink_calls.close()
        await self.rooms.log.keeping.stop()
        await self.rooms.log.group_flush.finish()
        await asyncio.to_thread(self._threads.flusher.shutdown)
        await asyncio.to_thread(self._threads.keeper.shutdown)
        await asyncio.to_thread(self._threads.cold.shutdown, cancel_futures=True)
        try:
            failures = await self._save_all()
        finally:
            # Again only after an error that nobody foresaw.
            await asyncio.get_running_loop().run_in_executor(self._threads.state, self._store.close)
            await asyncio.to_thread(self._threads.state.shutdown)
            if self.close_row is not None:
                await asyncio.to_thread(self.close_row)
        if failures:
            raise StopIncomplete("; ".join(failures))

    async def _save_all(self) -> list[str]:
        """Save everything and close the store; return what failed."""
        loop, state = asyncio.get_running_loop(), self._threads.state
        steps: Mapping[str, Callable[[], Awaitable[object]]] = {
            "consumer offsets": self.rooms.state.saved_offsets.save,
            "the timer's files for RocketMQ": lambda: loop.run_in_executor(state, self._hand_over),
            "snapshots": self.rooms.log.log_states.save,
            "the end of the epoch": self.rooms.state.state.end_epoch,
            # Waits for a recovery that was cut short, too.
            "the store": lambda: loop.run_in_executor(state, self._store.close),
        }
        failures = []
        poisoned: StorePoisoned | None = None
        for what, save in steps.items():
            try:
                await save()
            except StorePoisoned as error:
                poisoned = error
            except (StorageError, OSError) as error:
                failures.append(f"{what}: {error}")
        if poisoned is not None:
            _log.error("store_close_failed", cause=str(poisoned), also="; ".join(failures))
            raise poisoned
        return failures

    def _hand_over(self) -> None:
        """Write the waiting delayed messages for a RocketMQ broker that may run next. Blocks."""
        try:
            if self._store.is_open:
                # Deliveries are on the disk before a file records them.
                self._store.flush()
                self.rooms.delay.timer_queue.hand_over()
        except StorePoisoned:
            return  # All sends that wait for the flush get its error.
        except (OSError, QueueUnderRepair) as error:
            _log.warning("timer_not_handed_over", cause=str(error))
