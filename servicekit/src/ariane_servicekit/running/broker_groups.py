"""Brokers of one name as child processes: which one is primary, and faults for that one.

::

    async with LocalCluster(Path("out"), replicas=1) as cluster:
        [group] = broker_groups(cluster)
        await group.wait_in_sync()
        killed = await group.kill_primary()
        await killed.start()
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
from ariane_servicekit.errors import ProcessFailed
from ariane_servicekit.rpc.channels import open_channel
from ariane_servicekit.running.processes import LocalCluster, ServiceProcess

WAIT_S_MAX: Final = 120.0
"""Seconds until a replica has taken over or caught up: on a busy machine a start alone is long."""

_CALL_S: Final = 5.0
_STEP_S: Final = 0.05


class BrokerGroup:
    """The processes of one broker name."""

    def __init__(self, name: str, processes: Sequence[ServiceProcess]) -> None:
        """Take the processes, which need not run."""
        self.name = name
        """The name."""
        self.processes = tuple(processes)
        """The processes by broker id, 0 first."""

    async def primary(self, *, but: ServiceProcess | None = None) -> ServiceProcess:
        """Wait until there is a primary, and return it.

        Args:
            but: A process to exclude.

        Raises:
            ProcessFailed: There is none in time.
        """
        others = [process for process in self.processes if process is not but]
        async with self._in_time("nobody became primary"):
            while True:
                for process in others:
                    state = await _state_of(process)
                    if state is not None and state.has_lease:
                        return process
                await asyncio.sleep(_STEP_S)

    async def wait_in_sync(self) -> None:
        """Wait until there is a primary, and all others are in sync with it.

        Raises:
            ProcessFailed: They are not in time.
        """
        async with self._in_time("not all came in sync"):
            while True:
                for process in self.processes:
                    state = await _state_of(process)
                    if state is None or not state.has_lease:
                        continue
                    if len(state.replica_set.in_sync_broker_ids) == len(self.processes):
                        return
                await asyncio.sleep(_STEP_S)

    async def kill_primary(self) -> ServiceProcess:
        """Kill the primary (SIGKILL), and wait until another one has taken over.

        Returns:
            The killed process; started again, it follows the new primary.

        Raises:
            ProcessFailed: No broker took over in time.
        """
        killed = await self.primary()
        killed.kill()
        await killed.wait()
        await self.primary(but=killed)
        return killed

    @asynccontextmanager
    async def _in_time(self, otherwise: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(WAIT_S_MAX):
                yield
        except TimeoutError as error:
            message = f"{otherwise} within {WAIT_S_MAX:.0f} s"
            raise ProcessFailed(self.name, message, None) from error


def broker_groups(cluster: LocalCluster) -> list[BrokerGroup]:
    """The brokers of a cluster that runs, each with its replicas."""
    groups = []
    for broker in cluster.brokers:
        begin = f"{broker.name}-"
        replicas = [one for one in cluster.replicas if one.name.startswith(begin)]
        groups.append(BrokerGroup(broker.name, (broker, *replicas)))
    return groups


async def _state_of(process: ServiceProcess) -> GetReplicaSetResponse | None:
    """A broker's report of its set; None without an answer."""
    if not process.running:
        return None
    with suppress(aio.AioRpcError):
        async with open_channel(process.address) as channel:
            stub = ReplicaSetServiceStub(channel)
            state: GetReplicaSetResponse = await stub.GetReplicaSet(
                GetReplicaSetRequest(), timeout=_CALL_S
            )
            return state
    return None
