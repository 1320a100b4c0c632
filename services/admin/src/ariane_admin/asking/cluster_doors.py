"""Stubs to every process of a cluster, for calls that the SDK's clients do not offer.

Only public interfaces are used: the SDK's client finds the brokers and has the channels to them,
and the calls go through generated stubs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from grpc.aio import AioRpcError

from ariane.broker.v1.broker_service_pb2_grpc import BrokerServiceStub
from ariane.broker.v1.client_service_pb2_grpc import ClientServiceStub
from ariane.broker.v1.group_service_pb2_grpc import GroupServiceStub
from ariane.broker.v1.offset_service_pb2_grpc import OffsetServiceStub
from ariane.broker.v1.pull_service_pb2_grpc import PullServiceStub
from ariane.broker.v1.query_service_pb2_grpc import QueryServiceStub
from ariane.broker.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane.common.v1.process_service_pb2_grpc import ProcessServiceStub
from ariane.filter.v1.filter_service_pb2_grpc import FilterServiceStub
from ariane.namesrv.v1.maintenance_service_pb2_grpc import MaintenanceServiceStub
from ariane.namesrv.v1.route_service_pb2 import ListBrokersRequest
from ariane.namesrv.v1.route_service_pb2_grpc import RouteServiceStub
from ariane.replication.v1.replica_set_service_pb2_grpc import ReplicaSetServiceStub
from ariane_admin.asking.own_tls import own_tls
from ariane_sdk import ClusterClient, LiveBroker
from ariane_sdk.errors import CallError, ServiceUnavailable
from ariane_sdk.translation import error_from_rpc
from ariane_wire import AddressSources

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from ariane.broker.v1.broker_service_pb2_grpc import BrokerServiceAsyncStub
    from ariane.broker.v1.client_service_pb2_grpc import ClientServiceAsyncStub
    from ariane.broker.v1.group_service_pb2_grpc import GroupServiceAsyncStub
    from ariane.broker.v1.offset_service_pb2_grpc import OffsetServiceAsyncStub
    from ariane.broker.v1.pull_service_pb2_grpc import PullServiceAsyncStub
    from ariane.broker.v1.query_service_pb2_grpc import QueryServiceAsyncStub
    from ariane.broker.v1.topic_service_pb2_grpc import TopicServiceAsyncStub
    from ariane.common.v1.process_service_pb2_grpc import ProcessServiceAsyncStub
    from ariane.filter.v1.filter_service_pb2_grpc import FilterServiceAsyncStub
    from ariane.namesrv.v1.maintenance_service_pb2_grpc import MaintenanceServiceAsyncStub
    from ariane.namesrv.v1.route_pb2 import BrokerLiveness
    from ariane.namesrv.v1.route_service_pb2_grpc import RouteServiceAsyncStub
    from ariane.replication.v1.replica_set_service_pb2_grpc import ReplicaSetServiceAsyncStub

CALL_SECONDS_MAX = 5.0
"""How long one call may take."""

PATIENCE_S = 0.0
"""For how long a call of the client is made again: an operator sees at once what is silent."""

PAGE_SIZE = 1000
"""Entries that every process gives in one page."""

PRIMARY_ID = 0

_Answer = TypeVar("_Answer")
_EntryT = TypeVar("_EntryT")


class ClusterDoors:
    """Stubs to the processes of one cluster, for the length of a block."""

    def __init__(self, name_servers: str) -> None:
        self.client = ClusterClient(name_servers, patience_s=PATIENCE_S, tls=own_tls())
        parts = map(str.strip, name_servers.replace(";", ",").split(","))
        self._sources = AddressSources(tuple(filter(None, parts)))

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Find the name servers, and make the clients ready."""
        await self.client.start()
        await self.find_name_servers()

    async def close(self) -> None:
        """End all connections."""
        await self.client.close()

    @property
    def name_servers(self) -> Sequence[str]:
        """The addresses of the name servers, as found last."""
        return self._sources.addresses

    async def find_name_servers(self) -> None:
        """Read again where the name servers are."""
        await self._sources.read()

    async def known_to(
        self, name_server: str, *, seconds_max: float = CALL_SECONDS_MAX
    ) -> list[BrokerLiveness]:
        """The brokers that a name server knows.

        Args:
            name_server: Its "host:port".
            seconds_max: How long the call for one page may take.

        Raises:
            CallError: It refused or did not answer.
        """
        return await all_pages(
            f"name server {name_server}",
            self.routes(name_server).ListBrokers,
            ListBrokersRequest(),
            lambda page: page.brokers,
            seconds_max=seconds_max,
        )

    async def registered(self) -> list[LiveBroker]:
        """All live brokers.

        Raises:
            NameServersUnreachable: No name server answered.
            CallError: NO_BROKER if there is none.
        """
        found = await self.client.list_brokers()
        if not found:
            raise ServiceUnavailable(
                "no broker is registered with the name servers", reason="NO_BROKER", retriable=True
            )
        return found

    async def primaries(
        self, names: Sequence[str] = (), *, cluster_name: str = ""
    ) -> list[LiveBroker]:
        """The live primaries: all, those of a cluster, or those with some names.

        Raises:
            CallError: BROKER_NOT_REGISTERED for an unknown broker or cluster, NO_BROKER if there
                is no broker at all.
        """
        found = [
            broker
            for broker in await self.client.list_brokers()
            if broker.broker_id == PRIMARY_ID
            and (not names or broker.broker_name in names)
            and (not cluster_name or broker.cluster_name == cluster_name)
        ]
        missing = set(names) - {broker.broker_name for broker in found}
        if missing:
            raise CallError(
                f"no broker {min(missing)} is registered; ariane broker list shows all",
                reason="BROKER_NOT_REGISTERED",
                metadata={"broker_name": min(missing)},
            )
        if not found:
            if cluster_name:
                raise CallError(
                    f"no broker is registered in cluster {cluster_name}",
                    reason="BROKER_NOT_REGISTERED",
                    metadata={"cluster_name": cluster_name},
                )
            raise ServiceUnavailable(
                "no broker is registered with the name servers", reason="NO_BROKER", retriable=True
            )
        return found

    async def primaries_of(self, topic: str) -> list[LiveBroker]:
        """The primaries that carry a topic.

        Raises:
            RouteNotFound: No primary carries it.
        """
        route = await self.client.route(topic)
        names = {broker.broker_name for broker in route.brokers}
        return [one for one in await self.primaries() if one.broker_name in names]

    def brokers(self, address: str) -> BrokerServiceAsyncStub:
        """The broker service at an address."""
        return BrokerServiceStub(self.client.channel(address))

    def clients(self, address: str) -> ClientServiceAsyncStub:
        """The client service of a broker."""
        return ClientServiceStub(self.client.channel(address))

    def groups(self, address: str) -> GroupServiceAsyncStub:
        """The group service of a broker."""
        return GroupServiceStub(self.client.channel(address))

    def offsets(self, address: str) -> OffsetServiceAsyncStub:
        """The offset service of a broker."""
        return OffsetServiceStub(self.client.channel(address))

    def pulls(self, address: str) -> PullServiceAsyncStub:
        """The pull service of a broker."""
        return PullServiceStub(self.client.channel(address))

    def queries(self, address: str) -> QueryServiceAsyncStub:
        """The query service of a broker."""
        return QueryServiceStub(self.client.channel(address))

    def replica_sets(self, address: str) -> ReplicaSetServiceAsyncStub:
        """The replica-set service of a broker with replicas."""
        return ReplicaSetServiceStub(self.client.channel(address))

    def topics(self, address: str) -> TopicServiceAsyncStub:
        """The topic service of a broker."""
        return TopicServiceStub(self.client.channel(address))

    def filters(self, address: str) -> FilterServiceAsyncStub:
        """The filter service of a FilterServer."""
        return FilterServiceStub(self.client.channel(address))

    def processes(self, address: str) -> ProcessServiceAsyncStub:
        """The process service of any process."""
        return ProcessServiceStub(self.client.channel(address))

    def maintenance(self, address: str) -> MaintenanceServiceAsyncStub:
        """The maintenance service of a name server."""
        return MaintenanceServiceStub(self.client.channel(address))

    def routes(self, address: str) -> RouteServiceAsyncStub:
        """The route service of a name server."""
        return RouteServiceStub(self.client.channel(address))


