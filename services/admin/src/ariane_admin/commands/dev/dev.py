"""``ariane dev``: a whole cluster on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import click

from ariane_admin.asking.connection import run_async
from ariane_admin.commands.dev.dev_guide import DevGuide
from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.client_warnings import say_warning
from ariane_admin.terminal.output import Output, output_option
from ariane_servicekit.errors import ProcessFailed
from ariane_servicekit.running.processes import LocalCluster, ServiceProcess

_SERVICES = ("ariane-namesrv", "ariane-broker", "ariane-txn-checker", "ariane-filter")
_BROKERS_MAX = 26
_REPLICAS_MAX = 2
_PORT_MAX = 65_535
_NAME_SERVER_PORT = 9876
_CHECKER_PORT = 9880
_ADMIN_PORT = 9881
_CONSOLE_PORT = 9882
_FILTER_PORT = 9885
_GATEWAY_PORT = 8081
_RESTART_PAUSE_S = 0.5
_RESTART_PAUSE_S_MAX = 30.0
_RESTART_GROWTH = 2.0
_TAKEOVER_S = 10.0
"""Two leases of a primary: by then a replica has taken over from a broker that was killed."""

_LOG_LINES_SHOWN = 3

_ERROR_CHARACTERS_MAX = 600
"""The most characters of an error that are shown; a longer one is cut in the middle."""

# On one machine brokers register within seconds of a name server's start. By its defaults, answers
# would warn for 45 s that some may be missing; a first write of Spark that is exactly once would
# wait for that long.
_NAME_SERVER_FLAGS = ("--heartbeat-interval-s", "2", "--warm-up-s", "4")

_BROKER_FLAGS = (
    # Segments are taken from the disk before they are needed, two at a time. A developer's machine
    # need not give 2 GiB for it. It is part of the store's format: a store that is kept keeps it.
    *("--segment-bytes", str(128 << 20)),
    # So is a file of the index: 40 MiB instead of 400.
    *("--index-slots", "500000", "--index-items", "2000000"),
    # A broker has a disk for itself and gives up old messages when that fills. A developer's disk
    # is full of other things, and often.
    *("--disk-clean-ratio", "0.96", "--disk-force-ratio", "0.97", "--disk-refuse-ratio", "0.98"),
)


@click.command()
@click.option(
    "--data",
    "data_path",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep the store in this folder. By default the store is temporary.",
)
@click.option(
    "--brokers",
    type=click.IntRange(1, _BROKERS_MAX),
    default=1,
    show_default=True,
    help="Number of brokers.",
)
@click.option(
    "--replicas",
    type=click.IntRange(0, _REPLICAS_MAX),
    default=0,
    show_default=True,
    help="Number of replicas of each broker. When the primary ends, a replica takes"
    " over, and the old primary is started again as a replica.",
)
@click.option(
    "--name-server-port",
    type=click.IntRange(0, _PORT_MAX),
    default=_NAME_SERVER_PORT,
    show_default=True,
    help="Port of the name server; 0 picks any free port.",
)
@click.option(
    "--broker-port",
    type=click.IntRange(0, _PORT_MAX),
    default=0,
    show_default=True,
    help="Port of the first broker; the others, then replicas, take the next ones. 0 picks"
    " any free ports.",
)
@click.option(
    "--admin-port",
    type=click.IntRange(0, _PORT_MAX),
    help=f"Port of admin; by default {_ADMIN_PORT}, or any free port if the name server's is not"
    f" {_NAME_SERVER_PORT}.",
)
@click.option(
    "--console-port",
    type=click.IntRange(0, _PORT_MAX),
    help=f"Port of the console; by default {_CONSOLE_PORT}, or any free port likewise.",
)
@click.option(
    "--gateway",
    is_flag=True,
    help="Also run a gateway, for the clients of RocketMQ.",
)
@click.option("--exit-after-ready", is_flag=True, help="Stop as soon as everything is ready.")
@output_option
def dev(
    *,
    data_path: Path | None,
    brokers: int,
    replicas: int,
    name_server_port: int,
    broker_port: int,
    admin_port: int | None,
    console_port: int | None,
    gateway: bool,
    exit_after_ready: bool,
    output: Output,
) -> None:
    """Run a name server, brokers, a transaction checker and admin on this machine until Ctrl-C.

    A FilterServer that accepts uploads runs beside each broker. A process that ends, or is stopped
    to see what clients do then, is started again. Admin serves a web console; its address is
    printed with the others.

    \b
    Examples:
      ariane dev
      ariane dev --brokers 2 --data ./cluster
      ariane dev --replicas 1
      ariane dev --gateway
      ariane dev --name-server-port 19876 --broker-port 10911 --console-port 19882
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    services = (*_SERVICES, "ariane-gateway") if gateway else _SERVICES
    missing = [name for name in services if find_spec(name.replace("-", "_")) is None]
    if missing:
        raise CommandFailed(
            f"{', '.join(missing)} not installed; pip install 'ariane-admin[dev]' brings all"
            " that this command starts"
        )
    # Beside a second cluster the usual ports are taken.
    usual = name_server_port == _NAME_SERVER_PORT
    console_port = _port(console_port, _CONSOLE_PORT, usual=usual)
    console = f"127.0.0.1:{console_port or _free_port()}"
    with _store(data_path) as store_path, contextlib.suppress(KeyboardInterrupt):
        run_async(
            _run(
                LocalCluster(
                    store_path,
                    brokers=brokers,
                    broker_port=broker_port,
                    replicas=replicas,
                    name_server_port=name_server_port,
                    extra_name_server_args=_NAME_SERVER_FLAGS,
                    checkers=1,
                    checker_port=_CHECKER_PORT if usual else 0,
                    admin=True,
                    admin_port=_port(admin_port, _ADMIN_PORT, usual=usual),
                    extra_admin_args=("--console-listen", console),
                    gateways=int(gateway),
                    gateway_port=_GATEWAY_PORT if usual else 0,
                    filter_servers=1,
                    filter_server_port=_FILTER_PORT if usual else 0,
                    extra_broker_args=_BROKER_FLAGS,
                ),
                output,
                console=console,
                temporary=data_path is None,
                exit_after_ready=exit_after_ready,
            )
        )


