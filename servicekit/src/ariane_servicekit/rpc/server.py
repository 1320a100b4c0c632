"""The gRPC server of every service: one place for limits, keepalive, stages and built-in services.

Calls that gRPC itself refuses (a message or metadata beyond the limit, too many pings) never reach
the stages. They end with a bare RESOURCE_EXHAUSTED or a closed connection, without ErrorInfo.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.descriptor import ServiceDescriptor
from grpc import aio
from grpc_reflection.v1alpha import reflection

from ariane_servicekit.addresses import Address
from ariane_servicekit.configuration.settings import ServiceSettings
from ariane_servicekit.errors import StartRefused
from ariane_servicekit.observability.telemetry import CallMetrics
from ariane_servicekit.rpc.access import access_rules
from ariane_servicekit.rpc.admission import Admission, connection_share
from ariane_servicekit.rpc.error_status import ErrorTranslator
from ariane_servicekit.rpc.health import SERVICE_NAME as HEALTH_NAME
from ariane_servicekit.rpc.health import HealthServicer
from ariane_servicekit.rpc.interceptor import CallInterceptor
from ariane_servicekit.rpc.stages import ErrorStage, MetricsStage

_PING_STRIKES_MAX: Final = 2

_STREAMS_BESIDE: Final = 100

_PENDING_CALLS_MAX: Final = 4096


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


def build_server(
    settings: ServiceSettings,
    services: Sequence[RpcService],
    *,
    health: HealthServicer,
    admission: Admission,
    translator: ErrorTranslator,
    metrics: CallMetrics,
) -> aio.Server:
    """Return a server with all stages and services, neither bound nor started.

    Raises:
        AccessRuleMissing: A method of a service states no access rule.
    """
    access_rules(service.descriptor for service in services)
    stages = (
        MetricsStage(metrics),
        ErrorStage(translator),
        # Authentication and access rules come here.
        admission,
    )
    decoders = {
        f"/{service.descriptor.full_name}/{method}": decode
        for service in services
        for method, decode in service.decoders.items()
    }
    interceptor = CallInterceptor(stages, decoders)
    server = aio.server(interceptors=[interceptor], options=server_options(settings))
    accepting: Any = _OneQueue(server)
    for service in services:
        service.add(service.servicer, accepting)
    health.add_to(accepting)
    if settings.reflection_on:
        names = [service.descriptor.full_name for service in services]
        names += [HEALTH_NAME, reflection.SERVICE_NAME]
        # Added by itself: gRPC checks the server's class.
        reflection.enable_server_reflection(names, server)
    return server


class _OneQueue:
    """Lets a server accept the calls of all methods in one queue.

    Generated code adds each method to gRPC twice: to the table of its service, and as a registered
    method. gRPC awaits the next call of each registered method in a task of its own, and all these
    tasks together, anew for each call: with 70 methods that is a tenth of the cost of a small call.
    """

    def __init__(self, server: aio.Server) -> None:
        self.add_generic_rpc_handlers = server.add_generic_rpc_handlers

    def add_registered_method_handlers(self, service_name: str, handlers: object) -> None:
        """Add nothing: the table of the service has them."""


def server_options(settings: ServiceSettings) -> list[tuple[str, int]]:
    """Return gRPC's options for a server of ours."""
    return [
        # gRPC shares a port between processes by default: a second broker would start silently
        # and take half of the connections.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", settings.receive_bytes_max),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", settings.metadata_bytes_max),
        ("grpc.absolute_max_metadata_size", 2 * settings.metadata_bytes_max),
        ("grpc.keepalive_time_ms", int(settings.keepalive_interval_s * 1000)),
        ("grpc.keepalive_timeout_ms", int(settings.keepalive_wait_s * 1000)),
        # Further ones wait in the client. A little more than the calls of a connection, so that
        # refused calls get an error.
        (
            "grpc.max_concurrent_streams",
            connection_share(settings.concurrent_calls_max) + _STREAMS_BESIDE,
        ),
        # gRPC would count a call until Python has released it, and refuse streams of clients that
        # keep to the number: with "Stream removed", an error without a reason. Streams that are
        # reset before they are accepted count below.
        ("grpc.http.overload_protection", 0),
        # gRPC cancels calls at random while more than the first number wait to be accepted, and all
        # beyond the second; by default 1,000 and 3,000, which a connection or two may reach.
        # Admission refuses with an error that tells the reason.
        ("grpc.server.max_pending_requests", _PENDING_CALLS_MAX),
        ("grpc.server.max_pending_requests_hard_limit", 2 * _PENDING_CALLS_MAX),
        ("grpc.keepalive_permit_without_calls", 1),
        (
            "grpc.http2.min_ping_interval_without_data_ms",
            int(settings.ping_interval_min_s * 1000),
        ),
        ("grpc.http2.max_ping_strikes", _PING_STRIKES_MAX),
    ]


def bind(server: aio.Server, address: Address) -> Address:
    """Bind the port and return the address with the bound port.

    Raises:
        StartRefused: The port is in use or the host is not of this machine.
    """
    _try_port(address)
    try:
        port = server.add_insecure_port(str(address))
    except RuntimeError:
        msg = f"cannot listen on {address}: see the line of gRPC before this one"
        raise StartRefused(msg) from None
    return address.with_port(port)


def _try_port(address: Address) -> None:
    """Bind the port with a socket of our own, and close it.

    gRPC reports why it cannot bind only in a line with C++ file names on stderr.
    """
    try:
        for family, kind, protocol, _, target in socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(target)
    except OSError as error:
        msg = f"cannot listen on {address}: {error.strerror or error}"
        raise StartRefused(msg) from None
