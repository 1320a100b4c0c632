"""What scenarios ask of a primary and its replicas."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from grpc import aio

from ariane.replication.v1 import replica_set_service_pb2 as set_pb
from ariane.replication.v1.replica_set_service_pb2_grpc import ReplicaSetServiceStub
from ariane_testkit.closed_clusters import open_aio_channel


async def state_of(process):
    async with open_aio_channel(process.address) as channel:
        stub = ReplicaSetServiceStub(channel)
        return await stub.GetReplicaSet(set_pb.GetReplicaSetRequest(), timeout=5)


async def in_sync(process, *broker_ids):
    async with asyncio.timeout(60):
        while True:
            with suppress(aio.AioRpcError):  # It is about to become what it was elected to be.
                found = await state_of(process)
                if found.has_lease and list(found.replica_set.in_sync_broker_ids) == [*broker_ids]:
                    return found
            await asyncio.sleep(0.1)


async def reigning(brokers):
    """Who is primary now."""
    async with asyncio.timeout(60):
        while True:
            for process in brokers:
                with suppress(aio.AioRpcError):
                    if process.running and (await state_of(process)).has_lease:
                        return process
            await asyncio.sleep(0.1)