@contextlib.contextmanager
def _store(data_path: Path | None) -> Iterator[Path]:
    if data_path is not None:
        yield data_path.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="ariane-dev-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


async def _run(
    cluster: LocalCluster,
    output: Output,
    *,
    console: str,
    temporary: bool,
    exit_after_ready: bool,
) -> None:
    began = time.perf_counter()
    try:
        await cluster.start()
    except ProcessFailed as error:
        raise CommandFailed(_without_middle(str(error))) from error
    try:
        guide = DevGuide(
            name_servers=cluster.name_servers,
            checker=cluster.checkers[0].address,
            admin=cluster.admins[0].address,
            console=f"http://{console}/",
            services=tuple((each.name, each.address, each.pid) for each in cluster.processes),
            store_path=cluster.data_path,
            temporary=temporary,
            seconds=time.perf_counter() - began,
        )
        if output.for_programs:
            output.line(guide.as_row())
        else:
            click.echo(guide.as_text())
        if not exit_after_ready:
            await _watch(cluster)
    finally:
        try:
            if not output.for_programs:
                click.echo("Stopping.")
        finally:
            # Also where nobody reads any more: `ariane dev | head`.
            await cluster.stop()


def _port(given: int | None, usually: int, *, usual: bool) -> int:
    """The port of a process: the given one, or else the usual one; 0: any."""
    if given is not None:
        return given
    return usually if usual else 0


def _free_port() -> int:
    """A port that is free now; should somebody take it meanwhile, admin says so and ends."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _without_middle(text: str) -> str:
    half = _ERROR_CHARACTERS_MAX // 2
    return text if len(text) <= 2 * half else f"{text[:half]} ... {text[-half:]}"


async def _watch(cluster: LocalCluster) -> None:
    """Keep all processes running for ever, as a service manager would."""
    pauses_s = dict.fromkeys(cluster.processes, _RESTART_PAUSE_S)
    if cluster.replicas:
        pauses_s |= dict.fromkeys((*cluster.brokers, *cluster.replicas), _TAKEOVER_S)
    keeping = [
        asyncio.create_task(_keep_running(each, pause_s)) for each, pause_s in pauses_s.items()
    ]
    try:
        await asyncio.gather(*keeping)
    finally:
        for each in keeping:
            each.cancel()
        await asyncio.gather(*keeping, return_exceptions=True)


async def _keep_running(process: ServiceProcess, first_pause_s: float) -> None:
    """Start a process again when it ends, after a pause that grows while it ends soon."""
    pause_s = first_pause_s
    while True:
        began_s = time.monotonic()
        await process.wait()
        if time.monotonic() - began_s > _RESTART_PAUSE_S_MAX:
            pause_s = first_pause_s
        say_warning(f"{process.name} {process.ending}; restarting it in {pause_s:g} s")
        if process.exit_status:
            # Shown and not only named: a temporary store takes the log with it.
            say_warning(f"the end of {process.log_path}: {_end_of_log(process)}")
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * _RESTART_GROWTH, _RESTART_PAUSE_S_MAX)
        with contextlib.suppress(ProcessFailed):
            await process.start()
            say_warning(f"{process.name} runs again, process {process.pid}")


def _end_of_log(process: ServiceProcess) -> str:
    log = process.log_path.read_text(encoding="utf-8", errors="replace").splitlines()
    return _without_middle(" ".join(log[-_LOG_LINES_SHOWN:]))
