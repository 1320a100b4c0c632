"""FilterServers inside the test's own loop, beside a real broker; flights to be filtered."""

import asyncio
import itertools
import time
import zlib
from contextlib import AsyncExitStack
from dataclasses import dataclass

import numpy as np
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from grpc import aio
from grpc_status import rpc_status

from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.broker.v1.pull_service_pb2_grpc import PullServiceStub
from ariane.broker.v1.send_service_pb2_grpc import SendServiceStub
from ariane.common.v1 import subscription_pb2 as subscription_pb
from ariane.filter.v1 import filter_server_service_pb2 as server_pb
from ariane.filter.v1 import filter_service_pb2 as filter_pb
from ariane.filter.v1.filter_server_service_pb2_grpc import FilterServerServiceStub
from ariane.filter.v1.filter_service_pb2_grpc import FilterServiceStub
from ariane_filter.app import FilterApp
from ariane_filter.jail.errors import JailUnavailable
from ariane_filter.jail.limits import FilterLanguage, FilterModule, JailLimits
from ariane_filter.jail.process import JailLauncher
from ariane_filter.jail.worker_handle import WorkerHandle
from ariane_filter.settings import FilterSettings
from ariane_record.decoding.columns import decode_columns
from ariane_record.layout import SystemFlag
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_servicekit import Address, serving
from ariane_testkit.append_rows import row_of, rows_request

LATE = b"""
def matches(message):
    properties = message.properties
    return properties["origin"] == "JFK" and int(properties["dep_delay"]) > 60
"""
ORIGINS = ("JFK", "LGA", "EWR")
COMPRESSED = int(SystemFlag.COMPRESSED | SystemFlag.COMPRESSION_ZLIB)
_groups = itertools.count()


@pytest.fixture(scope="session")
def jail():
    """A kernel that can jail; elsewhere nothing runs that could be tested."""

    async def try_one():
        module = FilterModule(FilterLanguage.PYTHON, b"def matches(message): return True")
        worker = await WorkerHandle.start(
            module, JailLimits(), launch=JailLauncher(), monotonic=time.monotonic
        )
        await worker.end()

    try:
        asyncio.run(try_one())
    except JailUnavailable as missing:
        pytest.skip(f"no jail here: {missing}")


class FilterServerProbe:
    """Stubs of one FilterServer, and the few calls that most tests need."""

    def __init__(self, address, stack):
        self.address = str(address)
        channel = aio.insecure_channel(self.address)
        stack.push_async_callback(channel.close)
        self.pulls = PullServiceStub(channel)
        self.filters = FilterServiceStub(channel)
        self.server = FilterServerServiceStub(channel)

    async def upload(self, code=LATE, name="late"):
        """Name and version, as subscriptions write them."""
        request = filter_pb.UploadFilterRequest(filter=name, module=code)
        kept = (await self.filters.UploadFilter(request)).filter
        return f"{kept.filter}@{kept.version[:12]}"

    async def state(self):
        return await self.server.GetFilterServerState(server_pb.GetFilterServerStateRequest())

    def pull_call(self, topic, filter_version, queue_offset=0, *, hold_s=0.0, group="", **fields):
        request = pull_pb.PullRecordsRequest(
            consumer_group=group or f"group-{next(_groups)}",
            positions=[pull_pb.PullPosition(topic=topic, queue_offset=queue_offset)],
            subscriptions=[self.subscription(topic, filter_version)],
            **fields,
        )
        request.hold_duration.FromMilliseconds(round(hold_s * 1000))
        return self.pulls.PullRecords(request)

    @staticmethod
    def subscription(topic, filter_version):
        return subscription_pb.Subscription(
            topic=topic,
            filter=subscription_pb.FilterExpression(
                kind=subscription_pb.FILTER_KIND_UPLOADED, text=filter_version
            ),
        )

    async def pull(self, *arguments, **options):
        (queue,) = (await self.pull_call(*arguments, **options)).queues
        return queue

    async def until_asked(self, group):
        """Wait until a pull of a group has come in."""
        async with asyncio.timeout(60):
            while not await self._has_asked(group):  # noqa: ASYNC110 - there is nothing to be told by
                await asyncio.sleep(0.01)

    async def _has_asked(self, group):
        return any(group in worker.consumer_groups for worker in (await self.state()).workers)

    async def quarantine(self, filter_version, cause="too wild"):
        name, _, version = filter_version.partition("@")
        await self.filters.QuarantineFilter(
            filter_pb.QuarantineFilterRequest(filter=name, version=version, cause=cause)
        )

    async def release(self, filter_version):
        name, _, version = filter_version.partition("@")
        await self.filters.ReleaseFilter(
            filter_pb.ReleaseFilterRequest(filter=name, version=version)
        )