async def answer_of(call: Awaitable[_Answer], peer: str) -> _Answer:
    """The answer to a call.

    Args:
        call: The call.
        peer: The called process, for the text of an error.

    Raises:
        CallError: The error of the service, or of gRPC.
    """
    try:
        return await call
    except AioRpcError as error:
        raise error_from_rpc(error, peer=peer) from error


async def answer_to_question(call: Awaitable[_Answer], peer: str) -> _Answer:
    """The answer to a call that changes nothing.

    Args:
        call: The call.
        peer: The called process, for the text of an error.

    Raises:
        CallError: As with `answer_of`; without an answer nothing has changed.
    """
    try:
        return await answer_of(call, peer)
    except CallError as error:
        error.outcome_unknown = False
        raise


class NamedBroker(Protocol):
    """What names a broker in errors."""

    @property
    def broker_name(self) -> str:
        """Its name."""

    @property
    def address(self) -> str:
        """Its "host:port"."""


def broker_peer(broker: NamedBroker) -> str:
    """The name of a broker in the text of an error."""
    return f"broker {broker.broker_name} at {broker.address}"


async def changed_at(
    peer: NamedBroker | str,
    method: Callable[..., Awaitable[_Answer]],
    request: Message,
    *,
    seconds_max: float = CALL_SECONDS_MAX,
) -> _Answer:
    """Have a process change something.

    Args:
        peer: The called broker, or the name of another process for the text of an error.
        method: The stub's method.
        request: Its request.
        seconds_max: How long it may take.

    Raises:
        CallError: As with `answer_of`.
    """
    return await answer_of(method(request, timeout=seconds_max), _name_of(peer))


