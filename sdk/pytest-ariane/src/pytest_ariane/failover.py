"""A broker with a replica, as processes: for tests of what an application does in a failover."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ariane_sdk import ClusterClient
from ariane_servicekit.running.broker_groups import BrokerGroup, broker_groups
from ariane_servicekit.running.processes import LocalCluster, ServiceProcess
from pytest_ariane.closing import Closing

_LEASE_S: Final = 2.0
"""The lease of a primary, in seconds: short, so that tests need not wait long."""

_FLAGS: Final = (
    # Small files, and high limits on the use of the disk.
    *("--segment-bytes", str(16 << 20), "--consume-queue-entries", "4000"),
    *("--index-slots", "1000", "--index-items", "4000"),
    *("--disk-clean-ratio", "0.97", "--disk-force-ratio", "0.98", "--disk-refuse-ratio", "0.99"),
    *("--primary-lease-s", str(_LEASE_S), "--replica-behind-s-max", str(_LEASE_S)),
)


def _closed_by(closing: Closing) -> type[LocalCluster]:
    class Closed(LocalCluster):
        closed_by = closing.certificates

    return Closed


class FailoverCluster:
    """A name server, and a broker with one replica: three processes, so that crashes are real.

    Its methods wait for their effect: a failover takes some 2.5 s.
    """

    def __init__(self, data_path: Path, closing: Closing | None = None) -> None:
        """Start nothing yet.

        Args:
            data_path: A folder for all of their files.
            closing: Closes the cluster; None leaves it open, and in plain text.
        """
        cluster = LocalCluster if closing is None else _closed_by(closing)
        self._cluster = cluster(data_path, replicas=1, extra_broker_args=_FLAGS)
        self._group: BrokerGroup | None = None
        self._away: list[ServiceProcess] = []

    @property
    def name_servers(self) -> str:
        """What clients take as their first argument."""
        return self._cluster.name_servers

    def __enter__(self) -> Self:
        """Start all; the replica is in sync when this returns.

        Raises:
            ProcessFailed: One did not start.
        """
        self._cluster.start_blocking()
        try:
            [self._group] = broker_groups(self._cluster)
            self._cluster.call_blocking(self._group.wait_in_sync)
        except BaseException:
            self._cluster.stop_blocking()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._wake()
        self._cluster.stop_blocking()

    @property
    def primary_address(self) -> str:
        """The address of the present primary; waits until there is one."""
        return self._cluster.call_blocking(self._running_group.primary).address

    def kill_primary(self) -> None:
        """End the primary by SIGKILL; returns at once. ``failover`` waits for its successor."""
        process = self._cluster.call_blocking(self._running_group.primary)

        async def kill() -> None:
            process.kill()
            await process.wait()

        self._cluster.call_blocking(kill)
        self._away.append(process)

    def failover(self) -> float:
        """Kill the primary, and wait until the replica has taken over.

        Returns:
            The seconds between the two.

        Raises:
            ProcessFailed: The replica does not take over.
        """
        begin_s = time.monotonic()
        killed = self._cluster.call_blocking(self._running_group.kill_primary)
        self._away.append(killed)
        return time.monotonic() - begin_s

    def pause_primary(self) -> None:
        """Stop the primary by SIGSTOP, and wait until the replica has taken over.

        With ``heal`` the old primary continues, and is fenced.

        Raises:
            ProcessFailed: The replica does not take over.
        """
        group = self._running_group
        paused = self._cluster.call_blocking(group.primary)
        os.kill(paused.pid, signal.SIGSTOP)
        self._away.append(paused)
        self._cluster.call_blocking(lambda: group.primary(but=paused))

    def heal(self) -> None:
        """Continue or restart all processes, and wait until both brokers are in sync.

        Raises:
            ProcessFailed: A broker does not return.
        """
        self._wake()
        for process in self._away:
            if not process.running:
                self._cluster.call_blocking(process.start)
        self._away.clear()
        self._cluster.call_blocking(self._running_group.wait_in_sync)

    def create_topic(self, topic: str, *, queue_count: int = 4, fifo: bool = False) -> None:
        """Create a topic; routes contain it when this returns."""

        async def create() -> None:
            async with ClusterClient(self.name_servers) as client:
                await client.create_topic(topic, queue_count=queue_count, fifo=fifo)

        self._cluster.call_blocking(create)

    def _wake(self) -> None:
        for process in self._away:
            if process.running:
                os.kill(process.pid, signal.SIGCONT)

    @property
    def _running_group(self) -> BrokerGroup:
        if self._group is None:
            raise RuntimeError("the cluster was not started")
        return self._group
