"""One life for all services, in one order.

::

    settings -> logs -> bind -> NOT_SERVING -> recover -> open -> serve_started -> SERVING -> ready
                                                                                         |
    exit <- stop <- server stops (grace) <- drain <- NOT_SERVING, closed to new calls <- signal

* A port in use, a locked store, an illegal setting: one line on standard error, exit status 2.
* SIGTERM and SIGINT start the stop; a second one ends the process at once. SIGHUP, which a dying
  parent sends (see ``launcher``), starts the stop, too, and may be repeated.
* Until ``recover`` is done calls are refused with SERVICE_STARTING, from the signal on with
  SERVICE_DRAINING. Health answers all the time.
* ``stop`` runs last and always, also when ``recover`` failed half way. After a refused start the
  cause of the refusal is printed, and what ``stop`` could not save then is only logged.
* A service that asks to be composed anew starts again from ``bind`` on, on the same address. Its
  readiness is announced only once.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from ariane_servicekit.addresses import Address
from ariane_servicekit.configuration.live_settings import LiveSettings
from ariane_servicekit.configuration.settings import ServiceSettings
from ariane_servicekit.configuration.settings_sources import (
    environment_name,
    flag_of,
    load_settings,
    secret_names,
)
from ariane_servicekit.errors import SettingsError, StartRefused, StopIncomplete
from ariane_servicekit.machine import Machine
from ariane_servicekit.observability.exports import Exports
from ariane_servicekit.observability.logs import configure_logs, get_logger
from ariane_servicekit.observability.measures import Measures
from ariane_servicekit.observability.telemetry import CallMetrics, Telemetry
from ariane_servicekit.rpc.admission import Admission, Phase
from ariane_servicekit.rpc.error_status import ErrorTranslator
from ariane_servicekit.rpc.health import HealthServicer
from ariane_servicekit.rpc.process_servicer import ProcessServicer, process_rpc_service
from ariane_servicekit.rpc.quota_measures import measure_quotas
from ariane_servicekit.rpc.server import bind, build_server
from ariane_servicekit.rpc.transport_measures import TransportMeasures, measure_certificate
from ariane_servicekit.running.background import Loop
from ariane_servicekit.running.process_list import hide
from ariane_servicekit.running.service import (
    Compose,
    Conditioned,
    ExitStatus,
    Fronted,
    Guarded,
    HasClients,
    Measured,
    Service,
    SettingsT,
    StopRequest,
    Traced,
)
from ariane_servicekit.running.stop_signals import stop_signals
from ariane_servicekit.security.gate.access_guard import AccessGuard
from ariane_servicekit.security.gate.access_mode import AccessMode
from ariane_servicekit.security.identity.identities import Identities
from ariane_servicekit.security.identity.login_servicer import login_rpc_service
from ariane_servicekit.security.tls.service_tls import MEMBER_TLS, ServiceTls
from ariane_wire import Identity, TlsContext, new_event_loop

_log = get_logger(__name__)

SWITCH_INTERVAL_S: Final = 0.0005
"""The longest wait of the loop for a computing thread beside it; with Python's own 5 ms, one call
in a hundred would take that long."""

OPEN_DOOR_WARNING_S: Final = 60.0
"""Seconds between two warnings that the port is open to other machines, or a backend's way is."""


def main(
    settings_class: type[SettingsT],
    compose: Compose[SettingsT],
    argv: Sequence[str],
    environ: Mapping[str, str],
) -> int:
    """Read the settings, run the service, return the exit status: a service's ``__main__``."""
    names = secret_names(settings_class)
    # Before they are read: a start that is refused may be tried again and again.
    hide(
        flags=[flag_of(name) for name in names],
        variables=[environment_name(settings_class, name) for name in names],
    )
    try:
        settings = load_settings(settings_class, argv, environ)
    except SettingsError as error:
        return _refuse(settings_class.service_name, error)
    hide(values=settings.secrets())
    return run(settings, compose)


def run(settings: SettingsT, compose: Compose[SettingsT]) -> int:
    """Run a service as this process until it is asked to stop; return the exit status."""
    configure_logs(
        settings.service_name, log_format=settings.log_format, log_level=settings.log_level
    )
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        with asyncio.Runner(loop_factory=partial(new_event_loop, settings.event_loop)) as runner:
            return runner.run(_live(settings, compose))
    except StartRefused as error:
        return _refuse(settings.service_name, error)
    except StopIncomplete as error:
        _log.error("service_stopped_incomplete", cause=str(error))
        return ExitStatus.FAULT
    except Exception:  # noqa: BLE001 - the last resort of the process
        _log.exception("service_failed")
        return ExitStatus.FAULT