async def answer_from(
    peer: NamedBroker | str,
    method: Callable[..., Awaitable[_Answer]],
    request: Message,
    *,
    seconds_max: float = CALL_SECONDS_MAX,
) -> _Answer:
    """Ask a process something; arguments as of `changed_at`.

    Raises:
        CallError: As with `answer_to_question`.
    """
    return await answer_to_question(method(request, timeout=seconds_max), _name_of(peer))


def _name_of(peer: NamedBroker | str) -> str:
    return peer if isinstance(peer, str) else broker_peer(peer)


class _Pages(Protocol):
    page_size: int
    page_token: str


async def all_pages(
    peer: NamedBroker | str,
    ask: Callable[..., Awaitable[Any]],
    request: _Pages,
    entries: Callable[[Any], Sequence[_EntryT]],
    *,
    count_max: int | None = None,
    seconds_max: float = CALL_SECONDS_MAX,
) -> list[_EntryT]:
    """The entries of a list.

    Args:
        peer: The called broker, or the name of another process for the text of an error.
        ask: The stub's method.
        request: The request; its page fields are set here.
        entries: Takes the entries out of an answer.
        count_max: The most entries; None: all.
        seconds_max: How long the call for one page may take.

    Raises:
        CallError: The process refused or did not answer.
    """
    found: list[_EntryT] = []
    while True:
        left = PAGE_SIZE if count_max is None else count_max - len(found)
        request.page_size = min(PAGE_SIZE, left)
        page = await answer_to_question(ask(request, timeout=seconds_max), _name_of(peer))
        found += entries(page)
        request.page_token = page.next_page_token
        if not request.page_token or len(found) == count_max:
            return found
