"""Processes that are asked about a user, also ones that were taken over."""

from __future__ import annotations

import asyncio

import pytest

import ariane_wire
from ariane.common.v1 import access_service_pb2 as access_pb
from ariane.common.v1.access_service_pb2_grpc import (
    AccessServiceServicer,
    add_AccessServiceServicer_to_server,
)
from ariane_admin.users.processes import AskedProcesses


class Endless(AccessServiceServicer):
    """Gives pages without end, of some uses each."""

    def __init__(self, page):
        self.page = page
        self.asked = 0

    async def ListAccessUses(self, request, context):  # noqa: N802 - the contract's.
        self.asked += 1
        uses = [access_pb.AccessUse(name="a")] * self.page
        return access_pb.ListAccessUsesResponse(uses=uses, next_page_token="more")


@pytest.mark.parametrize(
    ("page", "asked", "uses", "is_silent"),
    [(0, 1, 0, False), (1, 40, 0, True), (1000, 20, 20_000, False)],
)
async def test_a_process_that_gives_pages_without_end_keeps_nobody(page, asked, uses, is_silent):
    process, server = Endless(page), ariane_wire.server()
    add_AccessServiceServicer_to_server(process, server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()

    async def processes():
        return {address}

    try:
        async with asyncio.timeout(20):
            found = await AskedProcesses(processes).uses_of("anna")
    finally:
        await server.stop(None)

    assert process.asked == asked
    assert len(found.uses) == uses
    assert found.silent == ([address] if is_silent else [])
