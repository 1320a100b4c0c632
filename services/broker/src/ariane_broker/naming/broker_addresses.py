"""The addresses of other brokers of the cluster, from name servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, Final

from grpc import aio

from ariane.namesrv.v1.route_service_pb2 import ListBrokersRequest
from ariane.namesrv.v1.route_service_pb2_grpc import RouteServiceStub
from ariane_broker.settings import BrokerSettings
from ariane_servicekit import open_channel
from ariane_servicekit.security.caller import MemberKind
from ariane_wire import AddressSources, ChannelOptions

if TYPE_CHECKING:
    from ariane.namesrv.v1.route_service_pb2_grpc import RouteServiceAsyncStub

CALL_S_MAX: Final = 3.0
AGE_S_MAX: Final = 2.0
"""How long an answer is used: a replica that takes over is found by then."""

PAGE_SIZE: Final = 1000
PRIMARY_ID: Final = 0

_OPTIONS: Final = ChannelOptions(backoff_first_s=0.2, backoff_max_s=5.0, connect_timeout_s=1.0)


class NobodyKnows(Exception):
    """No name server answers that has been there long enough to know all brokers."""


class BrokerAddresses:
    """Where the primaries of the cluster are."""

    def __init__(
        self, settings: BrokerSettings, monotonic: Callable[[], float], chance: Random
    ) -> None:
        self._cluster_name = settings.cluster_name
        self._sources = AddressSources(settings.name_servers)
        self._monotonic = monotonic
        self._chance = chance
        self._channels: dict[str, aio.Channel] = {}
        self._known: Mapping[str, str] = {}
        self._complete = False
        self._until_s = float("-inf")

    async def address_of(self, broker_name: str) -> str | None:
        """The address of a broker; None if no name server knows it.

        Raises:
            NobodyKnows: No name server can tell.
        """
        if self._monotonic() >= self._until_s:
            await self._ask()
        address = self._known.get(broker_name)
        if address is None and not self._complete:
            raise NobodyKnows("no name server tells where it is")
        return address

    def forget(self) -> None:
        """Ask anew the next time: an address did not answer."""
        self._until_s = float("-inf")

    async def close(self) -> None:
        """Close the connections."""
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            await channel.close()

    async def _ask(self) -> None:
        """Ask the name servers, one after the other, until one knows all."""
        known: dict[str, str] = {}
        addresses = await self._sources.read()
        # Without name servers there are no other brokers.
        complete = not addresses
        for address in addresses:
            if address not in self._channels:
                self._channels[address] = open_channel(
                    address, _OPTIONS, self._chance, kinds=(MemberKind.NAME_SERVER,)
                )
            try:
                found, complete = await self._page_all(RouteServiceStub(self._channels[address]))
            except aio.AioRpcError:
                continue
            known = {**known, **found}
            if complete:
                break
        self._known = known if complete else {**self._known, **known}
        self._complete = complete
        self._until_s = self._monotonic() + AGE_S_MAX

    async def _page_all(self, stub: RouteServiceAsyncStub) -> tuple[dict[str, str], bool]:
        """The primaries that a name server knows, and whether these are all."""
        found: dict[str, str] = {}
        complete, token = True, ""
        while True:
            request = ListBrokersRequest(
                page_size=PAGE_SIZE, page_token=token, cluster_name=self._cluster_name
            )
            answer = await stub.ListBrokers(request, timeout=CALL_S_MAX)
            complete = complete and not answer.warming_up
            for broker in answer.brokers:
                if broker.identity.broker_id == PRIMARY_ID:
                    found[broker.identity.broker_name] = broker.identity.address
            token = answer.next_page_token
            if not token:
                return found, complete
