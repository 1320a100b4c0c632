"""Killing primaries in the middle of a run: a broker's replica takes over, and the totals hold.

::

    publish   ---------x------------------   half of the events: the primary of broker-a is killed
    consume   ---------x------------------   half of the events: the primary of broker-b is killed

A killed process is started again at once, as whoever watches over processes would do; it comes back
as a replica of the one that took over, or is elected again if nobody was in sync.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from grpc import aio

from ariane.replication.v1.replica_set_service_pb2 import (
    GetReplicaSetRequest,
    GetReplicaSetResponse,
)
from ariane.replication.v1.replica_set_service_pb2_grpc import ReplicaSetServiceStub
from ariane_servicekit.running.processes import LocalCluster, ServiceProcess
from flight_demo.errors import NoFailover

REPLICAS: Final = 1
"""Replicas of each broker."""

KILLS: Final = 2
"""Primaries that are killed in a run."""

_WAIT_S: Final = 120.0
_CALL_S: Final = 5.0
_STEP_S: Final = 0.1


class Primaries:
    """The primaries of a cluster with replicas, to be killed."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._killings: list[asyncio.Task[None]] = []
        self.takeovers = 0
        """How often another process took over."""

    async def wait_in_sync(self) -> None:
        """Wait until every broker has all its replicas in sync.

        Raises:
            NoFailover: They are not in time.
        """
        await asyncio.gather(
            *(self._all_in_sync(self._copies_of(broker)) for broker in self._cluster.brokers)
        )

    def kill(self, place: int) -> None:
        """Kill the primary of a broker and start it again; goes on in the background.

        Args:
            place: Which broker, from 0.
        """
        copies = self._copies_of(self._cluster.brokers[place])
        self._killings.append(asyncio.create_task(self._kill(copies), name="kill-primary"))

    async def settle(self) -> None:
        """Wait until each killed primary has a successor, and all are in sync again.

        Raises:
            NoFailover: They are not in time, or nobody else took over.
            ProcessFailed: A killed process did not start again.
        """
        killings, self._killings = self._killings, []
        await asyncio.gather(*killings)

    def _copies_of(self, broker: ServiceProcess) -> list[ServiceProcess]:
        """The processes of a broker: the first one, and its replicas."""
        begin = f"{broker.name}-"
        return [broker, *(one for one in self._cluster.replicas if one.name.startswith(begin))]

    async def _kill(self, copies: Sequence[ServiceProcess]) -> None:
        killed, _ = await self._primary_of(copies)
        killed.kill()
        await killed.wait()
        successor, _ = await self._primary_of([one for one in copies if one is not killed])
        self.takeovers += 1
        await killed.start()
        await self._all_in_sync(copies)
        if (found := await self._primary_of(copies))[0] is not successor:
            raise NoFailover(f"{successor.name} took over, and {found[0].name} is primary now")

    async def _all_in_sync(self, copies: Sequence[ServiceProcess]) -> None:
        async with _in_time(f"the replicas of {copies[0].name} did not come in sync"):
            while True:
                _, state = await self._primary_of(copies)
                if len(state.replica_set.in_sync_broker_ids) == len(copies):
                    return
                await asyncio.sleep(_STEP_S)

    async def _primary_of(
        self, copies: Sequence[ServiceProcess]
    ) -> tuple[ServiceProcess, GetReplicaSetResponse]:
        async with _in_time(f"nobody of {copies[0].name} became primary"):
            while True:
                for process in copies:
                    with suppress(aio.AioRpcError):
                        state = await _state_of(process)
                        if state.has_lease:
                            return process, state
                await asyncio.sleep(_STEP_S)


@asynccontextmanager
async def _in_time(otherwise: str) -> AsyncIterator[None]:
    """End a block that takes too long, and say what did not happen."""
    try:
        async with asyncio.timeout(_WAIT_S):
            yield
    except TimeoutError as error:
        raise NoFailover(f"{otherwise} within {_WAIT_S:.0f} s") from error


async def _state_of(process: ServiceProcess) -> GetReplicaSetResponse:
    async with aio.insecure_channel(process.address) as channel:
        stub = ReplicaSetServiceStub(channel)
        answer: GetReplicaSetResponse = await stub.GetReplicaSet(
            GetReplicaSetRequest(), timeout=_CALL_S
        )
        return answer
