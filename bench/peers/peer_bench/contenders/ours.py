"""ArianeMQ: a name server, a broker, and the Python client; all as they are by default."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import grpc

from ariane.replication.v1.replica_set_service_pb2 import GetReplicaSetRequest
from ariane.replication.v1.replica_set_service_pb2_grpc import ReplicaSetServiceStub
from ariane_servicekit.running.processes import LocalCluster, ServiceProcess
from peer_bench.contender import DriverContender, lost_of
from peer_bench.drivers import Driver
from peer_bench.errors import DriverFailed
from peer_bench.loads import Leg, Load
from peer_bench.places import DRIVERS_PATH
from peer_bench.processes.usage import between, usage_of

NAME = "ArianeMQ"
CALLS_IN_FLIGHT = 1
IN_SYNC_S_MAX = 60.0
_PACKAGES = ("ariane-broker", "ariane-sdk", "grpcio", "numpy", "pyarrow", "protobuf")


class Ourselves(DriverContender):
    """We; who listens while another sends, or beside other groups, is a process of its own.

    Args:
        name: As it stands in results.
        command: Starts a client.
        home: For the logs of clients.
        stack: Ends the clients.
        server_pids: The servers.
        settings: What was set.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        home: Path,
        stack: ExitStack,
        server_pids: Sequence[int],
        *,
        settings: dict[str, Any],
    ) -> None:
        self._command = command
        self._home = home
        self._stack = stack
        self._clients = [self._started(0)]
        super().__init__(
            name,
            self._clients[0],
            server_pids,
            settings=settings,
            versions=our_versions(),
        )

    def consume(self, load: Load) -> Leg:
        """Consume, one group by the client that sends, more of them by a client each."""
        return super().consume(load) if load.groups == 1 else self._consume_by_groups(load)

    def exchange(self, load: Load) -> Leg:
        """Listen by another client than the one that sends."""
        sender, listener = self._first(2)
        sender.ask("prepare_produce", **load.asked())
        return self._exchange(listener, load, [sender.pid, listener.pid])

    def _consume_by_groups(self, load: Load) -> Leg:
        clients = self._first(load.groups)
        pids = [client.pid for client in clients]
        client, server = usage_of(pids), usage_of(self._server_pids)
        with ThreadPoolExecutor(len(clients)) as threads:
            answers = list(threads.map(lambda each: each.ask("consume", **load.asked()), clients))
        # All on one machine: their clocks are one.
        begin = min(answer["begin"] for answer in answers)
        leg = Leg(
            count=sum(answer["count"] for answer in answers),
            seconds=max(answer["end"] for answer in answers) - begin,
            digest=sum(answer["digest"] for answer in answers) % (1 << 64),
            client=between(client, usage_of(pids)),
            server=between(server, usage_of(self._server_pids)),
        )
        return replace(leg, lost=lost_of(leg, load))

    def _first(self, count: int) -> list[Driver]:
        while len(self._clients) < count:
            self._clients.append(self._started(len(self._clients)))
        return self._clients[:count]

    def _started(self, number: int) -> Driver:
        driver = Driver(NAME, self._command, self._home / f"driver-{number}.log")
        return self._stack.enter_context(driver)


@contextmanager
def running(
    data_path: Path,
    *,
    calls_in_flight: int = CALLS_IN_FLIGHT,
    flush_mode: str = "async",
    replicas: int = 0,
    name: str = NAME,
) -> Iterator[Ourselves]:
    """Run it in a folder that is its own."""
    shape: dict[str, Any] = {"flush_mode": flush_mode, "replicas": replicas}
    with LocalCluster(data_path, **shape) as cluster, ExitStack() as clients:
        if replicas:
            wait_in_sync([*cluster.brokers, *cluster.replicas])
        yield Ourselves(
            name,
            driver_command(cluster.name_servers, calls_in_flight),
            data_path,
            clients,
            [process.pid for process in cluster.processes],
            settings={
                "flush": flush_mode,
                "queues": 4,
                "calls in flight": calls_in_flight,
                "listener batch": "32, or 1 where a call gets a message",
                **({"replicas": replicas, "acknowledge": "replicated"} if replicas else {}),
            },
        )


def driver_command(name_servers: str, calls_in_flight: int = CALLS_IN_FLIGHT) -> list[str]:
    """Starts a client."""
    driver = str(DRIVERS_PATH / "ariane_driver.py")
    return [sys.executable, driver, name_servers, str(calls_in_flight)]


def our_versions() -> dict[str, str]:
    """Of servers and client."""
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in _PACKAGES},
    }


def wait_in_sync(brokers: Sequence[ServiceProcess]) -> ServiceProcess:
    """Wait until all brokers of a set are in sync; returns the primary.

    Raises:
        DriverFailed: They never were.
    """
    end_s = time.monotonic() + IN_SYNC_S_MAX
    while time.monotonic() < end_s:
        for process in brokers:
            with suppress(grpc.RpcError), grpc.insecure_channel(process.address) as channel:
                stub = ReplicaSetServiceStub(channel)
                found = stub.GetReplicaSet(GetReplicaSetRequest(), timeout=IN_SYNC_S_MAX)
                in_sync = len(found.replica_set.in_sync_broker_ids)
                if found.has_lease and in_sync == len(brokers):
                    return process
        time.sleep(0.05)
    raise DriverFailed(f"{len(brokers)} brokers were not in sync within {IN_SYNC_S_MAX:.0f} s")
