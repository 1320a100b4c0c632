"""One life for all services, in one order.

::

    settings -> logs -> bind -> NOT_SERVING -> recover -> open -> serve_started -> SERVING -> ready
                                                                                         |
    exit <- stop <- server stops (grace) <- drain <- NOT_SERVING, closed to new calls <- signal

* A taken port, a locked store, an illegal setting: one line on standard error, exit status 2.
* SIGTERM and SIGINT ask for the way out; the second of them ends the process at once.
* Until ``recover`` is done calls are refused with SERVICE_STARTING, from the signal on with
  SERVICE_DRAINING. Health answers all the time.
* ``stop`` runs last and always, also when ``recover`` failed half way.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from typing import NoReturn, Protocol, TypeVar

from ariane_servicekit.addresses import Address
from ariane_servicekit.admission import Admission, Phase
from ariane_servicekit.error_status import ErrorRules, ErrorTranslator
from ariane_servicekit.errors import SettingsError, StartRefused
from ariane_servicekit.health import HealthServicer
from ariane_servicekit.logs import configure_logs, get_logger
from ariane_servicekit.server import RpcService, bind, build_server
from ariane_servicekit.settings import ServiceSettings
from ariane_servicekit.settings_sources import load_settings
from ariane_servicekit.telemetry import CallMetrics, build_meter_provider

_log = get_logger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class ExitStatus(IntEnum):
    """How a service process ends."""

    STOPPED = 0
    """Asked to stop, and stopped in order."""
    FAULT = 1
    """Something failed that should not; the log has the trace."""
    REFUSED = 2
    """Did not start: setting, port, lock. One line on standard error says why."""


class StopRequest:
    """Asks the process to stop in order: the signals' way, and that of a service that must end.

    A broker whose flush failed calls ``request("store poisoned", exit_status=ExitStatus.FAULT)``.
    """

    def __init__(self) -> None:
        self._requested = asyncio.Event()
        self.reason = ""
        self.exit_status = ExitStatus.STOPPED

    def request(self, reason: str, *, exit_status: ExitStatus = ExitStatus.STOPPED) -> None:
        """Ask once; later requests change nothing. To be called on the loop."""
        if not self._requested.is_set():
            self.reason, self.exit_status = reason, exit_status
            self._requested.set()

    @property
    def requested(self) -> bool:
        """Whether somebody asked."""
        return self._requested.is_set()

    async def wait(self) -> None:
        """Wait until somebody asks."""
        await self._requested.wait()


class Service(Protocol):
    """A process as its parts list composes it. Built on the loop, by ``main``'s ``compose``."""

    @property
    def rpc_services(self) -> Sequence[RpcService]:
        """The services it answers for."""
        ...

    @property
    def error_rules(self) -> ErrorRules:
        """How its engine's exceptions become public errors."""
        ...

    @property
    def open_while_draining(self) -> Collection[str]:
        """Methods that are still answered while it drains: ``/package.Service/Method``."""
        ...

    async def recover(self) -> None:
        """Load state. Cancelled when a stop is asked for meanwhile.

        Raises:
            StartRefused: It cannot start, and one line tells the operator why.
        """
        ...

    async def serve_started(self, address: Address) -> None:
        """Start loops and say hello to others; calls arrive already, on this address.

        Waits for others only for a moment: a service serves although a name server is away.
        """
        ...

    async def drain(self) -> None:
        """Say goodbye and let go what is held. Bounded by ``drain_s_max``."""
        ...

    async def stop(self) -> None:
        """Stop loops, flush, close; no call is in work any more. What keeps others alive last."""
        ...


SettingsT = TypeVar("SettingsT", bound=ServiceSettings)

Compose = Callable[[SettingsT, StopRequest], Service]
"""A service's parts list: builds all parts from settings; does not touch disk or network."""


def main(
    settings_class: type[SettingsT],
    compose: Compose[SettingsT],
    argv: Sequence[str],
    environ: Mapping[str, str],
) -> int:
    """Read the settings, run the service, return the exit status: a service's ``__main__``."""
    try:
        settings = load_settings(settings_class, argv, environ)
    except SettingsError as error:
        return _refuse(settings_class.service_name, error)
    return run(settings, compose)


def run(settings: SettingsT, compose: Compose[SettingsT]) -> int:
    """Run a service until it is asked to stop; return the exit status."""
    configure_logs(
        settings.service_name, log_format=settings.log_format, log_level=settings.log_level
    )
    try:
        return asyncio.run(_live(settings, compose))
    except StartRefused as error:
        return _refuse(settings.service_name, error)
    except Exception:  # noqa: BLE001 - the last resort of the process
        _log.exception("service_failed")
        return ExitStatus.FAULT


