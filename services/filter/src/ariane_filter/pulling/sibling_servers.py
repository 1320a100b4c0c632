"""The other FilterServers of the broker: they share the catalogue; each knows its own groups."""

from __future__ import annotations

import asyncio
from typing import Final

from grpc import StatusCode, aio

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane.filter.v1.filter_service_pb2 import GetFilterRequest
from ariane.filter.v1.filter_service_pb2_grpc import FilterServiceStub
from ariane_filter.catalogue.filter_version import FilterVersion
from ariane_filter.pulling.broker_link import BrokerLink
from ariane_servicekit import ServiceError, open_channel
from ariane_servicekit.security.caller import MemberKind

_CALL_S: Final = 3.0


class SiblingServers:
    """Asks the other FilterServers which groups they serve."""

    def __init__(self, link: BrokerLink) -> None:
        self._link = link

    async def groups_of(self, version: FilterVersion) -> list[str]:
        """The groups that pull through a version at any of them, sorted.

        Raises:
            ServiceError: PEER_UNREACHABLE: one of them, or the broker, does not answer, so it is
                not known. The broker forgets a FilterServer after 30 s of silence.
        """
        asked = (self._ask(each, version) for each in await self._link.siblings())
        return sorted({group for groups in await asyncio.gather(*asked) for group in groups})

    async def _ask(self, address: str, version: FilterVersion) -> list[str]:
        request = GetFilterRequest(filter=version.name, version=version.sha256)
        try:
            async with open_channel(address, kinds=(MemberKind.FILTER,)) as channel:
                answer = await FilterServiceStub(channel).GetFilter(request, timeout=_CALL_S)
        except aio.AioRpcError as error:
            if error.code() is StatusCode.NOT_FOUND:
                return []
            raise ServiceError(
                ErrorReason.ERROR_REASON_PEER_UNREACHABLE,
                f"FilterServer {address} does not say whether a group pulls through {version}",
                {"peer": address},
            ) from error
        return list(answer.filter.consumer_groups)
