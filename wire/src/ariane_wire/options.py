"""Settings of servers and channels: each with its unit, its default, and why it is that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Network, IPv6Network
from typing import Any, Final, TypeAlias, TypeVar

MIB: Final = 1 << 20

OptionPairs: TypeAlias = Iterable[tuple[str, Any]]
"""Options as grpcio takes them: names and values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """What servers and channels have in common."""

    receive_octets_max: int = 4 * MIB
    """Longest message that is taken, decompressed; -1 for no limit. 4 MiB, as every gRPC has it."""
    send_octets_max: int = -1
    """Longest message that is sent; -1, the default, for no limit."""
    metadata_octets_max: int = 16 << 10
    """Most metadata of a call or an answer, counted as RFC 9113 counts header lists. 16 KiB: far
    above what calls carry, and little to decode."""
    frame_octets_max: int = MIB
    """Longest payload of a frame that we take: the peer sends large messages in as few. 1 MiB."""
    stream_window_octets: int = 2 * MIB
    """What a stream may have sent us that nobody has read. 2 MiB hold a full batch of a producer:
    it goes on its way at once, and the producer makes the next one while the broker reads. With a
    smaller window both would work in turn. 2 MiB carry 40 MB/s at a round trip of 50 ms."""
    connection_window_octets: int = 16 * MIB
    """What may be under way on a connection: has been sent to us, and has not come yet. 16 MiB."""
    memory_octets_max: int = 512 * MIB
    """What all connections of the server or channel hold for messages that are not whole or not
    read, of a server's those of one host three quarters of it. 512 MiB; a call beyond it is
    refused, with RESOURCE_EXHAUSTED."""
    keepalive_time_s: float | None = None
    """A connection that was silent for so long is asked whether it lives; None, the default, for
    never."""
    keepalive_timeout_s: float = 20.0
    """It is given up when it has not answered for so long. 20 s, as grpcio."""
    keepalive_without_calls: bool = False
    """Whether a connection without calls is asked, too."""
    trace_frames: bool = False
    """Whether every frame is logged, by the logger ``ariane_wire.frames`` at level DEBUG. Off: it
    costs more than the frames."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions(ConnectionOptions):
    """Settings of a server."""

    streams_max: int = 1000
    """Calls of one connection at a time; further ones wait in the client. 1,000: what one client
    can have in work; a server for others says how many calls it takes in all by
    ``maximum_concurrent_rpcs``."""
    connections_max: int = 10_000
    """Connections at a time; one beyond them is closed at once, and so is one of a host that has
    three quarters of them: others find a place. 10,000."""
    proxy_networks: tuple[IPv4Network | IPv6Network, ...] = ()
    """Connections from these networks begin with the header of the PROXY protocol, version 2, and
    their peer is the client that it names; one without is dropped. None by default."""
    age_max_s: float | None = None
    """A connection as old as this is drained; None, the default, for never."""
    age_grace_s: float | None = None
    """How long its calls may take then; None for as long as they like."""
    idle_max_s: float | None = None
    """A connection is drained after so long without a call; None, the default: never."""
    ping_interval_min_s: float = 300.0
    """A client that pings more often without sending calls has two pings free and is then cut off.
    300 s, as every gRPC has it."""
    ping_strikes_max: int = 2
    handshake_s: float = 10.0
    """How long a client has for TLS, and then until its connection stands. 10 s."""
    certificate_grace_s: float = 30.0
    """How long calls may take when the certificate of their client has ended. 30 s: held pulls and
    receives have come back by then."""
    drain_ping_s: float = 5.0
    """How long a draining connection waits for the answer to its ping before it takes no more
    calls. 5 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelOptions(ConnectionOptions):
    """Settings of a channel."""

    backoff_first_s: float = 1.0
    """After a first attempt to connect failed, the next one begins so long after that one began. 1
    s, as every gRPC has it; each further wait is 1.6 times as long, and all are moved by a fifth at
    random."""
    backoff_max_s: float = 120.0
    """The longest such wait. 120 s."""
    connect_timeout_s: float = 20.0
    """How long one attempt may take, handshakes with it. 20 s."""
    attempt_delay_s: float = 0.25
    """When several addresses are raced, the next one starts so long after the one before. 0.25 s,
    as RFC 8305 recommends."""
    authority: str = ""
    """What ``:authority`` says; empty, the default, for the target's host and port."""
    tls_name: str = ""
    """The name that the certificate of the server must have; empty, the default, for the target's
    host."""
    user_agent: str = ""
    """Said before our own name; empty by default."""