@asynccontextmanager
async def serving(
    settings: SettingsT, compose: Compose[SettingsT], machine: Machine | None = None
) -> AsyncIterator[Address]:
    """Run a service inside this process for the length of a block: tests, in-process brokers.

    Takes no signals, configures no logs and writes no ready line. Yields the address.

    Args:
        settings: Its settings.
        compose: Its parts list.
        machine: What it runs on; None for this machine.

    Raises:
        StartRefused: It could not start.
    """
    stop = StopRequest()
    ready: asyncio.Future[Address] = asyncio.get_running_loop().create_future()
    living = asyncio.create_task(
        live(settings, compose, stop, ready.set_result, machine or Machine())
    )
    try:
        await asyncio.wait((ready, living), return_when=asyncio.FIRST_COMPLETED)
        if living.done():
            await living
        yield ready.result()
    finally:
        stop.request("the block ended")
        await living


async def _live(settings: SettingsT, compose: Compose[SettingsT]) -> int:
    stop = StopRequest()
    with stop_signals(stop):
        try:
            machine = Machine()
            await live(settings, compose, stop, partial(_announce, settings, machine), machine)
        finally:
            if settings.ready_file is not None:
                settings.ready_file.unlink(missing_ok=True)
    return stop.exit_status


async def live(
    settings: SettingsT,
    compose: Compose[SettingsT],
    stop: StopRequest,
    announce: Callable[[Address], None],
    machine: Machine,
) -> None:
    """Run the service, and again as long as it asks to be composed anew.

    Args:
        settings: Its settings.
        compose: Its parts list.
        stop: Asks it to stop.
        announce: Called once, with its address, when it serves.
        machine: What it runs on.

    Raises:
        StartRefused: It could not start.
    """
    notified = False

    def ready(address: Address) -> None:
        nonlocal notified
        if not notified:
            announce(address)
        notified = True

    while True:
        tls = ServiceTls(settings) if settings.has_tls else None
        if tls is not None:
            tls.check_is_of(settings.service_name, settings.member_name)
        MEMBER_TLS.set(tls)
        life = _Life(settings, compose(settings, stop), stop, machine, tls)
        await life.live(ready)
        if not stop.take_anew():
            return
        # On the port of the first run.
        settings = settings.model_copy(update={"listen": life.address})


