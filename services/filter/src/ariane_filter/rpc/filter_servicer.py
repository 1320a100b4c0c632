"""``FilterService`` on the wire: the catalogue."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

import asyncio
from typing import Any

from grpc import aio

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane.filter.v1 import filter_pb2 as filter_pb
from ariane.filter.v1 import filter_service_pb2 as service_pb
from ariane.filter.v1.filter_service_pb2_grpc import FilterServiceServicer
from ariane_filter.catalogue.catalogue import CAUSE_BYTES_MAX, Catalogue, KeptFilter
from ariane_filter.catalogue.filter_version import (
    FilterVersion,
    checked_digits,
    checked_name,
    parse_filter_version,
)
from ariane_filter.pulling.sibling_servers import SiblingServers
from ariane_filter.rpc.filter_wire import filter_message
from ariane_filter.running.running_filters import RunningFilters
from ariane_filter.trials import FilterTrials
from ariane_servicekit import ServiceError, field_invalid, get_logger, take_page

_log = get_logger(__name__)


class FilterServicer(FilterServiceServicer):
    """Translates requests to the catalogue."""

    def __init__(
        self,
        catalogue: Catalogue,
        running: RunningFilters,
        trials: FilterTrials,
        siblings: SiblingServers,
    ) -> None:
        self._siblings = siblings
        self._catalogue = catalogue
        self._running = running
        self._trials = trials

    async def UploadFilter(
        self, request: service_pb.UploadFilterRequest, context: aio.ServicerContext[Any, Any]
    ) -> service_pb.UploadFilterResponse:
        """Try a module, and store it."""
        version = FilterVersion.of(checked_name(request.filter), request.module)
        module = self._trials.checked_upload(request.module)
        await self._trials.load(module, str(version))
        duplicate = await asyncio.to_thread(self._catalogue.keep, version, request.module)
        _log.info(
            "filter_uploaded",
            filter=version.name,
            version=version.sha256,
            language=module.language.name.lower(),
            size_bytes=len(request.module),
            duplicate=duplicate,
            peer=context.peer(),
        )
        kept = self._catalogue.find(version.name, version.sha256)
        return service_pb.UploadFilterResponse(filter=self._message(kept), duplicate=duplicate)

    async def GetFilter(
        self, request: service_pb.GetFilterRequest, context: aio.ServicerContext[Any, Any]
    ) -> service_pb.GetFilterResponse:
        """Return one version."""
        kept = self._find(request)
        code = b""
        if request.include_module:
            code = (await asyncio.to_thread(self._catalogue.load, kept.version)).code
        return service_pb.GetFilterResponse(filter=self._message(kept), module=code)

    async def ListFilters(
        self, request: service_pb.ListFiltersRequest, context: aio.ServicerContext[Any, Any]
    ) -> service_pb.ListFiltersResponse:
        """List versions."""
        kept = [
            each
            for each in self._catalogue.all()
            if not request.filter or each.version.name == request.filter
        ]
        page = take_page(
            kept,
            lambda each: (each.version.name, each.version.sha256),
            page_size=request.page_size,
            page_token=request.page_token,
            scope=f"ListFilters:{request.filter}",
        )
        return service_pb.ListFiltersResponse(
            filters=map(self._message, page.entries), next_page_token=page.next_page_token
        )

    async def DeleteFilter(
        self, request: service_pb.DeleteFilterRequest, context: aio.ServicerContext[Any, Any]
    ) -> service_pb.DeleteFilterResponse:
        """Delete one version."""
        kept = self._find(request)
        # Here, and at the other servers, for all of which the version is gone.
        groups = self._running.groups_of(kept.version)
        groups = groups or await self._siblings.groups_of(kept.version)
        if groups:
            raise ServiceError(
                ErrorReason.ERROR_REASON_FILTER_IN_USE,
                f"group {groups[0]!r} pulls through filter {kept.version}",
                {"filter": str(kept.version), "consumer_group": groups[0]},
            )
        await asyncio.to_thread(self._catalogue.delete, kept.version)
        _log.info("filter_deleted", filter=str(kept.version), peer=context.peer())
        return service_pb.DeleteFilterResponse()

    async def QuarantineFilter(
        self, request: service_pb.QuarantineFilterRequest, context: aio.ServicerContext[Any, Any]
    ) -> service_pb.QuarantineFilterResponse:
        """Stop one version."""
        if len(request.cause.encode()) > CAUSE_BYTES_MAX:
            raise field_invalid("cause", f"must be at most {CAUSE_BYTES_MAX} bytes")
        kept = self._find(request)
        if not kept.quarantine_cause:
            await asyncio.to_thread(self._catalogue.quarantine, kept.version, request.cause)
            _log.warning(
                "filter_quarantined",
                filter=str(kept.version),
                cause=request.cause,
                peer=context.peer(),
            )
        return service_pb.QuarantineFilterResponse(filter=self._message(self._find(request)))

    async def ReleaseFilter(
        self, request: service_pb.ReleaseFilterRequest, context: aio.ServicerContext[Any, Any]
    ) -> service_pb.ReleaseFilterResponse:
        """Let one version run again."""
        kept = self._find(request)
        await asyncio.to_thread(self._catalogue.release, kept.version)
        _log.info("filter_release_asked", filter=str(kept.version), peer=context.peer())
        return service_pb.ReleaseFilterResponse(filter=self._message(self._find(request)))

    async def TryFilter(
        self, request: service_pb.TryFilterRequest, context: aio.ServicerContext[Any, Any]
    ) -> service_pb.TryFilterResponse:
        """Run a filter over stored messages."""
        if request.WhichOneof("subject") == "module":
            module, subject = self._trials.checked_upload(request.module), "module"
        else:
            kept = self._catalogue.find(*parse_filter_version(request.filter))
            subject = str(kept.version)
            module = await asyncio.to_thread(self._catalogue.load, kept.version)
        verdicts = await self._trials.run(module, subject, request.ranges)
        return service_pb.TryFilterResponse(verdicts=verdicts)

    def _find(
        self,
        request: (
            service_pb.GetFilterRequest
            | service_pb.DeleteFilterRequest
            | service_pb.QuarantineFilterRequest
            | service_pb.ReleaseFilterRequest
        ),
    ) -> KeptFilter:
        return self._catalogue.find(checked_name(request.filter), checked_digits(request.version))

    def _message(self, kept: KeptFilter) -> filter_pb.Filter:
        return filter_message(kept, self._running.groups_of(kept.version))
