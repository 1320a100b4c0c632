"""Services as child processes: a whole cluster on one machine for demos, tests and ``ariane dev``.

::

    async with LocalCluster(Path("out"), brokers=2) as cluster:
        producer = Producer(cluster.name_servers)
        cluster.brokers[0].kill()
        await cluster.brokers[0].restart()

Programs without a loop of their own use ``with`` instead of ``async with``.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import string
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from ariane_servicekit.addresses import Address
from ariane_servicekit.errors import ProcessFailed
from ariane_servicekit.running.blocking_life import BlockingLife
from ariane_servicekit.running.local_certificates import LocalCertificates
from ariane_servicekit.security.caller import MemberKind

READY_S_MAX: Final = 60.0
"""Seconds that a child may take to become ready: recovery of a large store takes longest, and
imports where many start at once on few processors."""

STOP_S_MAX: Final = 20.0
"""Seconds that a child may take to stop in order before it is killed: drain, grace, last flush."""

CLUSTER_NAME: Final = "DefaultCluster"

_LOG_LINES_SHOWN: Final = 15

_ANY_PORT: Final = Address("127.0.0.1", 0)


class ServiceProcess:
    """One service in a process of its own, in a process group of its own.

    The group keeps a Ctrl-C of the terminal from the child, which would take the parent's SIGTERM
    for a second signal and exit at once.
    """

    start_child: ClassVar[Callable[..., Coroutine[Any, Any, Process]]] = staticmethod(
        asyncio.create_subprocess_exec
    )
    """Starts a child; called as asyncio's function."""

    def __init__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str],
        log_path: Path,
        listen: Address = _ANY_PORT,
        *,
        command_prefix: Sequence[str] = (),
    ) -> None:
        self.name = name
        """The name for people."""
        self._command_prefix = tuple(command_prefix)
        self.log_path = log_path
        """The file for all output, of all starts."""
        self.ready_s_max = READY_S_MAX
        """Seconds that it may take to become ready."""
        self._log_begin = 0
        self._module = module
        self.arguments = tuple(arguments)
        """Its flags, from the next start on."""
        self._listen = listen
        self._process: Process | None = None

    @property
    def address(self) -> str:
        """Its address, ``host:port``; stays the same over restarts."""
        return str(self._listen)

    @property
    def pid(self) -> int:
        """The process id of the latest start."""
        return self._child.pid

    @property
    def started(self) -> bool:
        """Whether it was ever started."""
        return self._process is not None

    @property
    def running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    @property
    def exit_status(self) -> int | None:
        """How the process ended; negative for the signal that ended it. None while it runs."""
        return self._child.returncode

    @property
    def ending(self) -> str:
        """How the process ended, in words: ``ended with status 2``, ``was ended by SIGKILL``."""
        status = self.exit_status
        if status is None or status >= 0:
            return f"ended with status {status}"
        try:
            return f"was ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"was ended by signal {-status}"

    async def start(self) -> None:
        """Start the process and wait until it is ready.

        Raises:
            ProcessFailed: It ended, or was not ready in time (it is killed then).
        """
        command = (sys.executable, "-m", "ariane_servicekit.running.launcher", str(os.getpid()))
        flags = ("--listen", str(self._listen), *self.arguments)
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._log_begin = log.tell()
            self._process = await self.start_child(
                *self._command_prefix,
                *command,
                self._module,
                *flags,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=log,
                start_new_session=True,
            )
        try:
            async with asyncio.timeout(self.ready_s_max):
                self._listen = await self._read_ready(self._process)
        except TimeoutError:
            await self._end()
            raise self._failure(
                f"was not ready within {self.ready_s_max:g} s: the address did not come that it"
                " writes once it has imported, recovered what it keeps, and listens"
                f" (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors)"
            ) from None
        except BaseException:
            await self._end()
            raise

    def terminate(self) -> None:
        """Ask it to stop in order (SIGTERM). Harmless when it has ended."""
        if self.running:
            self._child.terminate()

    def kill(self) -> None:
        """End it at once (SIGKILL), as a power cut would. Harmless when it has ended."""
        if self.running:
            self._child.kill()

    async def wait(self) -> int:
        """Wait until it has ended; return its exit status."""
        return await self._child.wait()

    async def stop(self) -> int:
        """Stop it in order, kill it when that takes too long; return its exit status."""
        self.terminate()
        try:
            async with asyncio.timeout(STOP_S_MAX):
                return await self.wait()
        except TimeoutError:
            self.kill()
            return await self.wait()

    async def restart(self) -> None:
        """Start it again on the same port and store; stops it in order if it still runs.

        Raises:
            ProcessFailed: It ended, or was not ready in time.
        """
        await self.stop()
        await self.start()

    @property
    def _child(self) -> Process:
        if self._process is None:
            msg = f"{self.name} was not started"
            raise RuntimeError(msg)
        return self._process

    async def _read_ready(self, process: Process) -> Address:
        assert process.stdout is not None  # noqa: S101 - it was asked for
        while line := await process.stdout.readline():
            try:
                return Address.parse(json.loads(line)["address"])
            except (ValueError, KeyError, TypeError):
                continue
        await process.wait()
        raise self._failure(self.ending)

    async def _end(self) -> None:
        self.kill()
        await self.wait()

    def _failure(self, message: str) -> ProcessFailed:
        # Lines of earlier starts are about another failure, or none.
        log = self.log_path.read_bytes()[self._log_begin :].decode(errors="replace")
        lines = log.splitlines()[-_LOG_LINES_SHOWN:] or ["(nothing since it was started)"]
        shown = "\n  ".join(lines)
        text = f"{message}; the end of {self.log_path}:\n  {shown}"
        return ProcessFailed(self.name, text, self._child.returncode)