class _Life:
    """The order of steps for one service."""

    def __init__(
        self,
        settings: ServiceSettings,
        service: Service,
        stop: StopRequest,
        machine: Machine,
        tls: ServiceTls | None,
    ) -> None:
        self._settings = settings
        self._service = service
        self._stop = stop
        self.address = settings.listen
        self._tls = tls
        self._warning = Loop(
            "open-ways-warning",
            self._warn_of_open_ways,
            interval_s=OPEN_DOOR_WARNING_S,
            clock=machine.clock,
        )
        self._admission = Admission(
            concurrent_calls_max=settings.concurrent_calls_max,
            open_while_draining=service.open_while_draining,
        )
        self._access = AccessGuard(settings, machine)
        self._identities = Identities(settings, machine, tls, self._access.gate.key_of)
        self._access.gate.proved_until_ms = self._identities.proved_until_ms
        if isinstance(service, Guarded):
            service.guarded_by(self._access.gate)
        if isinstance(service, HasClients):
            self._access.gate.client_caller = service.client_caller
        live_settings = LiveSettings(
            settings,
            {
                "concurrent_calls_max": self._admission.change_call_count_max,
                "access": self._access.gate.change_mode,
            },
        )
        self._process = ProcessServicer(
            settings.service_name,
            live_settings,
            machine,
            lambda: self._admission.phase,
            name=(settings.member_cluster, settings.member_name),
            certificate_end=None if tls is None else tls.ends,
        )
        rpc_services = (
            *service.rpc_services,
            process_rpc_service(self._process),
            self._access.rpc_service,
            login_rpc_service(self._identities.logins),
        )
        self._health = HealthServicer(
            (rpc.descriptor.full_name for rpc in rpc_services),
            service.health_conditions() if isinstance(service, Conditioned) else {},
        )
        exports = self._exports = Exports(settings)
        self._telemetry = Telemetry(settings.service_name, exports.readers, exports.processors)
        self._call_metrics = CallMetrics(is_read=bool(exports.readers))
        self._measures: Measures | None = None
        self._server = build_server(
            settings,
            rpc_services,
            health=self._health,
            admission=self._admission,
            translator=ErrorTranslator(service.error_rules),
            metrics=self._call_metrics,
            machine=machine,
            gate=self._access.gate,
            identify=self._identities.identify,
        )

    def _is_stranger(self, identity: Identity) -> bool:
        """Whether a connection ends for another where there are too many.

        Of a closed process that is one that has proved nothing.
        """
        is_closed = self._access.gate.mode is AccessMode.CLOSED
        return is_closed and self._identities.is_stranger(identity)

    async def live(self, announce: Callable[[Address], None]) -> None:
        settings = self._settings
        self._exports.open(self._tls)
        if self._exports.readers:
            self._measures = Measures(self._telemetry.meter("ariane"))
            self._measures.add(self._call_metrics.histogram)
            self._exports.serve(self._measures)
        service = self._service
        front = service.front_context if isinstance(service, Fronted) else None
        address = self.address = bind(
            self._server,
            settings.listen,
            self._tls,
            insecure=settings.insecure,
            front=cast("Callable[[], TlsContext]", front) if front and front() else None,
        )
        self._process.listens_on(str(address))
        self._access.gate.connections.is_stranger = self._is_stranger
        await self._server.start()
        if self._open_door or self._plain_backends:
            self._warning.start(at_once=True)
        self._identities.start(self._server)
        self._access.gate.watch(self._identities.ask_again)
        refused = False
        try:
            await self._access.start()
            await self._until_stop(self._come_up(address, announce))
            await self._stop.wait()
            _log.info("service_stopping", reason=self._stop.reason)
            await self._go_down()
        except StartRefused:
            refused = True
            raise
        finally:
            # Also after a failed start: then no calls are in work that need a grace period.
            self._health.close()
            await self._server.stop(None)
            await self._warning.stop()
            await self._identities.stop()
            await self._access.stop()
            await self._stop_service(refused=refused)
            await asyncio.to_thread(self._telemetry.close)
            self._exports.close()
        _log.info("service_stopped", exit_status=int(self._stop.exit_status))

    async def _come_up(self, address: Address, announce: Callable[[Address], None]) -> None:
        await self._service.recover(address)
        measures = self._measures
        if measures is not None:
            if isinstance(self._service, Measured):
                self._service.measure(measures)
            TransportMeasures(self._server, asyncio.get_running_loop().time).make(measures)
            measure_quotas(measures, self._access.gate.quotas)
            if self._tls is not None:
                measure_certificate(measures, self._tls.ends, partial(datetime.now, UTC))
        if self._telemetry.tracer is not None and isinstance(self._service, Traced):
            self._service.trace(self._telemetry.tracer)
        self._admission.phase = Phase.SERVING
        await self._service.serve_started(address)
        self._health.set_serving(True)
        if self._exports.address is not None:
            _log.info("metrics_served", address=str(self._exports.address))
        announce(address)

    async def _go_down(self) -> None:
        self._health.set_serving(False)
        self._admission.phase = Phase.DRAINING
        try:
            async with asyncio.timeout(self._settings.drain_s_max):
                await self._service.drain()
        except TimeoutError:
            _log.warning("drain_cut_short", drain_s_max=self._settings.drain_s_max)
        except Exception:  # noqa: BLE001 - after any error the server stops in order
            _log.exception("drain_failed")
            self._stop.exit_status = ExitStatus.FAULT
        self._health.close()
        self._access.close()
        await self._server.stop(self._settings.grace_s)

    async def _stop_service(self, *, refused: bool) -> None:
        try:
            await self._service.stop()
        except StopIncomplete as error:
            if not refused:
                raise
            # The operator needs the cause of the refusal, which this error would replace.
            _log.warning("refused_start_stopped_incomplete", cause=str(error))

    @property
    def _open_door(self) -> str:
        """The address that other machines reach without credentials; empty for none."""
        is_open = self._settings.insecure and not self.address.is_loopback
        return str(self.address) if is_open else ""

    @property
    def _plain_backends(self) -> list[str]:
        """The settings of backends that plain text is allowed for."""
        return list(self._settings.plain_backends) if self._settings.insecure_backends else []

    async def _warn_of_open_ways(self) -> None:
        if self._open_door:
            _log.warning("listening_without_credentials", address=self._open_door)
        if self._plain_backends:
            _log.warning("backends_without_tls", settings=self._plain_backends)

    async def _until_stop(self, step: Coroutine[Any, Any, None]) -> None:
        """Run a step of the start; a stop request cancels it."""
        task = asyncio.create_task(step)
        waiter = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait((task, waiter), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiter.cancel()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def ready_line(service_name: str, address: Address, process_id: int) -> str:
    """Return the line that announces readiness, for the process's parent."""
    ready = {"event": "ready", "service": service_name, "address": str(address), "pid": process_id}
    return json.dumps(ready) + "\n"


def _announce(settings: ServiceSettings, machine: Machine, address: Address) -> None:
    # Objects of the start stay alive: freeze them, so that the garbage collector does not scan them
    # each time, which would delay all calls by some 30 ms.
    gc.collect()
    gc.freeze()
    _log.info("service_ready", address=str(address), settings=settings.shown())
    line = ready_line(settings.service_name, address, machine.process_id)
    if settings.ready_file is not None:
        _write_ready_file(settings.ready_file, line)
    # The pipe's reader may be gone; that is no reason to stop.
    with suppress(BrokenPipeError):
        sys.stdout.write(line)
        sys.stdout.flush()


def _write_ready_file(path: Path, line: str) -> None:
    written = path.with_name(path.name + ".tmp")
    written.write_text(line, encoding="utf-8")
    written.replace(path)


def _refuse(service_name: str, error: Exception) -> int:
    sys.stderr.write(f"ariane-{service_name}: {error}\n")
    return ExitStatus.REFUSED
