"""A channel: calls to one target, over one connection that is made anew when it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from random import Random
from types import TracebackType
from typing import Any, Final, Self, cast

import grpc
from grpc import ChannelConnectivity, StatusCode, aio

from ariane_wire.client import callables
from ariane_wire.client.call import ClientCall
from ariane_wire.client.connection import ClientConnection
from ariane_wire.client.method import Method
from ariane_wire.client.opening import REFUSALS, CheckServer, Opening, OpeningConnection
from ariane_wire.client.reconnecting import Backoff, Reconnecting
from ariane_wire.errors import CallFailed
from ariane_wire.options import ChannelOptions
from ariane_wire.protocol.assembly import MemoryLedger
from ariane_wire.protocol.compression import ACCEPTED, NAMES
from ariane_wire.protocol.headers.header_blocks import BlockMemory
from ariane_wire.protocol.headers.header_fields import SCHEME_HTTP, SCHEME_HTTPS, authority, literal
from ariane_wire.protocol.headers.heads import parse_response
from ariane_wire.transport.certificates import CertificateEnd, certificate_of
from ariane_wire.transport.deadlines import Deadlines
from ariane_wire.transport.dialing import dial
from ariane_wire.transport.keepalive import Keepalive
from ariane_wire.transport.link import Link
from ariane_wire.transport.statistics import Statistics, Totals
from ariane_wire.transport.targets import parse_target
from ariane_wire.transport.tls import Credentials, speaks_http2

USER_AGENT: Final = "ariane-wire/0.1.0"
CLOSED: Final = "Channel closed!"


class Channel(aio.Channel):
    """A channel of ``insecure_channel`` or ``secure_channel``.

    It belongs to the loop that runs its first call.
    """

    def __init__(
        self,
        target: str,
        options: ChannelOptions,
        *,
        tls: Credentials | None = None,
        check_server: CheckServer | None = None,
        opening: Opening | None = None,
        compression: grpc.Compression | None = None,
        interceptors: Sequence[aio.ClientInterceptor] | None = None,
        chance: Random | None = None,
    ) -> None:
        self.target = target
        self.options = options
        self.compression = NAMES[compression]
        self._interceptors = callables.sorted_interceptors(interceptors)
        self._target = parse_target(target)
        self._tls = tls
        self._check_server = check_server
        self._opening = opening
        self._fields = b"".join(
            (
                SCHEME_HTTP if tls is None else SCHEME_HTTPS,
                authority(options.authority or self._target.authority),
                literal(b"te", b"trailers"),
                literal(b"content-type", b"application/grpc"),
                literal(b"user-agent", f"{options.user_agent} {USER_AGENT}".strip().encode()),
                literal(b"grpc-accept-encoding", ACCEPTED.encode()),
            )
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._deadlines: Deadlines | None = None
        self._totals = Totals()
        self._ledger = MemoryLedger(options.memory_octets_max)
        self._responses = BlockMemory(parse_response)
        self._links: dict[ClientConnection, Link] = {}
        self._ready: ClientConnection | None = None
        self._is_closing = False
        self._waiting: dict[ClientCall, None] = {}
        self._watchers: list[asyncio.Future[None]] = []
        backoff = Backoff(options.backoff_first_s, options.backoff_max_s, chance or Random())  # noqa: S311 - spreads attempts; keeps no secret.
        self._connecting = Reconnecting(
            self._connect, backoff, self._state_changed, options.connect_timeout_s
        )

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop of the channel: the one that runs when it is first needed."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
            self._deadlines = Deadlines(loop)
        return loop

    # Calls.

    def start(self, call: ClientCall, timeout_s: float | None) -> None:
        """Begin a call: at once if there is a connection with room, else when there is one.

        Raises:
            grpc.aio.UsageError: The channel is closed.
        """
        if self._is_closing:
            raise aio.UsageError(CLOSED)
        if timeout_s is not None and not self.set_deadline(call, timeout_s):
            return
        connection = self._ready
        if connection is None or self._waiting or not connection.has_room():
            self._wait(call)
        elif call.metadata_octets:
            self._give(call, connection)
        else:
            call.begin(connection)

    def set_deadline(self, call: ClientCall, timeout_s: float | None) -> bool:
        """Let a call end in time; return whether there is any."""
        if timeout_s is None:
            return True
        call.deadline_s = (self._loop or self.loop).time() + timeout_s
        if timeout_s <= 0:
            call.never_processed = True
            call.finish(StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
            return False
        assert self._deadlines is not None  # noqa: S101 - `loop` has made it.
        call._expiry = self._deadlines.add(call.deadline_s, call)  # noqa: SLF001 - its own half.
        return True

    def _wait(self, call: ClientCall) -> None:
        state = self._connecting.state
        if state is ChannelConnectivity.TRANSIENT_FAILURE and not call.wait_for_ready:
            self._refuse(call)
            return
        self._waiting[call] = None
        if self._ready is None:
            self._connecting.start(self.loop)

    def _refuse(self, call: ClientCall) -> None:
        call.never_processed = True
        refusal = self._connecting.last_failure
        if isinstance(refusal, CallFailed) and refusal.code() in REFUSALS:
            trailing = tuple(refusal.trailing_metadata() or ())
            call.finish(refusal.code(), refusal.details() or "", trailing)
            return
        details = f"failed to connect to {self.target}: {self._connecting.last_error}"
        call.finish(StatusCode.UNAVAILABLE, details)

    @staticmethod
    def _give(call: ClientCall, connection: ClientConnection) -> None:
        """Begin a call, unless the server accepts no metadata of that size."""
        limit = connection.peer.header_octets_max
        if call.metadata_octets <= limit:
            call.begin(connection)
            return
        call.size_octets, call.limit_octets = call.metadata_octets, limit
        details = f"metadata size exceeds the peer's limit ({call.metadata_octets} vs. {limit})"
        call.never_processed = True
        call.finish(StatusCode.RESOURCE_EXHAUSTED, details)

    def forget(self, call: ClientCall) -> None:
        """A call that waited is over."""
        self._waiting.pop(call, None)

    def abandon(self, call: ClientCall) -> None:
        """Cancel a call that nobody holds any more; from whichever thread."""
        loop = self._loop
        if loop is None or loop.is_closed():
            return
        loop.call_soon_threadsafe(call.cancel)

    def _begin_waiting(self) -> None:
        """Begin calls that wait, as far as there is room."""
        connection = self._ready
        while self._waiting and connection is not None and connection.has_room():
            call = next(iter(self._waiting))
            del self._waiting[call]
            self._give(call, connection)
            connection = self._ready

    # The connection.

    async def _connect(self) -> None:
        """One attempt; done when the server's settings have come."""
        loop = self.loop
        stands: asyncio.Future[None] = loop.create_future()

        def make() -> Link:
            connection = ClientConnection(self.options, self._responses, self._ledger)
            return Link(connection, loop, lost=self._lost)

        link = await dial(
            loop,
            self._target,
            make,
            tls=self._tls,
            tls_name=self.options.tls_name,
            attempt_delay_s=self.options.attempt_delay_s,
        )
        connection = link.connection
        assert isinstance(connection, ClientConnection)  # noqa: S101 - `make` has made it.

        def changed(_: ClientConnection) -> None:
            if not stands.done():
                stands.set_result(None)

        connection.on_change = changed
        self._links[connection] = link
        try:
            self._check_peer(link)
            if not connection.settings_seen and not connection.is_over:
                await stands
            _check_stands(connection)
            if self._opening is not None:
                peer = certificate_of(link.transport)
                await self._opening(OpeningConnection(self, connection, peer))
                _check_stands(connection)
        except BaseException:
            if link.transport is not None:
                link.transport.abort()
            raise
        connection.on_change = self._changed
        self._ready = connection
        self._keepalive(link)
        loop.call_soon(self._begin_waiting)

    def _keepalive(self, link: Link) -> None:
        keepalive = Keepalive(link, self.options)
        link.on_lost.append(keepalive.close)
        certificate = certificate_of(link.transport)
        if certificate is not None and certificate.ends_at:
            connection = cast("ClientConnection", link.connection)
            end = CertificateEnd(self.loop, certificate, connection.retire)
            link.on_lost.append(end.close)

    def _check_peer(self, link: Link) -> None:
        """Check that the server is the one that is meant, and has agreed on HTTP/2."""
        if link.transport is None:
            return
        if not speaks_http2(link.transport):
            raise ConnectionError("the server has not agreed on HTTP/2 in the TLS handshake")
        certificate = certificate_of(link.transport)
        if certificate is not None and self._check_server is not None:
            self._check_server(certificate)

    def _changed(self, connection: ClientConnection) -> None:
        """A connection has more room, or takes no more calls."""
        if connection is self._ready:
            if connection.takes_calls:
                self._begin_waiting()
                return
            self._ready = None
            self._connecting.lost()
            if self._waiting:
                self._connecting.start(self.loop)

    def _lost(self, link: Link, text: str) -> None:
        del text
        connection = link.connection
        assert isinstance(connection, ClientConnection)  # noqa: S101 - links of ours only.
        if self._links.pop(connection, None) is not None:
            self._totals.add(connection)
        connection.on_change(connection)

    def statistics(self) -> Statistics:
        """What the channel does, and has done."""
        return self._totals.with_open(self._links, self._ledger.octets)

    def socket_handles(self) -> list[int]:
        """File descriptors of the connections: for a process that was forked."""
        sockets = [
            link.transport.get_extra_info("socket")
            for link in self._links.values()
            if link.transport is not None
        ]
        return [each.fileno() for each in sockets if each is not None]

    # The state.

    def _state_changed(self, state: ChannelConnectivity) -> None:
        if state is ChannelConnectivity.TRANSIENT_FAILURE:
            for call in [each for each in self._waiting if not each.wait_for_ready]:
                del self._waiting[call]
                self._refuse(call)
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            if not watcher.done():
                watcher.set_result(None)

    async def changed(self) -> None:
        """Wait until the state has changed."""
        watcher: asyncio.Future[None] = self.loop.create_future()
        self._watchers.append(watcher)
        await watcher

    def get_state(self, try_to_connect: bool = False) -> ChannelConnectivity:
        """The state of the channel."""
        if try_to_connect and self._connecting.state is ChannelConnectivity.IDLE:
            self._connecting.start(self.loop)
        return self._connecting.state

    async def wait_for_state_change(self, last_observed_state: ChannelConnectivity) -> None:
        """Wait until the state is another."""
        while self._connecting.state is last_observed_state:
            await self.changed()

    async def channel_ready(self) -> None:
        """Wait until the channel is connected."""
        state = self.get_state(try_to_connect=True)
        while state is not ChannelConnectivity.READY:
            if state is ChannelConnectivity.SHUTDOWN:
                raise aio.UsageError(CLOSED)
            await self.wait_for_state_change(state)
            state = self.get_state(try_to_connect=True)

    async def close(self, grace: float | None = None) -> None:
        """Close; calls that are not over after the grace are cancelled.

        To cancel this, or to close again without a grace, ends the grace.

        Args:
            grace: In seconds; None for none.
        """
        if self._connecting.state is ChannelConnectivity.SHUTDOWN:
            return
        self._is_closing = True
        calls = [*self._waiting]
        for connection in self._links:
            calls += connection.streams.values()  # type: ignore[arg-type]  # They are calls of ours.
        try:
            if grace and calls:
                await asyncio.wait(
                    [asyncio.ensure_future(call.until_done()) for call in calls], timeout=grace
                )
        finally:
            await self._end(calls)

    async def _end(self, calls: Iterable[ClientCall]) -> None:
        """Cancel what is not over, and disconnect."""
        self._ready = None
        for call in calls:
            if call.code_ is None:
                call.is_cancelled = True
                call.give_up(StatusCode.CANCELLED, CLOSED)
        try:
            await self._connecting.close()
        finally:
            leaving = [link.farewell() for link in self._links.values()]
            for connection in list(self._links):
                connection.end("the channel is closed")
            if self._deadlines is not None:
                self._deadlines.close()
            for gone in leaving:
                if gone is not None:
                    await asyncio.shield(gone)

    async def __aenter__(self) -> Self:
        """The channel; it is closed at the end of the block."""
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        """Close."""
        await self.close()

    # Methods.

    def method(
        self,
        kind: int,
        method: str,
        serializer: Callable[[Any], bytes] | None,
        deserializer: Callable[[bytes], Any] | None,
    ) -> Method:
        """A method of the channel; its kind is its place among the four."""
        interceptors = self._interceptors[kind]
        return Method(method, serializer, deserializer, self._fields, interceptors)

    def unary_unary(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes] | None = None,
        response_deserializer: Callable[[bytes], Any] | None = None,
        _registered_method: bool | None = False,
    ) -> callables.UnaryUnary:
        """A method with one request and one response."""
        made = self.method(0, method, request_serializer, response_deserializer)
        return callables.UnaryUnary(self, made)

    def unary_stream(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes] | None = None,
        response_deserializer: Callable[[bytes], Any] | None = None,
        _registered_method: bool | None = False,
    ) -> callables.UnaryStream:
        """A method with one request and many responses."""
        made = self.method(1, method, request_serializer, response_deserializer)
        return callables.UnaryStream(self, made)

    def stream_unary(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes] | None = None,
        response_deserializer: Callable[[bytes], Any] | None = None,
        _registered_method: bool | None = False,
    ) -> callables.StreamUnary:
        """A method with many requests and one response."""
        made = self.method(2, method, request_serializer, response_deserializer)
        return callables.StreamUnary(self, made)

    def stream_stream(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes] | None = None,
        response_deserializer: Callable[[bytes], Any] | None = None,
        _registered_method: bool | None = False,
    ) -> callables.StreamStream:
        """A method with many requests and many responses."""
        made = self.method(3, method, request_serializer, response_deserializer)
        return callables.StreamStream(self, made)


def _check_stands(connection: ClientConnection) -> None:
    """Check that the server has greeted, and not said goodbye."""
    if not connection.takes_calls:
        raise ConnectionResetError(connection.ended or "the server goes away")
