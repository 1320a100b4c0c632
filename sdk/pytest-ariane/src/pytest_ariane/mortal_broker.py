"""A broker that can die without a goodbye."""

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
    """The real broker, composed anew for each of its lives.

    Attributes:
        dies: Whether its end is a death: nothing is saved, flushed or said any more.
    """

    def __init__(
        self, settings: BrokerSettings, stop: StopRequest, clock: Clock, disk: Disk, faults: Faults
    ) -> None:
        """Compose it.

        Args:
            settings: What it is told.
            stop: How its life ends.
            clock: Moves its timers.
            disk: Where everything is kept.
            faults: What happens to its calls.
        """
        threads = Threads(*(ThreadPoolExecutor(1, f"ariane-{name}") for name in _THREADS))
        self._life: BrokerLife = compose_from(Environment(settings, stop, clock, disk, threads))
        self._stop = stop
        self.dies = False
        self.rpc_services: Sequence[RpcService] = [
            replace(each, servicer=FaultyServicer(each.servicer, faults))
            for each in self._life.rpc_services
        ]

    @property
    def error_rules(self) -> ErrorRules:
        """As the broker says."""
        return self._life.error_rules

    @property
    def open_while_draining(self) -> Collection[str]:
        """As the broker says."""
        return self._life.open_while_draining

    @property
    def refusal(self) -> str:
        """Why it takes no messages; empty when it does."""
        return self._life.keeping.refusal

    def end(self, *, dies: bool) -> None:
        """Let its life end, in order or not; on its loop."""
        self.dies = dies
        self._stop.request("the test says so")

    async def recover(self, address: Address) -> None:
        """Load state."""
        await self._life.recover(address)

    async def serve_started(self, address: Address) -> None:
        """Start loops, say hello."""
        await self._life.serve_started(address)

    async def drain(self) -> None:
        """Say goodbye; the dead do not, and hold nobody."""
        if self.dies:
            self._life.clients.close()
            self._life.held.close()
        else:
            await self._life.drain()

    async def stop(self) -> None:
        """Stop loops and save; the dead save nothing."""
        if not self.dies:
            await self._life.stop()
            return
        await self._life.registration.close()
        for background in self._life.loops:
            await background.stop()
        await self._life.keeping.stop()
        for thread in (
            self._life.threads.flusher,
            self._life.threads.keeper,
            self._life.threads.state,
        ):
            await asyncio.to_thread(thread.shutdown)


_THREADS = ("flusher", "keeper", "state")
