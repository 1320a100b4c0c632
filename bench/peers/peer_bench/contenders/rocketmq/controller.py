"""Apache RocketMQ in its controller mode: the controller, in the name server, elects a master.

Two brokers, synchronised: acknowledged is what all in the set of in-sync replicas have, as ours is.
All else is as it comes.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from ariane_testkit.free_ports import free_port
from peer_bench.contenders import our_failovers
from peer_bench.contenders.failovers import Failovers
from peer_bench.contenders.rocketmq.rocketmq import (
    CLIENT_HEAP,
    NAME,
    SERVER_HEAP,
    VERSION,
    broker_server,
    broker_settings,
    driver_of,
    name_server_server,
    write_settings,
)
from peer_bench.drivers import Driver
from peer_bench.errors import DriverFailed
from peer_bench.fetched.maven import class_path, java_version
from peer_bench.peers import Part, Peer, Target

IN_SYNC_S_MAX: Final = 120.0
_NAMES: Final = ("broker", "replica")


class _Brokers:
    """Two brokers without ids: the controller gives them, and says who is master."""

    def __init__(self, jars: str, home: Path, settings: dict[str, Any]) -> None:
        self._jars = jars
        self._home = home
        self._names = {free_port(4) + 2: name for name in _NAMES}
        self._pids: dict[int, int] = {}
        self._running: dict[int, ExitStack] = {}
        self._controller: str = settings["controllerAddr"]
        self._driver: Driver | None = None
        self._killed = 0
        for port, name in self._names.items():
            write_settings(home, name, broker_settings(home / name, port) | settings)

    def start(self) -> None:
        """Start both, the first one first."""
        for port in self._names:
            self._start(port)

    def ask_by(self, driver: Driver) -> None:
        """Ask the controller by this client from now on."""
        self._driver = driver

    def wait_in_sync(self) -> None:
        """Wait until both are in the set of in-sync replicas.

        Raises:
            DriverFailed: They never were.
        """
        end_s = time.monotonic() + IN_SYNC_S_MAX
        while time.monotonic() < end_s:
            if self._state()["in_sync"] == len(_NAMES):
                return
            time.sleep(0.1)
        raise DriverFailed(f"{NAME}: the brokers are not in sync")

    def kill_primary(self) -> None:
        """Kill the master."""
        self._killed = int(self._state()["primary"].rpartition(":")[2])
        os.kill(self._pids[self._killed], signal.SIGKILL)

    def restart_killed(self) -> None:
        """Start it again; it comes back as a slave."""
        self._running.pop(self._killed).close()
        self._start(self._killed)

    def close(self) -> None:
        """End both."""
        for running in self._running.values():
            running.close()

    def _start(self, port: int) -> None:
        running = ExitStack()
        started = broker_server(self._jars, self._home, self._names[port], port)
        self._pids[port] = running.enter_context(started)
        self._running[port] = running

    def _state(self) -> dict[str, Any]:
        assert self._driver is not None
        return self._driver.ask("sync_state", controller=self._controller)


@contextmanager
def running(data_path: Path) -> Iterator[Failovers]:
    """Run it in a folder that is its own.

    Raises:
        PeerUnavailable: It cannot be had or started here.
    """
    jars = class_path("rocketmq")
    data_path.mkdir(parents=True, exist_ok=True)
    name_port, controller_port = free_port(), free_port()
    name_server, controller = f"127.0.0.1:{name_port}", f"127.0.0.1:{controller_port}"
    controlling = {
        "listenPort": name_port,
        "enableControllerInNamesrv": "true",
        "controllerDLegerGroup": "bench",
        "controllerDLegerPeers": f"n0-{controller}",
        "controllerDLegerSelfId": "n0",
        "controllerStorePath": data_path / "controller",
    }
    write_settings(data_path, "namesrv", controlling)
    settings = {
        "namesrvAddr": name_server,
        "enableControllerMode": "true",
        "controllerAddr": controller,
        "allAckInSyncStateSet": "true",
    }
    with ExitStack() as stack:
        stack.enter_context(name_server_server(jars, data_path, name_port))
        brokers = _Brokers(jars, data_path, settings)
        stack.callback(brokers.close)
        brokers.start()
        driver = stack.enter_context(driver_of(data_path, name_server, ""))
        brokers.ask_by(driver)
        yield Failovers(
            f"{NAME} {VERSION}, controller mode",
            driver,
            brokers,
            settings={
                "allAckInSyncStateSet": True,
                "pollNameServerInterval": "30 s, its default",
                "server heap": SERVER_HEAP,
                "client heap": CLIENT_HEAP,
            },
            versions={"rocketmq": VERSION, "java": java_version()},
        )


PEER: Final = Peer(
    key="rocketmq-controller",
    running=running,
    ours=our_failovers.running,
    # A kill of each counts for nothing: what is compiled is so then.
    warm_up_s=0.0,
    start_s=150.0,
    parts={"failover": Part(Target(goal=2.0))},
)
"""Whose primary is killed."""
