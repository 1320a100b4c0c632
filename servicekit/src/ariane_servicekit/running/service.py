"""The interface between a service and the kit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import IntEnum
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from ariane_servicekit.addresses import Address
from ariane_servicekit.configuration.settings import ServiceSettings
from ariane_servicekit.observability.measures import Measures
from ariane_servicekit.observability.tracing import WorkTracer
from ariane_servicekit.rpc.error_status import ErrorRules
from ariane_servicekit.rpc.server import RpcService
from ariane_servicekit.security.caller import Caller
from ariane_servicekit.security.gate.gate import Gate
from ariane_wire import TlsContext


class ExitStatus(IntEnum):
    """How a service process ends."""

    STOPPED = 0
    """Asked to stop, and stopped in order."""
    FAULT = 1
    """Something failed that should not; the log has the trace."""
    REFUSED = 2
    """The service did not start: setting, port, lock. One line on stderr tells why."""


class StopRequest:
    """A request to stop the process in order, by a signal or by the service itself.

    A broker whose flush failed calls ``request("store poisoned", exit_status=ExitStatus.FAULT)``.
    A service may also ask to be composed anew in the same process, on the same address: a broker
    that becomes primary, or a replica.
    """

    def __init__(self) -> None:
        self._requested = asyncio.Event()
        self._anew = False
        self.reason = ""
        self.exit_status = ExitStatus.STOPPED

    def request(
        self, reason: str, *, exit_status: ExitStatus = ExitStatus.STOPPED, anew: bool = False
    ) -> None:
        """Request a stop; the first reason counts. To be called on the loop.

        Args:
            reason: The reason, for the log.
            exit_status: The exit status of the process.
            anew: Whether the service is to be composed again, unless a stop is requested.
        """
        if not self._requested.is_set():
            self.reason = reason
            self._anew = anew
            self._requested.set()
        self._anew &= anew
        self.exit_status = max(self.exit_status, exit_status)

    def take_anew(self) -> bool:
        """Return whether the service is to be composed again, and clear the request then."""
        anew, self._anew = self._anew, False
        if anew:
            self._requested.clear()
        return anew

    @property
    def requested(self) -> bool:
        """Whether a stop was requested."""
        return self._requested.is_set()

    async def wait(self) -> None:
        """Wait for the request."""
        await self._requested.wait()


@runtime_checkable
class Measured(Protocol):
    """A service with metrics of its own, beside those of its calls."""

    def measure(self, measures: Measures, /) -> None:
        """Make its instruments. Called once, after recovery, and only if metrics are on."""
        ...


@runtime_checkable
class Traced(Protocol):
    """A service that makes spans as children of its callers' spans."""

    def trace(self, tracer: WorkTracer, /) -> None:
        """Make spans from now on. Called once, after recovery, and only if they are exported."""
        ...


@runtime_checkable
class Conditioned(Protocol):
    """A service whose health has further names than the process and its gRPC services."""

    def health_conditions(self) -> Mapping[str, Callable[[], bool]]:
        """Whether each holds now, by name. None holds while the process does not serve."""
        ...


@runtime_checkable
class Fronted(Protocol):
    """A service whose callers are no processes of the cluster, and see a certificate of its own."""

    def front_context(self) -> TlsContext | None:
        """The context of the next connection that comes; None for that of the process, if any.

        The port takes plain text besides. Asked once before the port is bound, to know whether
        there is one, and then for each connection.
        """
        ...


@runtime_checkable
class Guarded(Protocol):
    """A service that asks the gate of its process beside calls."""

    def guarded_by(self, gate: Gate, /) -> None:
        """Ask this gate. Called once, before anything else."""
        ...


@runtime_checkable
class HasClients(Protocol):
    """A service to which clients attach."""

    def client_caller(self, client_id: str, /) -> Caller | None:
        """Return who attached the client with an id; None without one."""
        ...


class Service(Protocol):
    """The interface of a service's parts list."""

    @property
    def rpc_services(self) -> Sequence[RpcService]:
        """Its gRPC services."""
        ...

    @property
    def error_rules(self) -> ErrorRules:
        """The public errors for its engine's exceptions."""
        ...

    @property
    def open_while_draining(self) -> Collection[str]:
        """Methods that are answered while it drains: ``/package.Service/Method``."""
        ...

    async def recover(self, address: Address, /) -> None:
        """Load state. Cancelled by a stop request.

        Args:
            address: Where it listens; calls are refused until this is done.

        Raises:
            StartRefused: It cannot start, and one line tells the operator why.
        """
        ...

    async def serve_started(self, address: Address, /) -> None:
        """Start loops and register with name servers; calls arrive already, at this address.

        Waits for others only for a moment: a service serves although a name server is away.
        """
        ...

    async def drain(self) -> None:
        """Unregister, and end calls that are held. Limited by ``drain_s_max``."""
        ...

    async def stop(self) -> None:
        """Stop loops, flush, close; no call is in work. Parts that others need are closed last.

        Runs always and last, also after a ``recover`` that failed or was cancelled half way.
        """
        ...


SettingsT = TypeVar("SettingsT", bound=ServiceSettings)

Compose: TypeAlias = Callable[[SettingsT, StopRequest], Service]
"""Builds a service's parts from settings, on the loop, without any input or output yet."""