@pytest.fixture
async def start_filter_server(jail, ariane_cluster, tmp_path):
    """Start FilterServers beside the session's broker; those of a test share a catalogue."""
    stacks = []

    async def start(*, await_broker=True, **changes):
        values = {
            "listen": Address("127.0.0.1", 0),
            "broker": Address.parse(ariane_cluster.broker_address),
            "data_path": tmp_path / "filters",
            "uploads": "any",
            "batch_s": 120.0,
            "start_s": 120.0,
            "grace_s": 0.1,
        }
        channels, life = AsyncExitStack(), AsyncExitStack()
        stacks.extend((life, channels))
        address = await life.enter_async_context(
            serving(FilterSettings(**(values | changes)), FilterApp)
        )
        probe = FilterServerProbe(address, channels)
        probe.stop = life.aclose
        async with asyncio.timeout(60):
            # Then it stands in the routes, too.
            while await_broker and not (await probe.state()).broker_name:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
        return probe

    yield start
    for stack in reversed(stacks):
        await stack.aclose()


@pytest.fixture
async def filter_server(start_filter_server):
    return await start_filter_server()


@pytest.fixture
def store(ariane_cluster):
    """Store flights in queue 0 of a topic: three origins in turn, delays from 0 up."""

    async def make(topic, count=300, *, damaged=(), compressed=False):
        encoder = BlockEncoder(topic, size_bytes_max=4 << 20)
        for number in range(count):
            body = b"%d" % number
            packed = compressed or number in damaged
            encoder.add(
                zlib.compress(body) if packed and number not in damaged else body,
                system_flag=COMPRESSED if packed else 0,
                born_timestamp_ms=1,
                properties={"origin": ORIGINS[number % 3], "dep_delay": str(number)},
            )
        row = row_of(encoder.finish())
        async with aio.insecure_channel(ariane_cluster.broker_address) as channel:
            answer = await SendServiceStub(channel).AppendRecords(rows_request([row]))
            assert not answer.table_result.rows

    return make


@pytest.fixture
def numbers_of():
    """The numbers of the flights in a pulled queue."""

    def read(queue):
        assert not queue.HasField("error"), queue.error
        columns = decode_columns(queue.records, np.frombuffer(queue.record_sizes, "<i4"))
        return [int(body) for body in columns.bodies()]

    return read


@dataclass
class Failure:
    """What a status says."""

    reason: str
    metadata: dict


@pytest.fixture
def failure_of():
    """Reason and metadata of a status, or of an error of gRPC."""

    def read(status):
        if isinstance(status, aio.AioRpcError):
            status = rpc_status.from_call(status)
        info = ErrorInfo()
        assert any(detail.Unpack(info) for detail in status.details), status
        return Failure(info.reason, dict(info.metadata))

    return read


@pytest.fixture
def refused(failure_of):
    """Await a call that must fail; give what its status says."""

    async def await_refusal(call):
        with pytest.raises(aio.AioRpcError) as raised:
            await call
        return failure_of(raised.value)

    return await_refusal
