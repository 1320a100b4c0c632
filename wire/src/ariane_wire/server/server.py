"""A server: what it listens on, its connections, its calls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from random import Random
from typing import TYPE_CHECKING, Any, Final, cast

import grpc
from grpc import StatusCode, aio

from ariane_wire.options import ServerOptions
from ariane_wire.protocol.assembly import ConnectionShare, MemoryLedger, MemoryShare
from ariane_wire.protocol.compression import NAMES
from ariane_wire.protocol.headers.header_blocks import BlockMemory
from ariane_wire.protocol.headers.heads import RequestHead, parse_request, request_form
from ariane_wire.protocol.headers.metadata import LIMIT_KEY
from ariane_wire.protocol.streams import NO_LIMIT
from ariane_wire.server.connection import ServerConnection
from ariane_wire.server.context import CallContext
from ariane_wire.server.host_places import SHARE_MIN, HostPlaces
from ariane_wire.server.identity import Identity
from ariane_wire.server.life import ConnectionLife
from ariane_wire.server.prompt import run_prompt
from ariane_wire.server.serving import NOT_FOUND, Around, Handlers, begin
from ariane_wire.server.unproved import Unproved
from ariane_wire.server.watch import ConnectionWatch
from ariane_wire.transport.deadlines import Deadlines
from ariane_wire.transport.link import Link
from ariane_wire.transport.peers import host_of
from ariane_wire.transport.ports import BoundPort, Listening, Ports
from ariane_wire.transport.statistics import Statistics, Totals
from ariane_wire.transport.tls import Credentials, checked, speaks_http2

if TYPE_CHECKING:
    from ariane_wire.server.call import ServerCall

_log: Final = logging.getLogger("ariane_wire.server")
_HOLDING: Final = "the server's certificate"
_CROWDED_PAUSE_S: Final = 0.05
"""Between two looks at what strangers hold."""

_CROWDED_PAUSE_OF_EACH_S: Final = 20e-6
"""And so much more for each connection: however many there are, it looks at so many a second."""

_TOO_MANY: Final = "Concurrent RPC limit exceeded!"

HOST_OCTETS_MIN: Final = 64 << 20
"""Octets that the connections of one host may have held in any case."""


class Server(aio.Server):
    """A server of ``ariane_wire.server``; it belongs to the loop that starts it."""

    def __init__(
        self,
        handlers: Sequence[grpc.GenericRpcHandler],
        interceptors: Sequence[aio.ServerInterceptor],
        options: ServerOptions,
        *,
        maximum_concurrent_rpcs: int | None,
        compression: grpc.Compression | None,
        ports: Ports,
        chance: Random,
        around: Around | None,
    ) -> None:
        for interceptor in interceptors:
            if not isinstance(interceptor, aio.ServerInterceptor):
                raise ValueError(f"{interceptor!r} is no ServerInterceptor")  # noqa: TRY004 - as grpcio.
        self.options = options
        self._interceptors = tuple(interceptors)
        self._handlers = Handlers(around)
        self._handlers.add_generic(handlers)
        self._compression = NAMES[compression]
        self._chance = chance
        self._ports = ports
        self._requests = BlockMemory(parse_request, request_form)
        self._ledger = MemoryLedger(options.memory_octets_max, self._note_crowded)
        self._is_crowded = False
        self._bound: list[BoundPort] = []
        self._listeners: list[Listening] = []
        self._lives: dict[ServerConnection, ConnectionLife] = {}
        self._places = HostPlaces(options.connections_max)
        """For connections."""
        self._unproved = Unproved()
        limit = NO_LIMIT if maximum_concurrent_rpcs is None else maximum_concurrent_rpcs
        self._calls_max = limit
        self._host_calls_max = max(SHARE_MIN, limit * 3 // 4)
        self._shares: dict[str, MemoryShare] = {}
        self._totals = Totals()
        self._number = 0
        self._calls: dict[ServerCall, MemoryShare] = {}
        """Those in work, and the share of their host; in order, so that whatever is done to all is
        done in the same order."""
        self._context = copy_context()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._deadlines: Deadlines | None = None
        self._ended: asyncio.Event | None = None
        self._is_stopping = False
        self._watch: ConnectionWatch | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that has started the server.

        Raises:
            grpc.aio.UsageError: It is not started.
        """
        if self._loop is None:
            raise aio.UsageError("the server is not started")
        return self._loop

    # Methods and ports.

    def add_generic_rpc_handlers(
        self, generic_rpc_handlers: Iterable[grpc.GenericRpcHandler]
    ) -> None:
        """Add tables of methods."""
        self._handlers.add_generic(generic_rpc_handlers)

    def add_registered_method_handlers(
        self, service_name: str, method_handlers: Mapping[str, Any]
    ) -> None:
        """Add the methods of a service by name; they go before those of tables."""
        self._handlers.add(service_name, method_handlers)

    def add_insecure_port(self, address: str) -> int:
        """Bind a port for plain text; return its number.

        Raises:
            BindRefused: With the reason.
        """
        return self._bind(address, None, takes_plain_text=True)

    def add_secure_port(self, address: str, server_credentials: Any) -> int:
        """Bind a port for TLS; return its number.

        Args:
            address: As ``add_insecure_port``.
            server_credentials: A ``ssl.SSLContext`` for servers, or what gives the one of the next
                connection.

        Raises:
            BindRefused: With the reason.
            TypeError: The credentials are grpcio's, which tell nobody what they hold.
        """
        return self._bind(address, checked(server_credentials, _HOLDING), takes_plain_text=False)

    def add_mixed_port(self, address: str, server_credentials: Any) -> int:
        """Bind a port that takes plain text and TLS, distinguished by the first octet.

        Raises:
            BindRefused: With the reason.
            TypeError: As ``add_secure_port``.
        """
        return self._bind(address, checked(server_credentials, _HOLDING), takes_plain_text=True)

    def _bind(self, address: str, tls: Credentials | None, *, takes_plain_text: bool) -> int:
        bound = self._ports.bind(
            address,
            tls,
            takes_plain_text=takes_plain_text,
            proxies=self.options.proxy_networks,
        )
        self._bound.append(bound)
        return bound.port

    # Life.

    async def start(self) -> None:
        """Begin to listen.

        Raises:
            grpc.aio.UsageError: It was started before.
        """
        if self._loop is not None:
            raise aio.UsageError("the server was started before")
        loop = asyncio.get_running_loop()
        self.attach(loop)
        for bound in self._bound:
            self._listeners += await bound.listen(loop, self.accept, self.options.handshake_s)

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Become a server of a loop, without listening: ``accept`` takes connections."""
        self._loop = loop
        self._deadlines = Deadlines(loop)
        self._context = copy_context()
        self._ended = asyncio.Event()

    def accept(self, peer: str = "") -> Link:
        """The protocol of one new connection, for a transport of any kind.

        Args:
            peer: The client's address, as ``Identity.peer``; empty for that of the transport.
        """
        loop = self.loop
        connection = ServerConnection(
            self.options, self._requests, self._ledger, self._begin, loop.time
        )
        self._number += 1
        life = ConnectionLife(connection, self.options, self._chance, self._number, peer)
        return Link(connection, loop, made=lambda link: self._made(life, link), lost=self._lost)

    def _made(self, life: ConnectionLife, link: Link) -> None:
        if self._is_stopping or not speaks_http2(link.transport):
            if link.transport is not None:
                link.transport.abort()
            return
        life.begin(link)
        life.connection.peer_name = life.peer
        host = host_of(life.peer)
        if not self._lets_in(life, host):
            life.close()
            if link.transport is not None:
                link.transport.abort()
            return
        self._lives[life.connection] = life
        self._unproved.add(host, life)
        share = life.connection.share = self._share_of(host)
        life.connection.ledger = ConnectionShare(share)

    def _lets_in(self, life: ConnectionLife, host: str) -> bool:
        watch = self._watch
        if watch is not None and not watch.opened(life.peer):
            return False  # Nobody ends for one that is refused.
        self._make_room(host)
        has_place = self._places.enter(host)
        if not has_place and watch is not None:
            watch.closed(life.peer, life.notes)
        return has_place

    def _make_room(self, host: str) -> None:
        """Where there is none, have a stranger's connection end for one of another host."""
        places = self._places
        is_full = places.count >= places.count_max and places.taken_by(host) < places.of_host_max
        if self._watch is None or not is_full:
            return
        life = self._unproved.give_way(host, self._watch.is_stranger)
        if life is not None:
            life.gave_way = True
            places.leave(host_of(life.peer))
            life.abort()

    def _lost(self, link: Link, text: str) -> None:
        life = self._lives.pop(cast("ServerConnection", link.connection), None)
        if life is not None:
            if link.connection.fault is not None:
                _log.info("the connection of %s was ended: %s", life.identity.peer, text)
            life.close()
            host = host_of(life.peer)
            self._unproved.discard(host, life)
            if not life.gave_way:
                self._places.leave(host)
            if not self._places.taken_by(host):
                self._shares.pop(host, None)
            if self._watch is not None:
                self._watch.closed(life.peer, life.notes)
            self._totals.add(life.connection)
        if not self._lives and self._is_stopping:
            self._check_ended()

    def _share_of(self, host: str) -> MemoryShare:
        share = self._shares.get(host)
        if share is None:
            octets_max = max(HOST_OCTETS_MIN, self.options.memory_octets_max * 3 // 4)
            share = self._shares[host] = MemoryShare(octets_max, self._ledger)
        return share

    def _note_crowded(self) -> None:
        if self._watch is not None and self._loop is not None and not self._is_crowded:
            self._is_crowded = True
            self._loop.call_soon(self._end_crowding)

    def _end_crowding(self) -> None:
        """End the strangers of the host whose strangers hold most, while all hold too much.

        They may hold an eighth of the bound together: whoever only comes to prove who he is, while
        others fill the memory, is left alone.
        """
        watch, ledger, loop = self._watch, self._ledger, self._loop
        self._is_crowded = ledger.octets > ledger.crowded_octets
        if watch is None or loop is None or not self._is_crowded:
            return
        greediest: list[ConnectionLife] = []
        most = total = 0
        for strangers in self._unproved.holding(watch.is_stranger):
            octets = sum(life.connection.ledger.octets for life in strangers)
            total += octets
            if octets > most:
                most, greediest = octets, strangers
        if total > ledger.octets_max // 8:
            for life in greediest:
                life.abort()
        pause_s = _CROWDED_PAUSE_S + _CROWDED_PAUSE_OF_EACH_S * self._unproved.count
        loop.call_later(pause_s, self._end_crowding)

    async def stop(self, grace: float | None) -> None:
        """Stop: take no more calls, let those in work end, cancel those that have not.

        Args:
            grace: Seconds for calls in work; None for none.
        """
        if self._loop is None:
            for bound in self._bound:
                bound.close()
            return
        assert self._ended is not None  # noqa: S101 - a started server has one.
        self._is_stopping = True
        for listening in self._listeners:
            listening.close()
        lives = list(self._lives.values())
        for life in lives:
            life.drain()
            if not grace:
                life.connection.drain_now()
        if grace and self._lives:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), grace)
        await self._abort_all()
        self._check_ended()
        await self._ended.wait()

    async def _abort_all(self) -> None:
        """Cancel what still runs, and wait for it."""
        for life in list(self._lives.values()):
            life.connection.abort_calls()
            life.connection.end("the server has stopped")
        tasks = [call.task for call in self._calls if call.task is not None]
        current = asyncio.current_task()
        await asyncio.gather(*(t for t in tasks if t is not current), return_exceptions=True)
        if self._deadlines is not None:
            self._deadlines.close()

    def _check_ended(self) -> None:
        if not self._lives and self._ended is not None:
            self._ended.set()

    async def wait_for_termination(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - grpcio's signature.
        """Wait for the end.

        Args:
            timeout: In seconds.

        Returns:
            Whether the time was over first.
        """
        if self._ended is None:
            raise aio.UsageError("the server is not started")
        try:
            await asyncio.wait_for(self._ended.wait(), timeout)
        except TimeoutError:
            return True
        return False

    def watch(self, watch: ConnectionWatch) -> None:
        """Ask a watch which connections may come, and inform it of those that are gone.

        Before ``start``.
        """
        self._watch = watch

    def end_connections(
        self, where: Callable[[Identity], bool], grace_s: float | None = None
    ) -> int:
        """Drain connections: clients begin their next calls on new ones.

        Args:
            where: Whether the connection of a client ends.
            grace_s: How long its calls may take; None for as long as they like.

        Returns:
            How many end.
        """
        ending = [life for life in self._lives.values() if where(life.identity)]
        for life in ending:
            life.end(grace_s)
        return len(ending)

    def ask_again(self, where: Callable[[Identity], bool] | None = None) -> None:
        """Have the watch say anew who is a stranger: what was proved may hold no more.

        Args:
            where: Whether this is to be asked of a client; None for all.
        """
        if where is None:
            self._unproved = Unproved()  # So that the oldest is the first.
        for life in self._lives.values():
            if not life.gave_way and (where is None or where(life.identity)):
                self._unproved.add(host_of(life.peer), life)

    def statistics(self) -> Statistics:
        """What the server does, and has done."""
        return self._totals.with_open(self._lives, self._ledger.octets)

    # Calls.

    def _begin(
        self, connection: ServerConnection, stream_id: int, head: RequestHead
    ) -> CallContext:
        """A call has come."""
        call = CallContext(self, head)
        call.attach(connection, stream_id)
        connection.streams[stream_id] = call
        # An HTTP status other than 200 was answered before.
        if (head.fault or head.content_length is not None) and self._answered_by_head(call, head):
            return call
        share = connection.share
        count = len(self._calls)
        if (
            count >= self._calls_max
            or share.calls >= self._host_calls_max
            or (2 * count >= self._calls_max and self._is_crowding(connection, share))
        ):
            call.refuse(StatusCode.RESOURCE_EXHAUSTED, _TOO_MANY)
            return call
        share.calls += 1
        self._calls[call] = share
        handler = self._handlers.by_method.get(head.method)
        if handler is None:
            try:
                handler = self._handlers.find(head)
            except Exception:  # noqa: BLE001 - whatever a table raises is its call's status.
                _log.exception("a table of methods failed at %s", head.method)
                call.refuse(StatusCode.UNKNOWN, "Error in service handler!")
                return call
        call.handler = handler
        if head.timeout_s is not None and self._deadlines is not None:
            call.deadline_s = connection.clock() + head.timeout_s
            call.expiry = self._deadlines.add(call.deadline_s, call)
        if self._compression != "identity":
            call.compress_by(self._compression)
        if handler is None:
            if not self._interceptors:
                call.refuse(StatusCode.UNIMPLEMENTED, NOT_FOUND)
            else:
                self.run(call)
        elif handler.request_streaming:
            self.run(call)
        return call

    def _is_crowding(self, connection: ServerConnection, share: MemoryShare) -> bool:
        """Whether a call is one of many of strangers, for whom half of all calls is enough.

        A few of each host are let in: somebody may be about to prove who he is.
        """
        watch = self._watch
        if watch is None or share.calls < SHARE_MIN:
            return False
        return watch.is_stranger(self._lives[connection].identity)

    @staticmethod
    def _answered_by_head(call: CallContext, head: RequestHead) -> bool:
        """Take note of what is uncommon in a head; return whether that ends the call."""
        if head.content_length is not None:
            call.length_left = head.content_length
            call.whole_max = -1
        if head.fault:
            limit = ((LIMIT_KEY, str(head.limit_octets)),) if head.limit_octets else ()
            call.refuse(_fault_code(head), head.fault, limit)
        return call.is_answered

    def run(self, call: CallContext) -> None:
        """Run the handler of a call, at once up to its first wait."""
        call.is_started = True
        context = self._context.copy()
        coroutine = context.run(begin, call, self._interceptors)
        if coroutine is not None:
            call.task = run_prompt(self.loop, coroutine, context)

    def forget(self, call: ServerCall) -> None:
        """A call is over."""
        share = self._calls.pop(call, None)
        if share is not None:
            share.calls -= 1

    def identity_of(self, call: ServerCall) -> Identity:
        """Who has sent a call."""
        return self._lives[call.connection].identity


def _fault_code(head: RequestHead) -> StatusCode:
    """The status of a call that is refused for its head."""
    return StatusCode.INTERNAL if head.method else StatusCode.RESOURCE_EXHAUSTED