def _size(value: Any) -> int:
    return int(value)


def _seconds(value: Any) -> float:
    return int(value) / 1000


def _seconds_or_never(value: Any) -> float | None:
    return None if int(value) >= (1 << 31) - 1 else int(value) / 1000


Convert: TypeAlias = Callable[[Any], Any]

_BOTH: Final[Mapping[str, tuple[str, Convert]]] = {
    "grpc.max_receive_message_length": ("receive_octets_max", _size),
    "grpc.max_send_message_length": ("send_octets_max", _size),
    "grpc.max_metadata_size": ("metadata_octets_max", _size),
    "grpc.http2.max_frame_size": ("frame_octets_max", _size),
    "grpc.keepalive_time_ms": ("keepalive_time_s", _seconds_or_never),
    "grpc.keepalive_timeout_ms": ("keepalive_timeout_s", _seconds),
    "grpc.keepalive_permit_without_calls": ("keepalive_without_calls", bool),
}

_SERVER: Final[Mapping[str, tuple[str, Convert]]] = {
    **_BOTH,
    "grpc.max_concurrent_streams": ("streams_max", _size),
    "grpc.max_connection_age_ms": ("age_max_s", _seconds_or_never),
    "grpc.max_connection_age_grace_ms": ("age_grace_s", _seconds_or_never),
    "grpc.max_connection_idle_ms": ("idle_max_s", _seconds_or_never),
    "grpc.http2.min_ping_interval_without_data_ms": ("ping_interval_min_s", _seconds),
    "grpc.http2.max_ping_strikes": ("ping_strikes_max", _size),
}

_CHANNEL: Final[Mapping[str, tuple[str, Convert]]] = {
    **_BOTH,
    "grpc.initial_reconnect_backoff_ms": ("backoff_first_s", _seconds),
    "grpc.min_reconnect_backoff_ms": ("connect_timeout_s", _seconds),
    "grpc.max_reconnect_backoff_ms": ("backoff_max_s", _seconds),
    "grpc.default_authority": ("authority", str),
    "grpc.ssl_target_name_override": ("tls_name", str),
    "grpc.primary_user_agent": ("user_agent", str),
}

_SETTLED: Final[Mapping[str, frozenset[Any]]] = {
    # A port is never shared, a call never repeated behind the caller's back, no proxy is taken from
    # the environment, and every channel has a connection of its own.
    "grpc.so_reuseport": frozenset({0}),
    "grpc.enable_retries": frozenset({0}),
    "grpc.enable_http_proxy": frozenset({0}),
    "grpc.use_local_subchannel_pool": frozenset({1}),
}
"""Options of grpcio that have one value here; asking for that one is harmless."""

_NEEDLESS: Final = frozenset(
    {
        # Limits that grpcio enforces at random, and queues that are not here.
        "grpc.absolute_max_metadata_size",
        "grpc.http.overload_protection",
        "grpc.server.max_pending_requests",
        "grpc.server.max_pending_requests_hard_limit",
    }
)
"""Options of grpcio for what is not here; whatever they ask for is so."""

Options = TypeVar("Options", ServerOptions, ChannelOptions)


def server_options(given: ServerOptions | OptionPairs | None) -> ServerOptions:
    """Options of a server, however they are given.

    Raises:
        ValueError: An option is unknown, or its value is.
    """
    return given if isinstance(given, ServerOptions) else _options(ServerOptions(), _SERVER, given)


def channel_options(given: ChannelOptions | OptionPairs | None) -> ChannelOptions:
    """Options of a channel, however they are given.

    Raises:
        ValueError: An option is unknown, or its value is.
    """
    if isinstance(given, ChannelOptions):
        return given
    return _options(ChannelOptions(), _CHANNEL, given)


def _options(
    defaults: Options, known: Mapping[str, tuple[str, Convert]], given: OptionPairs | None
) -> Options:
    changes: dict[str, Any] = {}
    for name, value in given or ():
        if name in _SETTLED:
            if value not in _SETTLED[name]:
                raise ValueError(f"{name} is always {min(_SETTLED[name])} here, not {value}")
        elif name in _NEEDLESS:
            continue
        elif name in known:
            field, convert = known[name]
            changes[field] = convert(value)
        else:
            raise ValueError(
                f"there is no option {name}; there are {', '.join(sorted((*known, *_SETTLED)))}"
            )
    return replace(defaults, **changes)
