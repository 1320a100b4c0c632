"""gRPC over HTTP/2 for asyncio, both ends, in Python.

Drop-in for ``grpc.aio``: generated code works unchanged, and status codes, errors, handlers,
metadata and abstract classes are grpcio's.
"""

import ariane_wire.server  # noqa: F401 - loaded later, it would hide the function of that name.
from ariane_wire.client.channel import Channel
from ariane_wire.client.metadata_channel import MetadataChannel
from ariane_wire.client.opening import CheckServer, OpenConnection, Opening
from ariane_wire.discovery import AddressSources, is_source
from ariane_wire.errors import BindRefused, CallFailed
from ariane_wire.factories import insecure_channel, secure_channel, server
from ariane_wire.loops import LoopName, new_event_loop
from ariane_wire.options import ChannelOptions, ServerOptions
from ariane_wire.server.identity import Identity
from ariane_wire.transport.certificates import Certificate
from ariane_wire.transport.statistics import Statistics
from ariane_wire.transport.tls import (
    ClientTlsFiles,
    Credentials,
    TlsContext,
    client_tls,
    server_tls,
)

__all__ = [
    "AddressSources",
    "BindRefused",
    "CallFailed",
    "Certificate",
    "Channel",
    "ChannelOptions",
    "CheckServer",
    "ClientTlsFiles",
    "Credentials",
    "Identity",
    "LoopName",
    "MetadataChannel",
    "OpenConnection",
    "Opening",
    "ServerOptions",
    "Statistics",
    "TlsContext",
    "client_tls",
    "insecure_channel",
    "is_source",
    "new_event_loop",
    "secure_channel",
    "server",
    "server_tls",
]
