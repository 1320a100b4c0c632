"""The name servers: any of them is asked, none is trusted to live, or to know all at its start."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import reduce
from random import Random
from typing import TYPE_CHECKING, Protocol, TypeVar

from grpc.aio import AioRpcError

from ariane.namesrv.v1 import route_pb2
from ariane.namesrv.v1.route_service_pb2 import (
    GetRouteRequest,
    ListBrokersRequest,
    ListTopicsRequest,
)
from ariane_sdk._connections import Connections
from ariane_sdk._pages import PAGE_SIZE_MAX, collect_pages
from ariane_sdk._route import Route
from ariane_sdk._status import error_from_rpc
from ariane_sdk.errors import (
    CallError,
    DeadlinePassed,
    IllegalArgument,
    NameServersUnreachable,
    RouteNotFound,
    ServiceUnavailable,
)

if TYPE_CHECKING:
    from ariane.namesrv.v1.route_service_pb2_grpc import RouteServiceAsyncStub


class _Answer(Protocol):
    @property
    def warming_up(self) -> bool: ...


Answer = TypeVar("Answer", bound=_Answer)


def parse_addresses(text: str) -> tuple[str, ...]:
    """The addresses in "host:port,host:port"; a semicolon separates as well.

    Raises:
        IllegalArgument: There is none, or one has no port.
    """
    addresses = tuple(part.strip() for part in text.replace(";", ",").split(",") if part.strip())
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise IllegalArgument(f'name server {address!r}: "host:port" is expected')
    if not addresses:
        raise IllegalArgument("at least one name server is needed, as in 127.0.0.1:9876")
    return addresses


class NameServers:
    """Asks one name server, at first a random one, and goes round when it does not answer."""

    def __init__(
        self,
        addresses: Sequence[str],
        connections: Connections,
        *,
        random: Random,
        timeout_s: float,
    ) -> None:
        """Know where they are; nothing is connected yet.

        Args:
            addresses: "host:port" of each.
            connections: Where channels come from.
            random: Chooses the first one to ask.
            timeout_s: How long to wait for each of them, in seconds.
        """
        self._addresses = tuple(addresses)
        self._connections = connections
        self._timeout_s = timeout_s
        self._current = random.randrange(len(self._addresses))

    async def get_route(self, topic: str) -> Route:
        """Where a topic's queues are.

        While all that answer have just started, it is what they know together, marked as not
        complete.

        Raises:
            RouteNotFound: Those that answer know no broker of the topic.
            NameServersUnreachable: None answered.
        """
        request = GetRouteRequest(topic=topic)
        answers = await self._ask(lambda stub: stub.GetRoute(request, timeout=self._timeout_s))
        first, *rest = (
            Route.from_wire(answer.route, complete=not answer.warming_up) for answer in answers
        )
        return reduce(Route.with_missing_of, rest, first)

    async def list_topics(self, cluster_name: str = "") -> list[str]:
        """All topics by name, or those of one cluster.

        Raises:
            NameServersUnreachable: None answered.
        """

        async def fetch(token: str) -> tuple[Sequence[str], str]:
            request = ListTopicsRequest(
                page_size=PAGE_SIZE_MAX, page_token=token, cluster_name=cluster_name
            )
            page, *_ = await self._ask(
                lambda stub: stub.ListTopics(request, timeout=self._timeout_s)
            )
            return page.topics, page.next_page_token

        return await collect_pages(fetch)

    async def list_brokers(self, cluster_name: str = "") -> list[route_pb2.BrokerLiveness]:
        """All brokers with their liveness, or those of one cluster.

        Raises:
            NameServersUnreachable: None answered.
        """

        async def fetch(token: str) -> tuple[Sequence[route_pb2.BrokerLiveness], str]:
            request = ListBrokersRequest(
                page_size=PAGE_SIZE_MAX, page_token=token, cluster_name=cluster_name
            )
            page, *_ = await self._ask(
                lambda stub: stub.ListBrokers(request, timeout=self._timeout_s)
            )
            return page.brokers, page.next_page_token

        return await collect_pages(fetch)

    async def _ask(
        self, call: Callable[[RouteServiceAsyncStub], Awaitable[Answer]]
    ) -> Sequence[Answer]:
        """The answer of the first name server that is to be believed, alone.

        One that has just started has not heard of every broker yet. While all that answer are such,
        these are their answers, at least one. One that knows no route is a reason to ask another.

        Args:
            call: What to ask.
        """
        failures: list[CallError] = []
        not_found: RouteNotFound | None = None
        early: list[Answer] = []
        for address in self._in_turn():
            try:
                answer = await call(self._connections.routes(address))
            except AioRpcError as rpc_error:
                error = error_from_rpc(rpc_error, peer=f"name server {address}")
                if isinstance(error, RouteNotFound):
                    not_found = error
                elif isinstance(error, ServiceUnavailable | DeadlinePassed):
                    failures.append(error)
                else:
                    raise error from rpc_error
            else:
                if not answer.warming_up:
                    self._current = self._addresses.index(address)
                    return [answer]
                early.append(answer)
        if early:
            return early
        if not_found is not None:
            raise not_found
        raise NameServersUnreachable(
            f"no name server answered: {'; '.join(map(str, failures))}", retriable=True
        ) from failures[-1]

    def _in_turn(self) -> Sequence[str]:
        return self._addresses[self._current :] + self._addresses[: self._current]
