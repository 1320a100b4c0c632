"""A broker that can end without a clean stop."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from ariane_broker.app import compose_from
from ariane_broker.broker_life import BrokerLife
from ariane_broker.environment import Environment, Threads
from ariane_broker.settings import BrokerSettings
from ariane_servicekit import Address, Clock, ErrorRules, RpcService, StopRequest
from ariane_storage.disk.disk import Disk
from pytest_ariane.faults import Faults, FaultyServicer


class MortalBroker:
    """The real broker, composed anew for each start."""

    def __init__(
        self, settings: BrokerSettings, stop: StopRequest, clock: Clock, disk: Disk, faults: Faults
    ) -> None:
        """Compose the broker.

        Args:
            settings: Its settings.
            stop: Ends it.
            clock: The clock of its timers.
            disk: Its disk.
            faults: The faults of its calls.
        """
        threads = Threads(*(ThreadPoolExecutor(1, f"ariane-{name}") for name in _THREADS))
        self._life: BrokerLife = compose_from(Environment(settings, stop, clock, disk, threads))
        self._stop = stop
        self.dies = False
        """Whether it ends like a crash: nothing more is saved, flushed or sent."""
        self.rpc_services: Sequence[RpcService] = [
            replace(each, servicer=FaultyServicer(each.servicer, faults))
            for each in self._life.rpc_services
        ]

    @property
    def error_rules(self) -> ErrorRules:
        """As in the broker."""
        return self._life.error_rules

    @property
    def open_while_draining(self) -> Collection[str]:
        """As in the broker."""
        return self._life.open_while_draining

    @property
    def refusal(self) -> str:
        """Why it accepts no messages; empty if it does."""
        return self._life.rooms.log.keeping.refusal

    def end(self, *, dies: bool) -> None:
        """End the broker, cleanly or like a crash; on its loop."""
        self.dies = dies
        self._stop.request("the test says so")

    async def recover(self, address: Address) -> None:
        """Load state."""
        await self._life.recover(address)

    async def serve_started(self, address: Address) -> None:
        """Start loops, register with name servers."""
        await self._life.serve_started(address)

    async def drain(self) -> None:
        """Leave the routes, and end held calls; a crash only ends the calls."""
        if self.dies:
            self._life.rooms.clients.table.close()
            self._life.rooms.log.held.close()
        else:
            await self._life.drain()

    async def stop(self) -> None:
        """Stop loops and save; a crash saves nothing."""
        if not self.dies:
            await self._life.stop()
            return
        await self._life.rooms.naming.registration.close()
        for background in self._life.loops:
            await background.stop()
        await self._life.rooms.log.keeping.stop()
        for thread in (
            self._life.environment.threads.flusher,
            self._life.environment.threads.keeper,
            self._life.environment.threads.state,
            self._life.environment.threads.cold,
        ):
            await asyncio.to_thread(thread.shutdown)


_THREADS = ("flusher", "keeper", "state", "cold")
