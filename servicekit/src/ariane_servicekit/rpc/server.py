"""The gRPC server of every service: one place for limits, keepalive and built-in services.

Calls that the transport refuses (a message or metadata beyond the limit, too many pings) never
reach the interceptor. They end with a bare RESOURCE_EXHAUSTED or a closed connection, without
ErrorInfo.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.descriptor import ServiceDescriptor
from grpc import aio
from grpc_reflection.v1alpha import reflection

import ariane_wire
from ariane_servicekit.addresses import Address
from ariane_servicekit.configuration.settings import ServiceSettings
from ariane_servicekit.errors import StartRefused
from ariane_servicekit.machine import Machine
from ariane_servicekit.observability.telemetry import CallMetrics
from ariane_servicekit.rpc.admission import Admission, connection_share
from ariane_servicekit.rpc.error_status import ErrorTranslator
from ariane_servicekit.rpc.health import SERVICE_NAME as HEALTH_NAME
from ariane_servicekit.rpc.health import HealthServicer
from ariane_servicekit.rpc.interceptor import CallInterceptor
from ariane_servicekit.rpc.refusals import Refusals
from ariane_servicekit.security.caller import Identify, anonymous
from ariane_servicekit.security.gate.door import Door, GuardedDoor
from ariane_servicekit.security.gate.gate import Gate
from ariane_servicekit.security.gate.long_calls import LongCalls
from ariane_servicekit.security.rules.field_names import Names
from ariane_servicekit.security.rules.method_rules import method_rules
from ariane_servicekit.security.tls.service_tls import ServiceTls
from ariane_wire import BindRefused, ServerOptions, TlsContext

CALLS_BEGUN_MAX: Final = 65_536
"""Calls that have begun, also those whose request is never whole, of which admission knows nothing:
each costs 1 KiB. One host may have three quarters of them."""

_STREAMS_BESIDE: Final = 100


@dataclass(frozen=True, slots=True)
class RpcService:
    """One service of the contract with its servicer.

    ``RpcService(ROUTE.services_by_name["RouteService"], add_RouteServiceServicer_to_server, it)``
    """

    descriptor: ServiceDescriptor
    add: Callable[[Any, Any], None]
    """The generated ``add_...Servicer_to_server``."""
    servicer: object
    decoders: Mapping[str, Callable[[bytes], Any]] = field(default_factory=dict)
    """Decoders of requests by method name, where generated code does not decode them."""
    foreign: bool = False
    """Whether it is of another system's protocol, whose methods state no access rules: its servicer
    checks rights itself."""
    extractors: Mapping[str, Mapping[str, Names]] = field(default_factory=dict)
    """For such methods: what finds the names in decoded requests, by the path in the rule."""

    asked: frozenset[str] = frozenset()
    """Methods whose servicer asks for the rights on what handles touch; its ``asked_methods``."""

    def __post_init__(self) -> None:
        """Ask the servicer, unless it is one that stands in front of it."""
        asked = getattr(self.servicer, "asked_methods", None)
        if isinstance(asked, frozenset) and not self.asked:
            object.__setattr__(self, "asked", asked)

    def method(self, name: str) -> str:
        """Return a method's name in calls."""
        return f"/{self.descriptor.full_name}/{name}"


def build_server(
    settings: ServiceSettings,
    services: Sequence[RpcService],
    *,
    health: HealthServicer,
    admission: Admission,
    translator: ErrorTranslator,
    metrics: CallMetrics,
    machine: Machine,
    gate: Gate,
    identify: Identify = anonymous,
) -> aio.Server:
    """Return a server with all services, neither bound nor started.

    Raises:
        AccessRuleMissing: A method of a service states no access rule, or none that can be judged.
    """
    decoders = {
        service.method(method): decode
        for service in services
        for method, decode in service.decoders.items()
    }
    interceptor = CallInterceptor(
        admission,
        Refusals(translator),
        metrics,
        machine.new_id,
        decoders,
        identify=identify,
        doors=_doors(services, gate),
        known_as=f"{settings.member_cluster}/{settings.member_name}" * bool(settings.member_name),
    )
    server = ariane_wire.server(
        options=server_options(settings),
        maximum_concurrent_rpcs=CALLS_BEGUN_MAX,
        ports=machine.ports,
        around=interceptor.around,
    )
    server.watch(gate.connections)
    for service in services:
        service.add(service.servicer, server)
    health.add_to(server)
    if settings.reflection_on:
        names = [service.descriptor.full_name for service in services]
        names += [HEALTH_NAME, reflection.SERVICE_NAME]
        reflection.enable_server_reflection(names, server)
    return server


def _doors(services: Sequence[RpcService], gate: Gate) -> dict[str, Door]:
    """The doors of all methods.

    Raises:
        AccessRuleMissing: A method states no access rule, or none that can be judged.
    """
    rules = method_rules(
        (service.descriptor for service in services if not service.foreign),
        asked={service.method(name) for service in services for name in service.asked},
        extractors={
            service.method(name): names
            for service in services
            for name, names in service.extractors.items()
        },
    )
    long_calls = LongCalls(gate)
    return {method: GuardedDoor(gate, rule, long_calls) for method, rule in rules.items()}


def server_options(settings: ServiceSettings) -> ServerOptions:
    """Return the options of a server of ours."""
    return ServerOptions(
        receive_octets_max=settings.receive_bytes_max,
        metadata_octets_max=settings.metadata_bytes_max,
        keepalive_time_s=settings.keepalive_interval_s,
        keepalive_timeout_s=settings.keepalive_wait_s,
        keepalive_without_calls=True,
        # Further ones wait in the client. A little more than the calls of a connection, so that
        # refused calls get an error.
        streams_max=connection_share(settings.concurrent_calls_max) + _STREAMS_BESIDE,
        ping_interval_min_s=settings.ping_interval_min_s,
        proxy_networks=settings.proxy_networks,
    )


def bind(
    server: Any,
    address: Address,
    tls: ServiceTls | None,
    *,
    insecure: bool,
    front: Callable[[], TlsContext] | None = None,
) -> Address:
    """Bind the port and return the address with the bound port.

    Args:
        server: Of ``build_server``.
        address: Where.
        tls: What the process shows; None for plain text.
        insecure: Whether plain text is taken beside TLS.
        front: What it shows instead, beside plain text; None for ``tls``.

    Raises:
        StartRefused: The port is in use or the host is not of this machine.
    """
    try:
        if front is not None:
            port = server.add_mixed_port(str(address), front)
        elif tls is None:
            port = server.add_insecure_port(str(address))
        elif insecure:
            port = server.add_mixed_port(str(address), tls.server_context)
        else:
            port = server.add_secure_port(str(address), tls.server_context)
    except BindRefused as refused:
        raise StartRefused(str(refused)) from None
    return address.with_port(port)
