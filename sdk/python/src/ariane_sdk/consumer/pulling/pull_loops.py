"""The pull loops of a consumer: one for each broker, made when a queue there is first owned."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from ariane_sdk.checks.sql_filter import MessageFilter
from ariane_sdk.client.session import Session
from ariane_sdk.consumer.delivery.damaged_bodies import DamagedBodies
from ariane_sdk.consumer.group.queue_locks import QueueLocks
from ariane_sdk.consumer.pulling.pull_loop import PullLoop
from ariane_sdk.errors import CallError
from ariane_sdk.message import MessageQueue
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.settings import ConsumerSettings


class PullLoops:
    """Pull loops by broker."""

    def __init__(
        self,
        session: Session,
        *,
        group: str,
        client_id: str,
        filters: Mapping[str, MessageFilter],
        locks: QueueLocks | None,
        on_lost: Callable[[MessageQueue, CallError], None],
        on_fatal: Callable[[CallError], None],
        damaged_bodies: DamagedBodies,
        settings: ConsumerSettings,
        clock: Clock,
    ) -> None:
        """Pull from no broker yet.

        ``on_lost`` is told of a queue that another member has locked, ``on_fatal`` that the group
        does not let this consumer in any longer. ``locks`` are for consumers in order alone.
        """
        self._connections = session.connections
        self._routes = session.routes
        self._group = group
        self._client_id = client_id
        self._filters = filters
        self._locks = locks
        self._on_lost = on_lost
        self._on_fatal = on_fatal
        self._damaged_bodies = damaged_bodies
        self._settings = settings
        self._clock = clock
        self._loops: dict[str, PullLoop] = {}

    def at(self, broker_name: str) -> PullLoop:
        """The loop that pulls from a broker."""
        loop = self._loops.get(broker_name)
        if loop is None:
            loop = self._loops[broker_name] = PullLoop(
                broker_name,
                self._connections,
                address=partial(self._read_address, broker_name),
                group=self._group,
                client_id=self._client_id,
                filters=self._filters,
                settings=self._settings,
                clock=self._clock,
                on_trouble=self._suspect,
                on_lost=self._on_lost,
                damaged_bodies=self._damaged_bodies,
                lock_epoch_of=self._locks.epoch_of if self._locks is not None else lambda _: None,
            )
        return loop

    def look_again(self) -> None:
        """Filters may have changed."""
        for loop in self._loops.values():
            loop.look_again()

    async def close(self) -> None:
        """Pull no more."""
        await asyncio.gather(*(loop.close() for loop in self._loops.values()))

    def _read_address(self, broker_name: str) -> str:
        """Where a broker is now; nothing if nobody knows."""
        for topic in self._filters:
            route = self._routes.cached(topic)
            broker = route.broker(broker_name) if route is not None else None
            if broker is not None and broker.read_address:
                return broker.read_address
        return ""

    def _suspect(self, topic: str, error: CallError) -> None:
        """A pull failed: the route may be out of date, or the group may have refused it."""
        if error.reason == "SUBSCRIPTION_CONFLICT":
            self._on_fatal(error)
        self._routes.doubt(topic)
