"""The catalogue beside a replica: what those beside the primary have, for the day it takes over.

::

    own broker, a replica  --"not the primary, that is P"-->  FilterServer beside it
    broker P               --its FilterServers-->             FilterServer beside it
    one of those           --filters, modules, marks-->       own catalogue

New versions are copied, and whether they are quarantined. Deletions are not: an empty folder there,
of a disk that was replaced, must not empty the folder here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from grpc import aio

from ariane.filter.v1.filter_pb2 import Filter
from ariane.filter.v1.filter_registration_service_pb2 import GetFilterServersRequest
from ariane.filter.v1.filter_registration_service_pb2_grpc import FilterRegistrationServiceStub
from ariane.filter.v1.filter_service_pb2 import GetFilterRequest, ListFiltersRequest
from ariane.filter.v1.filter_service_pb2_grpc import FilterServiceStub
from ariane_filter.catalogue.catalogue import Catalogue
from ariane_filter.catalogue.filter_version import FilterVersion, checked_digits, checked_name
from ariane_filter.pulling.broker_link import BrokerLink
from ariane_filter.refusals import broker_refusal
from ariane_servicekit import ServiceError, get_logger

if TYPE_CHECKING:
    from ariane.filter.v1.filter_service_pb2_grpc import FilterServiceAsyncStub

LOOK_S: Final = 3.0
"""Seconds between two looks at the primary's FilterServers."""

_CALL_S: Final = 5.0
_PAGE_SIZE: Final = 1000

_log = get_logger(__name__)


class CatalogueCopies:
    """Copies what the FilterServers of the primary have, while the own broker is a replica."""

    def __init__(self, link: BrokerLink, catalogue: Catalogue) -> None:
        self._link = link
        self._catalogue = catalogue
        self._trouble = ""

    async def look(self) -> None:
        """Copy what is new; says in the log when that begins to fail."""
        if not self._link.primary:
            return
        trouble = ""
        try:
            await self._copy_from_one(await self._servers_of(self._link.primary))
        except aio.AioRpcError as error:
            trouble = broker_refusal(error).message
        except ServiceError as error:
            trouble = error.message
        except OSError as error:
            trouble = error.strerror or type(error).__name__
        if trouble and not self._trouble:
            _log.warning("catalogue_not_copied", primary=self._link.primary, cause=trouble)
        self._trouble = trouble

    @staticmethod
    async def _servers_of(primary: str) -> list[str]:
        async with aio.insecure_channel(primary) as channel:
            stub = FilterRegistrationServiceStub(channel)
            answer = await stub.GetFilterServers(GetFilterServersRequest(), timeout=_CALL_S)
        return list(answer.addresses)

    async def _copy_from_one(self, servers: list[str]) -> None:
        """Copy from the first that answers: they share a catalogue.

        Raises:
            AioRpcError: None of them answers.
        """
        for place, address in enumerate(servers):
            try:
                # The only answer that is large is a module: 1 MiB.
                async with aio.insecure_channel(address) as channel:
                    stub: FilterServiceAsyncStub = FilterServiceStub(channel)
                    async for kept in _all_of(stub):
                        await self._take(stub, kept)
            except aio.AioRpcError:
                if place == len(servers) - 1:
                    raise
            else:
                return

    async def _take(self, stub: FilterServiceAsyncStub, kept: Filter) -> None:
        version = FilterVersion(checked_name(kept.filter), checked_digits(kept.version))
        # The mark comes first: a filter that is stopped there never runs here.
        cause = self._catalogue.quarantine_cause(version)
        if kept.quarantine_cause and not cause:
            await asyncio.to_thread(self._catalogue.quarantine, version, kept.quarantine_cause)
        elif cause and not kept.quarantine_cause:
            await asyncio.to_thread(self._catalogue.release, version)
        if self._catalogue.has(version):
            return
        asked = GetFilterRequest(filter=kept.filter, version=kept.version, include_module=True)
        module = (await stub.GetFilter(asked, timeout=_CALL_S)).module
        if FilterVersion.of(version.name, module) != version:
            _log.error("filter_not_copied", filter=str(version), cause="it is another module")
            return
        await asyncio.to_thread(self._catalogue.keep, version, module)
        _log.info("filter_copied", filter=version.name, version=version.sha256)


async def _all_of(stub: FilterServiceAsyncStub) -> AsyncIterator[Filter]:
    """All versions that a FilterServer has."""
    request = ListFiltersRequest(page_size=_PAGE_SIZE)
    while True:
        page = await stub.ListFilters(request, timeout=_CALL_S)
        for kept in page.filters:
            yield kept
        request.page_token = page.next_page_token
        if not request.page_token:
            return
