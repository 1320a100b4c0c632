"""Calls to name servers: any of them may be down, or may lack brokers after its start."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import reduce
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

from grpc.aio import AioRpcError

from ariane.namesrv.v1 import route_pb2
from ariane.namesrv.v1.route_service_pb2 import (
    GetRouteRequest,
    GetRouteResponse,
    ListBrokersRequest,
    ListBrokersResponse,
    ListTopicsRequest,
    ListTopicsResponse,
)
from ariane_record.names import TEMPLATE_TOPIC
from ariane_sdk.errors import (
    CallError,
    DeadlinePassed,
    FeatureNotAvailable,
    IllegalArgument,
    NameServersUnreachable,
    RouteNotFound,
    ServiceUnavailable,
)
from ariane_sdk.net.connections import Connections
from ariane_sdk.net.pages import all_pages
from ariane_sdk.net.status import error_from_rpc
from ariane_sdk.routing.route import BrokerRoute, Route
from ariane_sdk.routing.route_wire import route_from_wire
from ariane_sdk.runtime.environment import NAME_SERVERS, name_servers_of_environment
from ariane_sdk.runtime.tasks import start_task
from ariane_sdk.security import BROKER_KINDS, CERTIFICATE_OF, Expected
from ariane_wire import AddressSources, is_source

if TYPE_CHECKING:
    from ariane.namesrv.v1.route_service_pb2_grpc import RouteServiceAsyncStub


QUERIES_AT_ONCE: Final = 64
"""Calls of one client at the same time; others wait for their turn. A client may want the routes of
thousands of topics at once, but a name server refuses more than 1024 calls of a connection."""

PORT_MAX: Final = 0xFFFF
_PORT_DIGITS: Final = 6
"""More digits are no port either, and Python refuses to read very long numbers."""


NameServerAddresses: TypeAlias = str | Sequence[str]
"""The name servers of a cluster: "host:port,host:port", or a list of "host:port". Instead of an
address, "dns:host:port", "file:/path" or a URL, which are read again every 30 s."""


class _Answer(Protocol):
    @property
    def warming_up(self) -> bool: ...


Answer = TypeVar("Answer", bound=_Answer)


def parse_addresses(name_servers: NameServerAddresses | None) -> tuple[str, ...]:
    """The addresses in "host:port,host:port", or in a list; a semicolon separates as well.

    An entry may also be a source that is read again: "dns:host:port", "file:/path" or a URL.

    None stands for what the environment says in ARIANE_NAME_SERVERS.

    Raises:
        IllegalArgument: There is no address, or one has no port.
    """
    if name_servers is None:
        name_servers = name_servers_of_environment()
    given: Any = [name_servers] if isinstance(name_servers, str) else name_servers
    if not isinstance(given, Sequence) or not all(isinstance(text, str) for text in given):
        raise IllegalArgument(
            f'name servers {name_servers!r:.100}: "host:port,host:port" or a list is expected'
        )
    parts = [part.strip() for text in given for part in text.replace(";", ",").split(",")]
    addresses = tuple(part for part in parts if part)
    for address in addresses:
        if not (_is_address(address) or is_source(address)):
            raise IllegalArgument(
                f"name server {address!r}: host:port, dns:host:port, file:path or a URL is expected"
            )
    if not addresses:
        raise IllegalArgument(
            "at least one name server is needed, as in 127.0.0.1:9876: pass it, or set"
            f" {NAME_SERVERS}"
        )
    return addresses


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    if not host or "/" in host or any(map(str.isspace, host)):
        return False  # A URL, most often: gRPC would look for a host of that name.
    return port.isascii() and port.isdigit() and 0 < int(port[:_PORT_DIGITS]) <= PORT_MAX


REREAD_S: Final = 30.0
"""How often sources of addresses are read again."""

NOT_NAME_SERVER: Final = "NOT_NAME_SERVER"


class NameServers:
    """Asks one name server, first a random one, and tries the next when it does not answer."""

    def __init__(
        self,
        addresses: Sequence[str],
        connections: Connections,
        *,
        random: Random,
        timeout_s: float,
    ) -> None:
        """Connect to nothing yet."""
        self._sources = AddressSources(addresses)
        self._read_s: float | None = None
        self._reading: asyncio.Task[object] | None = None
        self._connections = connections
        self._timeout_s = timeout_s
        self._random = random
        self._current = ""
        self._turns = asyncio.Semaphore(QUERIES_AT_ONCE)

    async def get_route(self, topic: str) -> Route:
        """Query the route of a topic.

        While all name servers that answer have just started, the result is the union of their
        answers, marked as not complete. For a topic of type FIFO, all are asked until one knows the
        order of its queues.

        Raises:
            RouteNotFound: All that answer know no broker of the topic. Its metadata show why that
                may be wrong: ``warming_up`` when all have just started, ``unreachable`` when others
                did not answer, ``queue_order`` when one knows that the topic exists.
            NameServersUnreachable: No name server answered.
        """
        request = GetRouteRequest(topic=topic)
        # All topics that sends will create wait for the template.
        async with nullcontext() if topic == TEMPLATE_TOPIC else self._turns:
            answers = await self._ask(
                lambda stub: stub.GetRoute(request, timeout=self._timeout_s), is_enough=_tells_all
            )
        routes = [
            route_from_wire(answer.route, complete=not answer.warming_up) for answer in answers
        ]
        for route in routes:
            self._expect(route.brokers)
        for route in routes:
            if route.complete:
                orders = (each.queue_order for each in routes if each.queue_order)
                return replace(route, queue_order=next(orders, ""))
        first, *rest = routes
        return reduce(Route.with_missing_of, rest, first)

    async def list_topics(self, cluster_name: str = "") -> list[str]:
        """All topics by name, or those of one cluster.

        Raises:
            NameServersUnreachable: No name server answered.
        """

        async def ask(page: ListTopicsRequest) -> ListTopicsResponse:
            answer, *_ = await self._ask(
                lambda stub: stub.ListTopics(page, timeout=self._timeout_s)
            )
            return answer

        request = ListTopicsRequest(cluster_name=cluster_name)
        return await all_pages(ask, request, lambda page: page.topics)

    async def list_brokers(self, cluster_name: str = "") -> list[route_pb2.BrokerLiveness]:
        """All brokers with their liveness, or those of one cluster.

        Raises:
            NameServersUnreachable: No name server answered.
        """

        async def ask(page: ListBrokersRequest) -> ListBrokersResponse:
            answer, *_ = await self._ask(
                lambda stub: stub.ListBrokers(page, timeout=self._timeout_s)
            )
            return answer

        request = ListBrokersRequest(cluster_name=cluster_name)
        brokers: list[route_pb2.BrokerLiveness] = await all_pages(
            ask, request, lambda page: page.brokers
        )
        for broker in brokers:
            identity = broker.identity
            expected = Expected(BROKER_KINDS, identity.broker_name, identity.cluster_name)
            self._connections.expect(identity.address, expected)
        return brokers

    def _expect(self, brokers: Iterable[BrokerRoute]) -> None:
        """Take only the brokers that a route names at the addresses that it names."""
        for broker in brokers:
            expected = Expected(BROKER_KINDS, broker.broker_name, broker.cluster_name)
            for address in broker.addresses.values():
                self._connections.expect(address, expected)
            for address in broker.filter_servers:
                self._connections.expect(address, Expected(("filter",)))

    async def _ask(
        self,
        call: Callable[[RouteServiceAsyncStub], Awaitable[Answer]],
        is_enough: Callable[[Answer], bool] = lambda answer: not answer.warming_up,
    ) -> Sequence[Answer]:
        """Return the answer of the first name server that has a complete one, alone.

        A name server that has just started may lack brokers. While all that answer have just
        started, their answers are returned together, at least one. One that knows no route is a
        reason to ask another.

        Args:
            call: What to ask.
            is_enough: Whether an answer is complete, so that no other is needed.
        """
        failures: dict[str, CallError] = {}
        not_found: list[RouteNotFound] = []
        partial: list[Answer] = []
        for address in await self._in_turn():
            try:
                answer = await call(self._connections.routes(address))
            except AioRpcError as rpc_error:
                error = _error_of(rpc_error, address)
                if isinstance(error, RouteNotFound):
                    not_found.append(error)
                elif error.retriable or isinstance(error, ServiceUnavailable | DeadlinePassed):
                    # An error at one name server does not mean an error at the next.
                    failures[address] = error
                else:
                    raise error from rpc_error
            else:
                if is_enough(answer):
                    self._current = address
                    return [answer]
                partial.append(answer)
        if partial:
            return partial
        if not_found:
            refusal = max(not_found, key=_weight)
            if failures:
                refusal.metadata = {**refusal.metadata, "unreachable": ",".join(failures)}
            raise refusal
        raise self._unreachable(failures) from next(reversed(failures.values()), None)

    def _unreachable(self, failures: Mapping[str, CallError]) -> NameServersUnreachable:
        self._read_s = None  # Others may be known by now.
        if not failures:
            causes = "; ".join(self._sources.errors.values())
            return NameServersUnreachable(f"no name server is known: {causes}", retriable=True)
        reasons = {error.reason for error in failures.values()}
        return NameServersUnreachable(
            f"no name server answered: {'; '.join(map(str, failures.values()))}",
            reason=NOT_NAME_SERVER if reasons == {NOT_NAME_SERVER} else "",
            retriable=reasons != {NOT_NAME_SERVER},
        )

    async def _in_turn(self) -> Sequence[str]:
        """All name servers, the one that answered last first; sources are read again."""
        sources = self._sources
        if not sources.is_fixed:
            await self._read_again()
        addresses = sources.addresses
        if not addresses:
            return ()
        if self._current not in addresses:
            self._current = self._random.choice(addresses)
        place = addresses.index(self._current)
        return addresses[place:] + addresses[:place]

    async def _read_again(self) -> None:
        """Read the sources: before the first call, and then beside calls."""
        now_s = asyncio.get_running_loop().time()
        if self._read_s is not None and now_s - self._read_s < REREAD_S:
            return
        if self._reading is None or self._reading.done():
            self._reading = start_task(self._sources.read(), "read-name-servers")
        if self._read_s is None:
            await asyncio.shield(self._reading)
        self._read_s = now_s


def _error_of(rpc_error: AioRpcError, address: str) -> CallError:
    """Translate a call's error; a process without the route service is no name server."""
    error = error_from_rpc(rpc_error, peer=f"name server {address}")
    if not isinstance(error, FeatureNotAvailable):
        return error
    # Over TLS its certificate says what it is.
    known = rpc_error.details() or ""
    hint = known if known.startswith(CERTIFICATE_OF) else "is it the address of a broker?"
    return CallError(
        f"{address} answers, and is no name server: {hint}",
        reason=NOT_NAME_SERVER,
        # Of another address.
        retriable=True,
    )


def _tells_all(answer: GetRouteResponse) -> bool:
    """Whether an answer has all brokers, and the order of queues where one is needed."""
    route = answer.route
    order_missing = not route.queue_order and any(broker.ordered for broker in route.brokers)
    return not answer.warming_up and not order_missing


def _weight(error: RouteNotFound) -> tuple[bool, bool, bool]:
    """Sorts refusals: one that knows the topic exists weighs most, one during warm-up least.

    Of others, one that knows who had the topic: a name server that has started since does not.
    """
    known = error.metadata
    return "queue_order" in known, "warming_up" not in known, "away_brokers" in known
