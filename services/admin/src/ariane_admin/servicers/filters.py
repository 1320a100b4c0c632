"""``FilterService``: uploaded filters, on the FilterServers of all brokers."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from grpc import aio

from ariane.admin.v1 import filter_service_pb2 as admin_pb
from ariane.admin.v1.filter_service_pb2_grpc import FilterServiceServicer
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane.filter.v1 import filter_pb2
from ariane.filter.v1 import filter_service_pb2 as filter_rpc
from ariane_admin.asking.changing.module_file import MODULE_BYTES_MAX
from ariane_admin.asking.cluster_doors import CALL_SECONDS_MAX
from ariane_admin.asking.filter_servers import (
    LOAD_SECONDS_MAX,
    Answers,
    FilterServer,
    ask_all,
    filter_servers,
    kept_filter,
    kept_filters,
)
from ariane_admin.servicers.cluster_access import ClusterAccess
from ariane_sdk.errors import CallError
from ariane_servicekit import ServiceError, field_invalid

_Context = aio.ServicerContext[Any, Any]


_NOT_FOUND: Final = "FILTER_NOT_FOUND"


class FilterServicer(FilterServiceServicer):
    """Calls all FilterServers: a version means the same code everywhere."""

    def __init__(self, cluster: ClusterAccess) -> None:
        self._cluster = cluster
        self._doors = cluster.doors

    async def before(self, method: str, request: Any) -> admin_pb.ClusterFilter | None:
        """The version as it is before it is changed."""
        if method == "UploadFilter":
            return None
        answers = await self._kept(request.filter, request.version)
        return _cluster_filter(answers)

    async def ListFilters(
        self, request: admin_pb.ListFiltersRequest, context: _Context
    ) -> admin_pb.ListFiltersResponse:
        """List versions by name and version."""
        answers = await ask_all(
            await filter_servers(self._doors),
            lambda server: kept_filters(self._doors, server, request.filter),
        )
        _some(answers)
        found: dict[tuple[str, str], admin_pb.ClusterFilter] = defaultdict(admin_pb.ClusterFilter)
        for server, kept in answers.given.items():
            for each in kept:
                found[each.filter, each.version].filters[server.address].CopyFrom(each)
        page = self._cluster.page(
            sorted(found),
            lambda key: key,
            request,
            scope=f"filters:{request.filter}",
        )
        for key in page.entries:
            found[key].filter_server_count = len(answers.given)
        return admin_pb.ListFiltersResponse(
            filters=(found[key] for key in page.entries),
            next_page_token=page.next_page_token,
            silent_servers=self._outcomes(answers, failed_only=True),
        )

    async def GetFilter(
        self, request: admin_pb.GetFilterRequest, context: _Context
    ) -> admin_pb.GetFilterResponse:
        """Read one version with its module."""
        answers = await self._kept(request.filter, request.version)
        _some(answers)
        asked = filter_rpc.GetFilterRequest(
            filter=request.filter, version=request.version, include_module=True
        )
        first = next(iter(answers.given))
        read = await ask_all(
            [first],
            lambda server: self._doors.filters(server.address).GetFilter(
                asked, timeout=CALL_SECONDS_MAX
            ),
        )
        _some(read)
        return admin_pb.GetFilterResponse(
            filter=_cluster_filter(answers),
            module=read.given[first].module,
            silent_servers=self._outcomes(answers, failed_only=True),
        )

    async def UploadFilter(
        self, request: admin_pb.UploadFilterRequest, context: _Context
    ) -> admin_pb.UploadFilterResponse:
        """Upload a module everywhere."""
        if not 1 <= len(request.module) <= MODULE_BYTES_MAX:
            raise field_invalid("module", f"must have 1 to {MODULE_BYTES_MAX:,} bytes")
        asked = filter_rpc.UploadFilterRequest(filter=request.filter, module=request.module)
        answers = await ask_all(
            await filter_servers(self._doors),
            lambda server: self._doors.filters(server.address).UploadFilter(
                asked, timeout=LOAD_SECONDS_MAX
            ),
        )
        _some(answers)
        given = list(answers.given.values())
        return admin_pb.UploadFilterResponse(
            filter=given[0].filter,
            duplicate=all(each.duplicate for each in given),
            outcomes=self._outcomes(answers),
        )

    async def UpdateFilterQuarantine(
        self, request: admin_pb.UpdateFilterQuarantineRequest, context: _Context
    ) -> admin_pb.UpdateFilterQuarantineResponse:
        """Stop a version everywhere, or let it run again."""
        name, version = request.filter, request.version

        async def change(server: FilterServer) -> object:
            stub = self._doors.filters(server.address)
            if request.release:
                release = filter_rpc.ReleaseFilterRequest(filter=name, version=version)
                return await stub.ReleaseFilter(release, timeout=CALL_SECONDS_MAX)
            stop = filter_rpc.QuarantineFilterRequest(
                filter=name, version=version, cause=request.cause
            )
            return await stub.QuarantineFilter(stop, timeout=CALL_SECONDS_MAX)

        answers = await ask_all(await filter_servers(self._doors), change)
        _some(answers)
        return admin_pb.UpdateFilterQuarantineResponse(outcomes=self._outcomes(answers))

    async def DeleteFilter(
        self, request: admin_pb.DeleteFilterRequest, context: _Context
    ) -> admin_pb.DeleteFilterResponse:
        """Delete a version everywhere, unless a group pulls through it anywhere."""
        name, version = request.filter, request.version
        kept = await self._kept(name, version)
        _some(kept)
        for server, each in kept.given.items():
            if each.consumer_groups:
                raise ServiceError(
                    ErrorReason.ERROR_REASON_FILTER_IN_USE,
                    f"group {each.consumer_groups[0]} pulls through {name}@{version} at {server}",
                    {"consumer_group": each.consumer_groups[0], "filter": name},
                )
        # One of each broker: its FilterServers share a catalogue.
        first = {server.broker_name: server for server in reversed(list(kept.given))}
        asked = filter_rpc.DeleteFilterRequest(filter=name, version=version)
        answers = await ask_all(
            sorted(first.values()),
            lambda server: self._doors.filters(server.address).DeleteFilter(
                asked, timeout=CALL_SECONDS_MAX
            ),
        )
        _some(answers)
        answers.failures.update(_silent(kept))
        return admin_pb.DeleteFilterResponse(outcomes=self._outcomes(answers))

    async def _kept(self, name: str, version: str) -> Answers[filter_pb2.Filter]:
        """One version as all FilterServers keep it."""
        asked = filter_rpc.GetFilterRequest(filter=name, version=version)
        servers = await filter_servers(self._doors)
        return await ask_all(servers, lambda server: kept_filter(self._doors, server, asked))

    def _outcomes(
        self, answers: Answers[Any], *, failed_only: bool = False
    ) -> list[admin_pb.FilterServerOutcome]:
        outcomes = []
        for server in sorted([*answers.given, *answers.failures]):
            outcome = admin_pb.FilterServerOutcome(
                broker_name=server.broker_name, address=server.address
            )
            failure = answers.failures.get(server)
            if failure is not None:
                outcome.error.CopyFrom(self._cluster.translator.status(failure))
            if failure is not None or not failed_only:
                outcomes.append(outcome)
        return outcomes


def _some(answers: Answers[Any]) -> None:
    """Check that there is an answer.

    Raises:
        CallError: There is none; errors of silent FilterServers first, which may have the filter.
    """
    if not answers.given:
        failures = _silent(answers) or answers.failures
        raise next(iter(failures.values()))


def _silent(answers: Answers[Any]) -> dict[FilterServer, CallError]:
    """Failures of FilterServers of brokers from which no FilterServer answered."""
    missing = {s: e for s, e in answers.failures.items() if e.reason == _NOT_FOUND}
    known = {server.broker_name for server in (*answers.given, *missing)}
    return {s: e for s, e in answers.failures.items() if s.broker_name not in known}


def _cluster_filter(answers: Answers[filter_pb2.Filter]) -> admin_pb.ClusterFilter:
    found = admin_pb.ClusterFilter(filter_server_count=len(answers.given) + len(answers.failures))
    for server, each in answers.given.items():
        found.filters[server.address].CopyFrom(each)
    return found
