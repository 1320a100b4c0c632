"""ArianeMQ with a replica, whose primary is killed; all as it is by default, the lease too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ariane_servicekit.running.processes import LocalCluster, ServiceProcess
from peer_bench.contenders.failovers import Failovers
from peer_bench.contenders.ours import NAME, driver_command, our_versions, wait_in_sync
from peer_bench.drivers import Driver


class _Brokers:
    """A broker and its replica."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._primary: ServiceProcess = cluster.brokers[0]

    def wait_in_sync(self) -> None:
        """Wait until both are in sync."""
        self._primary = wait_in_sync([*self._cluster.brokers, *self._cluster.replicas])

    def kill_primary(self) -> None:
        """Kill the one that was primary when both were in sync."""
        self._primary.kill()

    def restart_killed(self) -> None:
        """Start it again; it comes back as a replica."""
        self._cluster.call_blocking(self._primary.wait)
        self._cluster.call_blocking(self._primary.start)


@contextmanager
def running(data_path: Path, *, name: str = NAME) -> Iterator[Failovers]:
    """Run it in a folder that is its own."""
    with LocalCluster(data_path, replicas=1) as cluster:
        command = driver_command(cluster.name_servers)
        with Driver(NAME, command, data_path / "driver.log") as driver:
            yield Failovers(
                name,
                driver,
                _Brokers(cluster),
                settings={"replicas": 1, "acknowledge": "replicated", "primary_lease_s": 5},
                versions=our_versions(),
            )
