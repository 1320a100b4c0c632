"""Copies of the catalogue beside the primary to the one beside a replica, which may take over.

::

    own broker, a replica  --"not the primary, that is P"-->  FilterServer beside it
    broker P               --its FilterServers-->             FilterServer beside it
    one of those           --filters, modules, marks-->       own catalogue

New versions and quarantine marks are copied. Deletions are not: an empty folder there, on a
replaced disk, must not empty the folder here. Only if there is no room for a new version, the
oldest version that the primary's side no longer has is deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from typing import TYPE_CHECKING, Final

from grpc import aio

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane.filter.v1.filter_pb2 import Filter
from ariane.filter.v1.filter_registration_service_pb2 import GetFilterServersRequest
from ariane.filter.v1.filter_registration_service_pb2_grpc import FilterRegistrationServiceStub
from ariane.filter.v1.filter_service_pb2 import GetFilterRequest, ListFiltersRequest
from ariane.filter.v1.filter_service_pb2_grpc import FilterServiceStub
from ariane_filter.catalogue.catalogue import Catalogue
from ariane_filter.catalogue.filter_version import FilterVersion, checked_digits, checked_name
from ariane_filter.pulling.broker_link import BrokerLink
from ariane_filter.refusals import broker_refusal
from ariane_servicekit import ServiceError, get_logger, open_channel
from ariane_servicekit.security.caller import BROKERS, MemberKind

if TYPE_CHECKING:
    from ariane.filter.v1.filter_service_pb2_grpc import FilterServiceAsyncStub

COPY_INTERVAL_S: Final = 3.0
"""Seconds between two copies from the primary's FilterServers."""

_CALL_S: Final = 5.0
_PAGE_SIZE: Final = 1000

_log = get_logger(__name__)


class CatalogueCopies:
    """Copies the catalogue of the primary's FilterServers, while the own broker is a replica."""

    def __init__(self, link: BrokerLink, catalogue: Catalogue) -> None:
        self._link = link
        self._catalogue = catalogue
        self._failure = ""

    async def copy(self) -> None:
        """Copy new versions and marks; log when that begins to fail."""
        if not self._link.primary:
            return
        failure = ""
        try:
            await self._copy_from_one(await self._servers_of(self._link.primary))
        except aio.AioRpcError as error:
            failure = broker_refusal(error).message
        except ServiceError as error:
            failure = error.message
        except OSError as error:
            failure = error.strerror or type(error).__name__
        if failure and not self._failure:
            _log.warning("catalogue_not_copied", primary=self._link.primary, cause=failure)
        self._failure = failure

    @staticmethod
    async def _servers_of(primary: str) -> list[str]:
        async with open_channel(primary, kinds=BROKERS) as channel:
            stub = FilterRegistrationServiceStub(channel)
            answer = await stub.GetFilterServers(GetFilterServersRequest(), timeout=_CALL_S)
        return list(answer.addresses)

    async def _copy_from_one(self, servers: list[str]) -> None:
        """Copy from the first FilterServer that answers: they share a catalogue.

        Raises:
            AioRpcError: None of them answers.
        """
        for place, address in enumerate(servers):
            try:
                # The largest answer is a module: 1 MiB.
                async with open_channel(address, kinds=(MemberKind.FILTER,)) as channel:
                    stub: FilterServiceAsyncStub = FilterServiceStub(channel)
                    kept = {_version_of(each): each async for each in _all_of(stub)}
                    # Marks first: a filter that is stopped there must not run here, even if
                    # there is no room for new versions.
                    for version, each in kept.items():
                        await self._mark(version, each.quarantine_cause)
                    for version in kept:
                        await self._take(stub, version, kept)
            except aio.AioRpcError:
                if place == len(servers) - 1:
                    raise
            else:
                return

    async def _mark(self, version: FilterVersion, cause: str) -> None:
        if not self._link.primary:
            return  # This broker has become primary meanwhile: now its own marks count.
        here = self._catalogue.quarantine_cause(version)
        if cause and not here:
            await asyncio.to_thread(self._catalogue.quarantine, version, cause)
        elif here and not cause:
            await asyncio.to_thread(self._catalogue.release, version)

    async def _take(
        self,
        stub: FilterServiceAsyncStub,
        version: FilterVersion,
        there: Collection[FilterVersion],
    ) -> None:
        if self._catalogue.has(version):
            return
        asked = GetFilterRequest(filter=version.name, version=version.sha256, include_module=True)
        module = (await stub.GetFilter(asked, timeout=_CALL_S)).module
        if FilterVersion.of(version.name, module) != version:
            _log.error("filter_not_copied", filter=str(version), cause="it is another module")
            return
        try:
            await asyncio.to_thread(self._catalogue.keep, version, module)
        except ServiceError as full:
            if full.reason != ErrorReason.ERROR_REASON_STORE_FULL or not self._link.primary:
                raise
            gone = [each for each in self._catalogue.all() if each.version not in there]
            if not gone:
                raise
            oldest = min(gone, key=lambda each: each.create_time_ms).version
            await asyncio.to_thread(self._catalogue.delete, oldest)
            _log.info("filter_made_room", filter=oldest.name, version=oldest.sha256)
            await asyncio.to_thread(self._catalogue.keep, version, module)
        _log.info("filter_copied", filter=version.name, version=version.sha256)


def _version_of(kept: Filter) -> FilterVersion:
    return FilterVersion(checked_name(kept.filter), checked_digits(kept.version))


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
