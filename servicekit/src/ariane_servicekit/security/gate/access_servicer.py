"""``AccessService``: how a process is told rules, and tells what it refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp
from grpc import aio
from typing_extensions import override

from ariane.common.v1 import access_service_pb2 as access_pb
from ariane.common.v1.access_rules_pb2 import AccessRules
from ariane.common.v1.access_service_pb2_grpc import (
    AccessServiceServicer,
    add_AccessServiceServicer_to_server,
)
from ariane_servicekit.errors import field_invalid
from ariane_servicekit.rpc.pages import take_page
from ariane_servicekit.rpc.server import RpcService
from ariane_servicekit.security.gate.gate import Gate
from ariane_servicekit.security.gate.rules_keeper import RulesKeeper
from ariane_servicekit.security.rules.use_ledger import Refusal, Use, UseCount

RULES_BYTES_MAX: Final = 64 << 20
"""The most bytes of rules: some 100,000 users."""


_Request = access_pb.PushAccessRulesRequest


class AccessServicer(AccessServiceServicer):
    """Translates rules and refusals."""

    def __init__(self, gate: Gate, keeper: RulesKeeper) -> None:
        self._gate = gate
        self._keeper = keeper
        self._closed = asyncio.Event()

    def close(self) -> None:
        """End streams of rules: a server that stops would wait for them."""
        self._closed.set()

    @override
    async def PushAccessRules(
        self,
        request_iterator: AsyncIterator[access_pb.PushAccessRulesRequest],
        context: aio.ServicerContext[Any, Any],
    ) -> AsyncIterator[access_pb.PushAccessRulesResponse]:
        yield access_pb.PushAccessRulesResponse(version=self._keeper.version)
        gathered = AccessRules()
        size_bytes = 0
        async for request in _until(self._closed, request_iterator):
            self._keeper.confirm()
            if not request.HasField("part"):
                continue
            size_bytes += request.ByteSize()
            if size_bytes > RULES_BYTES_MAX:
                raise field_invalid("part", f"must not make more than {RULES_BYTES_MAX} bytes")
            gathered.MergeFrom(request.part)
            if request.last:
                if self._keeper.take(gathered):
                    await asyncio.to_thread(self._keeper.save, gathered)
                yield access_pb.PushAccessRulesResponse(version=self._keeper.version)
                gathered, size_bytes = AccessRules(), 0

    @override
    async def ListAccessUses(
        self, request: access_pb.ListAccessUsesRequest, context: aio.ServicerContext[Any, Any]
    ) -> access_pb.ListAccessUsesResponse:
        page = take_page(
            self._gate.ledger.uses(request.user),
            lambda each: tuple(each[0]),
            page_size=request.page_size,
            page_token=request.page_token,
            scope=f"uses:{request.user}",
        )
        return access_pb.ListAccessUsesResponse(
            uses=(_use_message(use, counted) for use, counted in page.entries),
            next_page_token=page.next_page_token,
        )

    @override
    async def GetAccessRefusal(
        self, request: access_pb.GetAccessRefusalRequest, context: aio.ServicerContext[Any, Any]
    ) -> access_pb.GetAccessRefusalResponse:
        refusal = self._gate.ledger.refusal(request.request_id)
        found = None if refusal is None else _refusal_message(refusal)
        return access_pb.GetAccessRefusalResponse(refusal=found)


async def _until(end: asyncio.Event, requests: AsyncIterator[_Request]) -> AsyncIterator[_Request]:
    """Requests of a stream for as long as an event has not happened."""

    async def read() -> _Request | None:
        return await anext(requests, None)

    ending = asyncio.create_task(end.wait())
    try:
        while True:
            reading = asyncio.create_task(read())
            await asyncio.wait((ending, reading), return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                reading.cancel()
                return
            request = reading.result()
            if request is None:
                return
            yield request
    finally:
        ending.cancel()


def access_rpc_service(servicer: AccessServicer) -> RpcService:
    """The service in the form for a server."""
    descriptor = access_pb.DESCRIPTOR.services_by_name["AccessService"]
    return RpcService(descriptor, add_AccessServiceServicer_to_server, servicer)


def _use_message(use: Use, counted: UseCount) -> access_pb.AccessUse:
    return access_pb.AccessUse(
        user=use.user,
        action=use.action,  # type: ignore[arg-type]  # it came from the contract
        resource=use.resource,  # type: ignore[arg-type]
        name=use.name,
        count=counted.count,
        refused_count=counted.refused_count,
    )


def _refusal_message(refusal: Refusal) -> access_pb.AccessRefusal:
    time = Timestamp()
    time.FromMilliseconds(refusal.time_ms)
    message = access_pb.AccessRefusal(
        request_id=refusal.request_id,
        time=time,
        method=refusal.method,
        caller=refusal.caller,
        source_address=refusal.source_address,
        cause=refusal.cause,
        entry=refusal.entry,
        let_through=refusal.let_through,
    )
    use = refusal.use
    if use is not None:
        message.action = use.action  # type: ignore[assignment]
        message.resource = use.resource  # type: ignore[assignment]
        message.name = use.name
    return message
