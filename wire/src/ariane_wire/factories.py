"""How servers and channels are made: with the arguments of ``grpc.aio``.

What only servers need is loaded when the first one is made: most programs are clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

import grpc
from grpc import aio

from ariane_wire.client.channel import Channel
from ariane_wire.client.opening import CheckServer, Opening
from ariane_wire.options import (
    ChannelOptions,
    OptionPairs,
    ServerOptions,
    channel_options,
    server_options,
)
from ariane_wire.transport.tls import Credentials, checked

if TYPE_CHECKING:
    from ariane_wire.server.server import Server
    from ariane_wire.server.serving import Around
    from ariane_wire.transport.ports import Ports


def server(
    *,
    handlers: Sequence[grpc.GenericRpcHandler] = (),
    interceptors: Sequence[aio.ServerInterceptor] = (),
    options: ServerOptions | OptionPairs | None = None,
    maximum_concurrent_rpcs: int | None = None,
    compression: grpc.Compression | None = None,
    ports: Ports | None = None,
    chance: Random | None = None,
    around: Around | None = None,
) -> Server:
    """Make a server; see ``grpc.aio.server``.

    Plain functions among the handlers are called on the loop, and must not block.

    Args:
        handlers: Tables of methods; generated code adds more.
        interceptors: The outermost one first.
        options: Ours, or pairs of grpcio's.
        maximum_concurrent_rpcs: Calls at a time, of all connections, three quarters of them of one
            host; further ones are refused with RESOURCE_EXHAUSTED. None for no limit.
        compression: Of responses, where the client takes it.
        ports: Where it listens; None for the ports of this machine.
        chance: For the ends of connections that have reached their age.
        around: Is given each method and its handler once, and returns the handler to call: unlike
            an interceptor, it is nothing that each call passes through. For methods that are not of
            a service it is asked at each call; it is given None if there is no handler.

    Raises:
        ValueError: An option or interceptor is none.
    """
    from ariane_wire.server.server import Server  # noqa: PLC0415 - see above.
    from ariane_wire.transport.listening import MachinePorts  # noqa: PLC0415 - see above.

    return Server(
        handlers,
        interceptors,
        server_options(options),
        maximum_concurrent_rpcs=maximum_concurrent_rpcs,
        compression=compression,
        ports=ports or MachinePorts(),
        chance=chance or Random(),  # noqa: S311 - spreads the ends of connections.
        around=around,
    )


def insecure_channel(
    target: str,
    options: ChannelOptions | OptionPairs | None = None,
    compression: grpc.Compression | None = None,
    interceptors: Sequence[aio.ClientInterceptor] | None = None,
    *,
    chance: Random | None = None,
    opening: Opening | None = None,
) -> Channel:
    """Make a channel in plain text; see ``grpc.aio.insecure_channel``.

    Args:
        target: "host:port", "dns:///host:port", "ipv4:…", "ipv6:…" or "unix:path".
        options: Ours, or pairs of grpcio's.
        compression: Of requests.
        interceptors: The outermost one first.
        chance: Spreads the attempts to connect.
        opening: Makes calls on each new connection before all others.

    Raises:
        ValueError: The target, an option or an interceptor is none.
    """
    return Channel(
        target,
        channel_options(options),
        opening=opening,
        compression=compression,
        interceptors=interceptors,
        chance=chance,
    )


def secure_channel(
    target: str,
    credentials: Credentials,
    options: ChannelOptions | OptionPairs | None = None,
    compression: grpc.Compression | None = None,
    interceptors: Sequence[aio.ClientInterceptor] | None = None,
    *,
    chance: Random | None = None,
    check_server: CheckServer | None = None,
    opening: Opening | None = None,
) -> Channel:
    """Make a channel over TLS; see ``grpc.aio.secure_channel``.

    Args:
        target: As for ``insecure_channel``.
        credentials: A context for clients, or what gives the one of the next connection. HTTP/2 is
            added to it as the protocol to agree on.
        options: Ours, or pairs of grpcio's.
        compression: Of requests.
        interceptors: The outermost one first.
        chance: Spreads the attempts to connect.
        check_server: Looks at the certificate of the server, beside the check of its names.
        opening: Makes calls on each new connection before all others.

    Raises:
        TypeError: The credentials are grpcio's, which tell nobody what they hold.
        ValueError: The target, an option or an interceptor is none.
    """
    return Channel(
        target,
        channel_options(options),
        tls=checked(credentials, "the authorities to trust"),
        check_server=check_server,
        opening=opening,
        compression=compression,
        interceptors=interceptors,
        chance=chance,
    )
