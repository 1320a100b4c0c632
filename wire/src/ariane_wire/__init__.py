"""gRPC over HTTP/2 for asyncio, both ends, in Python.

Drop-in for ``grpc.aio``: generated code works unchanged, and status codes, errors, handlers,
metadata and abstract classes are grpcio's.
"""

from ariane_wire.client.channel import Channel
from ariane_wire.errors import BindRefused, CallFailed
from ariane_wire.factories import insecure_channel, secure_channel, server
from ariane_wire.loops import LoopName, new_event_loop
from ariane_wire.options import ChannelOptions, ServerOptions
from ariane_wire.transport.statistics import Statistics

__all__ = [
    "BindRefused",
    "CallFailed",
    "Channel",
    "ChannelOptions",
    "LoopName",
    "ServerOptions",
    "Statistics",
    "insecure_channel",
    "new_event_loop",
    "secure_channel",
    "server",
]