async def _live(settings: SettingsT, compose: Compose[SettingsT]) -> int:
    stop = StopRequest()
    _listen_to_signals(stop)
    service = compose(settings, stop)
    names = [rpc.descriptor.full_name for rpc in service.rpc_services]
    life = _Life(
        settings,
        service,
        stop,
        HealthServicer(names),
        Admission(
            concurrent_calls_max=settings.concurrent_calls_max,
            open_while_draining=service.open_while_draining,
        ),
    )
    await life.live()
    return stop.exit_status


class _Life:
    """The order of steps for one service."""

    def __init__(
        self,
        settings: ServiceSettings,
        service: Service,
        stop: StopRequest,
        health: HealthServicer,
        admission: Admission,
    ) -> None:
        self._settings = settings
        self._service = service
        self._stop = stop
        self._health = health
        self._admission = admission
        self._meters = build_meter_provider(settings.service_name)
        self._server = build_server(
            settings,
            service.rpc_services,
            health=health,
            admission=admission,
            translator=ErrorTranslator(service.error_rules),
            metrics=CallMetrics(self._meters.get_meter("ariane_servicekit")),
        )

    async def live(self) -> None:
        address = bind(self._server, self._settings.listen)
        await self._server.start()
        try:
            await self._until_stop(self._come_up(address))
            await self._stop.wait()
            _log.info("service_stopping", reason=self._stop.reason)
            await self._go_down()
        finally:
            # Also the way out of a failed start: nobody waits for grace then.
            self._health.close()
            await self._server.stop(None)
            await self._service.stop()
            self._meters.shutdown()
            self._remove_ready_file()
        _log.info("service_stopped", exit_status=int(self._stop.exit_status))

    async def _come_up(self, address: Address) -> None:
        await self._service.recover()
        self._admission.phase = Phase.SERVING
        await self._service.serve_started(address)
        self._health.set_serving(True)
        self._announce(address)

    async def _go_down(self) -> None:
        self._health.set_serving(False)
        self._admission.phase = Phase.DRAINING
        try:
            async with asyncio.timeout(self._settings.drain_s_max):
                await self._service.drain()
        except TimeoutError:
            _log.warning("drain_cut_short", drain_s_max=self._settings.drain_s_max)
        except Exception:  # noqa: BLE001 - whatever it is, the server stops in order
            _log.exception("drain_failed")
            self._stop.exit_status = ExitStatus.FAULT
        self._health.close()
        await self._server.stop(self._settings.grace_s)

    async def _until_stop(self, step: Awaitable[None]) -> None:
        """Run a step of the start; a stop that is asked for meanwhile cancels it."""
        task = asyncio.ensure_future(step)
        waiter = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait((task, waiter), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiter.cancel()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def _announce(self, address: Address) -> None:
        line = ready_line(self._settings.service_name, address)
        _log.info("service_ready", address=str(address), settings=self._settings.shown())
        if self._settings.ready_file is not None:
            _write_ready_file(self._settings.ready_file, line)
        # Nobody may be listening any more; that is no reason to stop.
        with suppress(BrokenPipeError):
            sys.stdout.write(line)
            sys.stdout.flush()

    def _remove_ready_file(self) -> None:
        if self._settings.ready_file is not None:
            self._settings.ready_file.unlink(missing_ok=True)


def ready_line(service_name: str, address: Address) -> str:
    """Return the line that says a service is ready, for those who started the process."""
    ready = {"event": "ready", "service": service_name, "address": str(address), "pid": os.getpid()}
    return json.dumps(ready) + "\n"


def _write_ready_file(path: Path, line: str) -> None:
    written = path.with_name(path.name + ".tmp")
    written.write_text(line, encoding="utf-8")
    written.replace(path)


def _listen_to_signals(stop: StopRequest) -> None:
    loop = asyncio.get_running_loop()

    def received(number: signal.Signals) -> None:
        if stop.requested:
            _exit_at_once(number)
        stop.request(number.name)

    for number in _SIGNALS:
        loop.add_signal_handler(number, received, number)


def _exit_at_once(number: signal.Signals) -> NoReturn:
    sys.stderr.flush()
    os._exit(128 + number)


def _refuse(service_name: str, error: Exception) -> int:
    sys.stderr.write(f"ariane-{service_name}: {error}\n")
    return ExitStatus.REFUSED
