"""A FilterServer beside a replica: it has what the primary's FilterServers have, and no group."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from grpc import aio
from grpc_status import rpc_status

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane.filter.v1 import filter_registration_service_pb2 as registration_pb
from ariane.filter.v1 import filter_service_pb2 as filter_pb
from ariane.filter.v1.filter_registration_service_pb2_grpc import (
    FilterRegistrationServiceServicer,
    FilterRegistrationServiceStub,
    add_FilterRegistrationServiceServicer_to_server,
)
from ariane_filter import app
from ariane_servicekit import Address, ServiceError
from ariane_servicekit.rpc.error_status import status_of

ALL = b"def matches(message): return True"


class Replica(FilterRegistrationServiceServicer):
    """Refuses FilterServers as replicas do, until it takes over."""

    def __init__(self, primary):
        self.primary = primary
        self.registered = []

    async def RegisterFilterServer(self, request, context):  # noqa: N802 - the contract's name
        if self.primary:
            error = ServiceError(
                ErrorReason.ERROR_REASON_BROKER_NOT_PRIMARY,
                "this broker is not the primary",
                {"primary": self.primary},
            )
            await context.abort_with_status(rpc_status.to_status(status_of(error)))
        self.registered.append(request.address)
        answer = registration_pb.RegisterFilterServerResponse(broker_name="taken-over")
        answer.heartbeat_interval.FromSeconds(10)
        return answer


@asynccontextmanager
async def serving_replica(primary):
    server = aio.server()
    replica = Replica(primary)
    add_FilterRegistrationServiceServicer_to_server(replica, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield replica, Address("127.0.0.1", port)
    finally:
        await server.stop(None)


async def until(condition):
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110 - there is nothing to be told by
            await asyncio.sleep(0.02)


async def kept_by(server):
    answer = await server.filters.ListFilters(filter_pb.ListFiltersRequest())
    return {f"{each.filter}@{each.version[:12]}": each.quarantine_cause for each in answer.filters}


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(app, "COPY_INTERVAL_S", 0.05)


async def test_the_primarys_filters_are_there_when_it_takes_over(
    quick, start_filter_server, ariane_cluster, tmp_path
):
    first = await start_filter_server()
    version = await first.upload()
    bad = await first.upload(ALL, "bad")
    await first.quarantine(bad, "drops flights")
    async with serving_replica(ariane_cluster.broker_address) as (replica, address):
        second = await start_filter_server(
            broker=address, data_path=tmp_path / "other", uploads="off", await_broker=False
        )

        async def same():
            return await kept_by(second) == await kept_by(first)

        await until(same)
        assert await kept_by(second) == {version: "", bad: "drops flights"}
        await first.release(bad)
        late = await first.upload(b"def matches(message): return False", "late")
        await until(same)
        assert late in await kept_by(second)
        # Nothing there is taken for nothing to be kept here: a disk may have been replaced.
        name, _, digits = late.partition("@")
        await first.filters.DeleteFilter(filter_pb.DeleteFilterRequest(filter=name, version=digits))
        await first.upload(ALL, "behind-it")

        async def has_the_next():
            return any(each.startswith("behind-it@") for each in await kept_by(second))

        await until(has_the_next)
        assert late in await kept_by(second)
        replica.primary = ""

        async def is_registered():
            return (await second.state()).broker_name == "taken-over"

        await until(is_registered)
        assert replica.registered[0] == second.address


async def test_a_full_catalogue_makes_room_for_what_the_primary_has(
    quick, start_filter_server, ariane_cluster, tmp_path
):
    first = await start_filter_server()
    old = await first.upload(ALL, "old")
    async with serving_replica(ariane_cluster.broker_address) as (_, address):
        second = await start_filter_server(
            broker=address, data_path=tmp_path / "other", filters_max=2, await_broker=False
        )

        async def has(*versions):
            return set(await kept_by(second)) == set(versions)

        await until(lambda: has(old))
        name, _, digits = old.partition("@")
        await first.filters.DeleteFilter(filter_pb.DeleteFilterRequest(filter=name, version=digits))
        new = await first.upload(ALL, "z-new")
        await until(lambda: has(old, new))
        newer = await first.upload(ALL, "z-newer")
        await until(lambda: has(new, newer))
        # More than there is room for: what is here is kept, and stopped as it is there.
        await first.upload(ALL, "a-before")
        await first.quarantine(newer, "drops flights")

        async def is_stopped():
            return await kept_by(second) == {new: "", newer: "drops flights"}

        await until(is_stopped)


async def test_a_primary_tells_its_filter_servers(start_filter_server, ariane_cluster):
    servers = [await start_filter_server() for _ in range(2)]
    async with aio.insecure_channel(ariane_cluster.broker_address) as channel:
        stub = FilterRegistrationServiceStub(channel)
        told = await stub.GetFilterServers(registration_pb.GetFilterServersRequest())
    assert {server.address for server in servers} <= set(told.addresses)
