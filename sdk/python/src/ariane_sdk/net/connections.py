"""Connections to services: one channel for each address, made when first needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast
from weakref import WeakValueDictionary

from grpc import StatusCode

from ariane.broker.v1.client_service_pb2_grpc import ClientServiceStub
from ariane.broker.v1.group_service_pb2_grpc import GroupServiceStub
from ariane.broker.v1.offset_service_pb2_grpc import OffsetServiceStub
from ariane.broker.v1.pull_service_pb2_grpc import PullServiceStub
from ariane.broker.v1.query_service_pb2_grpc import QueryServiceStub
from ariane.broker.v1.receive_service_pb2 import (
    DESCRIPTOR as RECEIVE,
)
from ariane.broker.v1.receive_service_pb2 import (
    SettleRecordsRequest,
    SettleRecordsResponse,
)
from ariane.broker.v1.receive_service_pb2_grpc import ReceiveServiceStub
from ariane.broker.v1.retry_service_pb2_grpc import RetryServiceStub
from ariane.broker.v1.send_service_pb2 import (
    DESCRIPTOR as SEND,
)
from ariane.broker.v1.send_service_pb2 import (
    AppendRecordsResponse,
)
from ariane.broker.v1.send_service_pb2_grpc import SendServiceStub
from ariane.broker.v1.sink_service_pb2_grpc import SinkServiceStub
from ariane.broker.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane.broker.v1.transaction_service_pb2 import (
    DESCRIPTOR as TRANSACTION,
)
from ariane.broker.v1.transaction_service_pb2 import (
    UpdateTransactionsResponse,
)
from ariane.broker.v1.transaction_service_pb2_grpc import TransactionServiceStub
from ariane.namesrv.v1.route_service_pb2_grpc import RouteServiceStub
from ariane_sdk.errors import ClientNotRunning, IllegalArgument
from ariane_sdk.net.answers import Call
from ariane_sdk.net.ended_channels import EndedChannels, add_statistics
from ariane_sdk.net.greeting import Greeting
from ariane_sdk.net.login import Login
from ariane_sdk.runtime.fork import PROCESS, ForkGuard
from ariane_sdk.runtime.tasks import start_task
from ariane_sdk.security import PLAIN, Access, Expected, ServerName, is_loopback, server_name
from ariane_wire import (
    CallFailed,
    Certificate,
    Channel,
    ChannelOptions,
    MetadataChannel,
    Statistics,
    insecure_channel,
    secure_channel,
)

if TYPE_CHECKING:
    from ariane.broker.v1.client_service_pb2_grpc import ClientServiceAsyncStub
    from ariane.broker.v1.group_service_pb2_grpc import GroupServiceAsyncStub
    from ariane.broker.v1.offset_service_pb2_grpc import OffsetServiceAsyncStub
    from ariane.broker.v1.pull_service_pb2_grpc import PullServiceAsyncStub
    from ariane.broker.v1.query_service_pb2_grpc import QueryServiceAsyncStub
    from ariane.broker.v1.receive_service_pb2_grpc import ReceiveServiceAsyncStub
    from ariane.broker.v1.retry_service_pb2_grpc import RetryServiceAsyncStub
    from ariane.broker.v1.send_service_pb2_grpc import SendServiceAsyncStub
    from ariane.broker.v1.sink_service_pb2_grpc import SinkServiceAsyncStub
    from ariane.broker.v1.topic_service_pb2_grpc import TopicServiceAsyncStub
    from ariane.broker.v1.transaction_service_pb2_grpc import TransactionServiceAsyncStub
    from ariane.filter.v1.filter_service_pb2_grpc import FilterServiceAsyncStub
    from ariane.namesrv.v1.route_service_pb2_grpc import RouteServiceAsyncStub

MESSAGE_BYTES_MAX: Final = 64 << 20
"""Bytes that one answer may have: far above what a broker sends, which bounds itself."""

CHANNEL_OPTIONS: Final = ChannelOptions(
    receive_octets_max=MESSAGE_BYTES_MAX,
    send_octets_max=MESSAGE_BYTES_MAX,
    # Notices a dead peer although no packet comes back. Services permit 10 s (ping_interval_min_s).
    keepalive_time_s=30.0,
    keepalive_timeout_s=10.0,
    # A broker that restarts is back in a second or two, and calls fail until it is connected again:
    # the default back-off grows to two minutes. Trying in vain costs the broker nothing.
    backoff_first_s=0.1,
    backoff_max_s=0.5,
    connect_timeout_s=1.0,
)


_Encode: TypeAlias = Callable[[Any], bytes]
_Decode: TypeAlias = Callable[[bytes], Any]

_APPEND_RECORDS: Final = f"/{SEND.services_by_name['SendService'].full_name}/AppendRecords"
_UPDATE_TRANSACTIONS: Final = (
    f"/{TRANSACTION.services_by_name['TransactionService'].full_name}/UpdateTransactions"
)
_RECEIVE_SERVICE: Final = RECEIVE.services_by_name["ReceiveService"].full_name
_RECEIVE_RECORDS: Final = f"/{_RECEIVE_SERVICE}/ReceiveRecords"
_SETTLE_RECORDS: Final = f"/{_RECEIVE_SERVICE}/SettleRecords"
_CODECS: Final[Mapping[str, tuple[_Encode | None, _Decode | None]]] = {
    _APPEND_RECORDS: (None, AppendRecordsResponse.FromString),
    _UPDATE_TRANSACTIONS: (None, UpdateTransactionsResponse.FromString),
    _RECEIVE_RECORDS: (None, None),
    _SETTLE_RECORDS: (SettleRecordsRequest.SerializeToString, SettleRecordsResponse.FromString),
}
"""The methods that have no stub: this client encodes their requests or answers itself, or calls
them for each message."""

ACTING_KEY: Final = "x-ariane-acting-for"
"""Metadata key: the user for whom a member of the cluster makes a call."""

_ANYBODY: Final = Expected()
_NAME_SERVER: Final = Expected(("namesrv",))

_Stub = TypeVar("_Stub")


def _acting(acting_for: Callable[[], str]) -> Sequence[tuple[str, str]]:
    """Metadata that names the user for whom a process of the cluster makes a call."""
    user = acting_for()
    return ((ACTING_KEY, user),) if user else ()


class Connections:
    """The channels of one client; they live on one event loop."""

    __slots__ = (
        "__weakref__",
        "_access",
        "_born",
        "_chance",
        "_channels",
        "_closed",
        "_expected",
        "_fork_guard",
        "_login",
        "_methods",
        "_options",
        "_refused",
        "_shown",
        "_stubs",
    )

    def __init__(self, chance: Random, access: Access = PLAIN, user_agent: str = "") -> None:
        """Start without channels.

        Args:
            chance: Spreads attempts to connect.
            access: How connections are made.
            user_agent: What the client says of itself.
        """
        self._options = replace(CHANNEL_OPTIONS, user_agent=user_agent)
        self._chance = chance
        self._access = access
        self._login: Login | None = None
        if access.credentials is not None:
            self._login = Login(access.credentials, chance)
        self._expected: dict[str, Expected] = {}
        self._shown: dict[str, ServerName] = {}
        self._refused: set[str] = set()
        """Addresses where another process was than the expected one."""
        self._channels: dict[str, Channel] = {}
        self._stubs: dict[tuple[Callable[[Channel], Any], str], Any] = {}
        self._methods: dict[tuple[str, str], Callable[..., Any]] = {}
        self._closed = False
        self._born = PROCESS.generation
        self._fork_guard = ForkGuard()
        _OF_PROCESS[id(self)] = self

    def check(self) -> None:
        """Check that the connections belong to this process.

        Raises:
            ClientForked: A parent process made them.
        """
        self._fork_guard.check()

    def channel(self, address: str) -> Channel:
        """The channel to an address, "host:port".

        Raises:
            ClientNotRunning: The connections were closed.
            ClientForked: A parent process made them.
        """
        self._fork_guard.check()
        channel = self._channels.get(address)
        if channel is None:
            if self._closed:
                raise ClientNotRunning("the client is closed")
            channel = self._channels[address] = self._open(address)
        return channel

    def _open(self, address: str) -> Channel:
        tls, acting_for = self._access.tls, self._access.acting_for
        opening = self._login
        if tls is None:
            if opening is not None and not is_loopback(address):
                raise IllegalArgument(
                    f"credentials are not sent in plain text, and {address} is another machine:"
                    " set tls, or ARIANE_TLS_CA"
                )
            greeting = Greeting(
                lambda: self._expected.get(address, _ANYBODY),
                partial(self._shown.__setitem__, address),
                before=opening,
            )
            return insecure_channel(
                address, options=self._options, chance=self._chance, opening=greeting
            )

        def check(certificate: Certificate) -> None:
            shown = server_name(certificate)
            expected = self._expected.get(address, _ANYBODY)
            try:
                expected.check(shown)
            except ConnectionError as error:
                self._refused.add(address)
                if expected.name:
                    raise
                # Of another kind, which has no such service: as it would say itself in plain text.
                raise CallFailed(StatusCode.UNIMPLEMENTED, details=str(error)) from error
            self._refused.discard(address)
            self._shown[address] = shown

        channel = secure_channel(
            address,
            tls,
            self._options,
            chance=self._chance,
            check_server=check,
            opening=opening,
        )
        if acting_for is None:
            return channel
        # A channel in all that this client asks of it.
        return cast("Channel", MetadataChannel(channel, partial(_acting, acting_for)))

    def expect(self, address: str, expected: Expected) -> None:
        """Accept only a certain process at an address; a connection to another one ends.

        Over TLS it is known by its certificate, for routes may lie; in plain text by what it says,
        for an address may be used by another process later.
        """
        if self._expected.get(address) == expected:
            return
        self._expected[address] = expected
        if address in self._refused:
            # Its channel waits before it tries again, and would report what is true no longer.
            self._refused.remove(address)
            self._forget(address)
            return
        shown = self._shown.get(address)
        if shown is None:
            return
        try:
            if self._access.tls is None:
                expected.check_stated(shown)
            else:
                expected.check(shown)
        except ConnectionError:
            del self._shown[address]
            self._forget(address)

    def _forget(self, address: str) -> None:
        """Close the channel to an address; the next call opens another."""
        channel = self._channels.pop(address, None)
        for stub in [key for key in self._stubs if key[1] == address]:
            del self._stubs[stub]
        for method in [key for key in self._methods if key[0] == address]:
            del self._methods[method]
        if channel is not None:
            _ENDED.add(address, channel.statistics())
            start_task(channel.close(), "close-channel")

    def routes(self, address: str) -> RouteServiceAsyncStub:
        """The route service of a name server."""
        self.expect(address, _NAME_SERVER)
        return self._stub(RouteServiceStub, address)

    def send(self, address: str) -> SendServiceAsyncStub:
        """The send service of a broker."""
        return self._stub(SendServiceStub, address)

    def append_records(
        self, address: str, request: bytes, timeout_s: float
    ) -> Call[AppendRecordsResponse]:
        """Append by one call to a broker; the request is encoded already."""
        call: Call[AppendRecordsResponse] = self._method(address, _APPEND_RECORDS)(
            request, timeout=timeout_s
        )
        return call

    def update_transactions(
        self, address: str, request: bytes, timeout_s: float
    ) -> Call[UpdateTransactionsResponse]:
        """End half messages of a broker; the request is encoded already."""
        method = self._method(address, _UPDATE_TRANSACTIONS)
        call: Call[UpdateTransactionsResponse] = method(request, timeout=timeout_s)
        return call

    def pull(self, address: str) -> PullServiceAsyncStub:
        """The pull service of a broker."""
        return self._stub(PullServiceStub, address)

    def receive_records(self, address: str, request: bytes, timeout_s: float) -> Call[bytes]:
        """Receive records of a broker, by an encoded request; so comes the answer."""
        call: Call[bytes] = self._method(address, _RECEIVE_RECORDS)(request, timeout=timeout_s)
        return call

    def settle_records(
        self, address: str, request: SettleRecordsRequest, timeout_s: float
    ) -> Call[SettleRecordsResponse]:
        """Settle records of a broker."""
        call: Call[SettleRecordsResponse] = self._method(address, _SETTLE_RECORDS)(
            request, timeout=timeout_s
        )
        return call

    def receiving(self, address: str) -> ReceiveServiceAsyncStub:
        """The receive service of a broker."""
        return self._stub(ReceiveServiceStub, address)

    def filters(self, address: str) -> FilterServiceAsyncStub:
        """The filter service of a FilterServer."""
        # Imported here: few consumers upload code.
        from ariane.filter.v1.filter_service_pb2_grpc import (  # noqa: PLC0415 - as above
            FilterServiceStub,
        )

        return self._stub(FilterServiceStub, address)

    def queries(self, address: str) -> QueryServiceAsyncStub:
        """The query service of a broker."""
        return self._stub(QueryServiceStub, address)

    def offsets(self, address: str) -> OffsetServiceAsyncStub:
        """The offset service of a broker."""
        return self._stub(OffsetServiceStub, address)

    def clients(self, address: str) -> ClientServiceAsyncStub:
        """The client service of a broker."""
        return self._stub(ClientServiceStub, address)

    def topics(self, address: str) -> TopicServiceAsyncStub:
        """The topic service of a broker."""
        return self._stub(TopicServiceStub, address)

    def transactions(self, address: str) -> TransactionServiceAsyncStub:
        """The transaction service of a broker."""
        return self._stub(TransactionServiceStub, address)

    def sinks(self, address: str) -> SinkServiceAsyncStub:
        """The sink service of a broker, for exactly-once writes."""
        return self._stub(SinkServiceStub, address)

    def retries(self, address: str) -> RetryServiceAsyncStub:
        """The retry service of a broker."""
        return self._stub(RetryServiceStub, address)

    def groups(self, address: str) -> GroupServiceAsyncStub:
        """The group service of a broker."""
        return self._stub(GroupServiceStub, address)

    def _method(self, address: str, path: str) -> Callable[..., Any]:
        """A method at an address; kept, because making one encodes its head."""
        if self._born != PROCESS.generation:  # Without a call for each send.
            self._fork_guard.check()
        kept = self._methods.get((address, path))
        if kept is None:
            # The stub's type has no requests that are encoded already.
            channel: Any = self.channel(address)
            made: Callable[..., Any] = channel.unary_unary(path, *_CODECS[path])
            self._methods[address, path] = kept = made
        return kept

    def _stub(self, make: Callable[[Channel], _Stub], address: str) -> _Stub:
        """The stub of a service at an address; kept, because making one makes all its methods."""
        channel = self.channel(address)
        stub: _Stub | None = self._stubs.get((make, address))
        if stub is None:
            stub = self._stubs[make, address] = make(channel)
        return stub

    async def close(self) -> None:
        """Close all channels; calls in flight end as cancelled."""
        self._closed = True
        if self._login is not None:
            self._login.close()
        self._stubs.clear()
        self._methods.clear()
        channels = list(self._channels.values())
        for address, channel in self._channels.items():
            _ENDED.add(address, channel.statistics())
        self._channels.clear()
        await asyncio.gather(*(channel.close() for channel in channels))


_OF_PROCESS: Final[WeakValueDictionary[int, Connections]] = WeakValueDictionary()
_ENDED: Final = EndedChannels()


def statistics_by_address() -> dict[str, Statistics]:
    """What all clients of this process do and have done; may be called from any thread."""
    found = _ENDED.by_address()
    for reference in _OF_PROCESS.valuerefs():
        connections = reference()
        if connections is not None:
            for address, channel in tuple(connections._channels.items()):  # noqa: SLF001 - of this module.
                add_statistics(found, address, channel.statistics())
    return found