class LocalCluster(BlockingLife):
    """Name servers, brokers and other processes on 127.0.0.1, by default on free ports.

    Leaving the block stops admin, then gateways, FilterServers and checkers, then brokers, and name
    servers last. When this process dies without leaving it, the children stop all the same (see
    ``launcher``).

    Args:
        data_path: Folder for everything: ``broker-a/`` and so on, ``broker-a-1/`` for its first
            replica, ``namesrv-0/``, ``txn-checker/``, ``filters/``, ``admin/``, ``logs/``.
        brokers: How many brokers: broker-a, broker-b and so on.
        broker_port: Of the first broker, the others and then replicas take the next ones; 0: any.
        name_servers: How many name servers.
        name_server_port: Of the first name server, the others take the next ones; 0: any.
        extra_name_server_args: Further flags for each name server.
        checkers: How many transaction checkers; they share one SQLite file.
        checker_port: Of the first checker, the others take the next ones; 0: any.
        admin: Whether to run admin.
        admin_port: Of admin; 0: any.
        extra_admin_args: Further flags for admin, whose console has a free port without any.
        gateways: How many gateways for the clients of RocketMQ.
        gateway_port: Of the first gateway, the others take the next ones; 0: any.
        filter_servers: How many FilterServers beside each broker and each replica; those of one
            process share a folder. They take uploads of every kind.
        filter_server_port: Of the first FilterServer, the others take the next ones; 0: any.
        replicas: Number of replicas of each broker; one SQLite file elects their primary.
        flush_mode: Of the brokers: ``async`` or ``sync``.
        extra_broker_args: Further flags for each broker.
        broker_module: The broker's module: tests may use one with parts of their own.
        tls: Whether all speak TLS, each with a certificate of its own.
        super_users: With TLS, users that may do everything, and the cluster is closed to others.
    """

    closed_by: ClassVar[LocalCertificates | None] = None
    """Where clusters without ``tls`` get their certificates; None for plain text. Tests close every
    cluster of a run by it."""

    def __init__(
        self,
        data_path: Path,
        *,
        brokers: int = 1,
        broker_port: int = 0,
        name_servers: int = 1,
        name_server_port: int = 0,
        extra_name_server_args: Sequence[str] = (),
        checkers: int = 0,
        checker_port: int = 0,
        admin: bool = False,
        admin_port: int = 0,
        extra_admin_args: Sequence[str] = (),
        gateways: int = 0,
        gateway_port: int = 0,
        filter_servers: int = 0,
        filter_server_port: int = 0,
        replicas: int = 0,
        flush_mode: str = "async",
        extra_broker_args: Sequence[str] = (),
        broker_module: str = "ariane_broker",
        tls: bool = False,
        super_users: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.data_path = data_path
        self.certificates = self.closed_by
        """Where those of this one come from; None without TLS."""
        if tls:
            self.certificates = LocalCertificates(
                data_path / "certificates", CLUSTER_NAME, super_users
            )
        self.name_server_processes = [
            self._process(
                f"namesrv-{number}",
                "ariane_namesrv",
                "--data-path",
                *self.shown(MemberKind.NAME_SERVER, f"namesrv-{number}"),
                *extra_name_server_args,
                port=name_server_port + number if name_server_port else 0,
            )
            for number in range(name_servers)
        ]
        self.brokers: list[ServiceProcess] = []
        self.checkers: list[ServiceProcess] = []
        self.admins: list[ServiceProcess] = []
        self._admin_ports = [admin_port] if admin else []
        self._admin_flags = tuple(extra_admin_args)
        self.gateways: list[ServiceProcess] = []
        self._gateway_ports = [
            gateway_port + number if gateway_port else 0 for number in range(gateways)
        ]
        self.filter_servers: list[ServiceProcess] = []
        self._filter_servers = filter_servers
        self._filter_server_port = filter_server_port
        self._checker_ports = [
            checker_port + number if checker_port else 0 for number in range(checkers)
        ]
        self._replica_count = replicas
        self.replicas: list[ServiceProcess] = []
        self._broker_names = [f"broker-{letter}" for letter in string.ascii_lowercase[:brokers]]
        self._broker_module = broker_module
        self._broker_port = broker_port
        self._broker_flags = ("--flush-mode", flush_mode, *extra_broker_args)

    @property
    def name_servers(self) -> str:
        """Addresses of the name servers for clients, ``host:port,host:port``."""
        return ",".join(process.address for process in self.name_server_processes)

    @property
    def processes(self) -> Sequence[ServiceProcess]:
        """All processes in the order in which they are stopped."""
        return (
            *self.admins,
            *self.gateways,
            *self.filter_servers,
            *self.checkers,
            *self.replicas,
            *self.brokers,
            *self.name_server_processes,
        )

    async def start(self) -> None:
        """Start all and wait until all are ready; if one fails, stops those it started.

        Raises:
            ProcessFailed: A process ended or was not ready in time.
        """
        try:
            await _all(process.start() for process in self.name_server_processes)
            # Only now the name servers' ports are known.
            self.brokers = [self._broker(name) for name in self._broker_names]
            self.checkers = [
                self._checker(number, port) for number, port in enumerate(self._checker_ports)
            ]
            self.replicas = [
                self._broker(name, broker_id)
                for name in self._broker_names
                for broker_id in range(1, self._replica_count + 1)
            ]
            self.gateways = [
                self._gateway(number, port) for number, port in enumerate(self._gateway_ports)
            ]
            brokers = (*self.brokers, *self.replicas)
            await _all(process.start() for process in (*brokers, *self.checkers, *self.gateways))
            # Only now the brokers' ports are known, and the checkers'.
            self.filter_servers = [
                self._filter_server(place, number)
                for place in range(len(brokers))
                for number in range(self._filter_servers)
            ]
            self.admins = [self._admin(port) for port in self._admin_ports]
            await _all(process.start() for process in (*self.filter_servers, *self.admins))
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> dict[str, int]:
        """Stop all that run, in order; return the exit statuses by name. Repeating is harmless."""
        for group in (
            self.admins,
            (*self.gateways, *self.filter_servers, *self.checkers),
            self.replicas,
            self.brokers,
            self.name_server_processes,
        ):
            await _all(process.stop() for process in group if process.running)
        ended = ((process.name, process) for process in self.processes if process.started)
        return {name: process.exit_status or 0 for name, process in ended}

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _broker(self, name: str, broker_id: int = 0) -> ServiceProcess:
        set_url = f"sqlite:///{self.data_path.absolute() / 'replica-sets.db'}"
        in_set = ("--replica-set-url", set_url, "--broker-id", str(broker_id))
        return self._process(
            f"{name}-{broker_id}" if broker_id else name,
            self._broker_module,
            "--store-path",
            *("--name-servers", self.name_servers),
            *("--broker-name", name, "--cluster-name", CLUSTER_NAME),
            *(in_set if self._replica_count else ()),
            *self._broker_flags,
            *self.shown(MemberKind.BROKER, name),
            port=self._port_of_broker(name, broker_id),
        )

    def _port_of_broker(self, name: str, broker_id: int) -> int:
        place = self._broker_names.index(name)
        if broker_id:
            place = len(self._broker_names) + place * self._replica_count + broker_id - 1
        return self._broker_port + place if self._broker_port else 0

    def _checker(self, number: int, port: int) -> ServiceProcess:
        name = f"txn-checker-{number}"
        log_path = self.data_path / "logs" / f"{name}.log"
        arguments = (
            *("--name-servers", self.name_servers),
            *("--data-path", str(self.data_path / "txn-checker")),
            *self.shown(MemberKind.CHECKER, name),
        )
        return ServiceProcess(
            name, "ariane_txn_checker", arguments, log_path, Address("127.0.0.1", port)
        )

    def _gateway(self, number: int, port: int) -> ServiceProcess:
        name = f"gateway-{number}"
        log_path = self.data_path / "logs" / f"{name}.log"
        arguments = (
            *("--name-servers", self.name_servers),
            *self.shown(MemberKind.GATEWAY, name),
            # Plain text beside TLS: each client chooses.
            *(("--insecure",) if self.certificates is not None else ()),
        )
        return ServiceProcess(
            name, "ariane_gateway", arguments, log_path, Address("127.0.0.1", port)
        )

    def _admin(self, port: int) -> ServiceProcess:
        checkers = ",".join(process.address for process in self.checkers)
        return self._process(
            "admin",
            "ariane_admin.service",
            "--data-path",
            *("--name-servers", self.name_servers),
            *(("--checkers", checkers) if checkers else ()),
            *("--console-listen", str(_ANY_PORT)),
            *self._admin_flags,
            *self.shown(MemberKind.ADMIN, "admin"),
            port=port,
        )

    def _filter_server(self, place: int, number: int) -> ServiceProcess:
        """A FilterServer beside a broker.

        Args:
            place: Position of the broker; replicas are behind all primaries.
            number: Number among the broker's FilterServers.
        """
        broker = (*self.brokers, *self.replicas)[place]
        name = f"filter-{broker.name}-{number}"
        arguments = (
            *("--broker", broker.address),
            *("--data-path", str(self.data_path / "filters" / broker.name)),
            *("--uploads", "any"),
            *self.shown(MemberKind.FILTER, name),
        )
        first = self._filter_server_port
        port = first + place * self._filter_servers + number if first else 0
        log_path = self.data_path / "logs" / f"{name}.log"
        return ServiceProcess(
            name, "ariane_filter", arguments, log_path, Address("127.0.0.1", port)
        )

    def shown(self, kind: MemberKind, name: str) -> tuple[str, ...]:
        """Flags for the certificate of a process of this cluster; none without TLS."""
        return () if self.certificates is None else self.certificates.flags(kind, name)

    def _process(
        self, name: str, module: str, path_flag: str, *flags: str, port: int = 0
    ) -> ServiceProcess:
        arguments = (path_flag, str(self.data_path / name), *flags)
        log_path = self.data_path / "logs" / f"{name}.log"
        return ServiceProcess(name, module, arguments, log_path, Address("127.0.0.1", port))


async def _all(steps: Iterable[Awaitable[object]]) -> None:
    """Run steps in parallel to their ends, then raise the first failure."""
    results = await asyncio.gather(*steps, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
