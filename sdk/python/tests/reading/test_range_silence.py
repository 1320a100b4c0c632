"""Ranges of brokers that send no more: frozen ones end the reading, slow ones do not."""

import asyncio
import os
import signal
from contextlib import asynccontextmanager

import grpc
import numpy as np
import pytest
from google.rpc.status_pb2 import Status

import ariane_wire
from ariane.broker.v1.pull_service_pb2 import ListQueueBoundsResponse, PullRangeResponse
from ariane.broker.v1.pull_service_pb2_grpc import (
    PullServiceServicer,
    add_PullServiceServicer_to_server,
)
from ariane_record import RecordFields, encode_record
from ariane_sdk import ClusterClient, Message, MessageQueue, Producer, QueueReader, errors

QUEUE = MessageQueue("orders", "broker-a", 0)
CALL_TIMEOUT_S = 0.25
PATIENCE_S = 1.0


class ScriptedRanges(PullServiceServicer):
    """Sends a range, a message in each chunk."""

    def __init__(self):
        self.before = {}
        """What is waited for before each chunk, by its queue offset."""
        self.leads_to = {}
        """The next queue offset of chunks that lie about it, by their queue offset."""
        self.bounds = None
        """What it answers when asked for its bounds; never, if that is nothing."""
        self.asked_count = 0
        """How often it was asked for its bounds."""
        self.ranges = []
        """The begins of the ranges that it was asked for."""
        self.asked = asyncio.Event()
        """Set when it is asked for its bounds."""
        self.left = asyncio.Event()
        """Set when a range is given up by who asked for it."""

    async def PullRange(self, request, context):  # noqa: N802 - the contract's name.
        self.ranges.append(request.begin_queue_offset)
        try:
            for queue_offset in range(request.begin_queue_offset, request.end_queue_offset):
                if queue_offset in self.before:
                    await self.before[queue_offset]()
                fields = RecordFields(
                    topic="orders",
                    body=b"%d" % queue_offset,
                    properties={},
                    queue_offset=queue_offset,
                )
                record = encode_record(fields)
                yield PullRangeResponse(
                    next_queue_offset=self.leads_to.get(queue_offset, queue_offset + 1),
                    record_sizes=np.array([len(record)], "<i4").tobytes(),
                    records=record,
                )
        except asyncio.CancelledError:
            self.left.set()
            raise

    async def ListQueueBounds(self, request, context):  # noqa: N802 - the contract's name.
        self.asked_count += 1
        self.asked.set()
        if self.bounds is None:
            await asyncio.Event().wait()
        if isinstance(self.bounds, Status):
            details = ("grpc-status-details-bin", self.bounds.SerializeToString())
            context.set_trailing_metadata((details,))
            await context.abort(grpc.StatusCode.UNAVAILABLE, "scripted")
        if isinstance(self.bounds, grpc.StatusCode):
            await context.abort(self.bounds, "scripted")
        return self.bounds


@asynccontextmanager
async def served():
    """A process that sends ranges of ``QUEUE``, and its address."""
    scripted = ScriptedRanges()
    server = ariane_wire.server()
    add_PullServiceServicer_to_server(scripted, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield scripted, f"127.0.0.1:{port}"
    await server.stop(None)


@pytest.fixture
async def broker(world):
    """A broker that sends ranges of ``QUEUE``."""
    async with served() as (scripted, address):
        world.name_server.set_route("orders", {"broker-a": address})
        yield scripted


@pytest.fixture
async def replica(world, broker):
    """The replica of the broker."""
    async with served() as (scripted, address):
        world.name_server.routes["orders"].brokers[0].addresses[1] = address
        yield scripted


@pytest.fixture
async def reader(world):
    async with QueueReader(
        world.name_servers, call_timeout_s=CALL_TIMEOUT_S, patience_s=PATIENCE_S
    ) as running:
        yield running


async def never():
    await asyncio.Event().wait()


async def bodies(reader, count, read=None):
    """What is read of a range, also put into ``read`` as it comes."""
    read = [] if read is None else read
    async for columns in reader.read_range(QUEUE, 0, count):
        read += [bytes(body) for body in columns.bodies()]
    return read


async def test_a_broker_that_sends_no_more_and_answers_nothing_else_ends_the_reading(
    broker, reader
):
    broker.before[2] = never
    read = []

    async with asyncio.timeout(60):
        with pytest.raises(errors.DeadlinePassed, match="broker broker-a at") as caught:
            await bodies(reader, 5, read)
        await broker.left.wait()

    assert read == [b"0", b"1"]
    assert set(broker.ranges) == {0, 2}
    assert caught.value.retriable
    assert not caught.value.outcome_unknown


@pytest.mark.parametrize("to", [1, 2])
async def test_a_broker_that_leads_back_in_the_range_ends_the_reading(broker, reader, to):
    broker.leads_to[2] = to
    read = []

    async with asyncio.timeout(60):
        with pytest.raises(errors.RecordDamaged, match=f"leads back from 2 to {to}"):
            await bodies(reader, 5, read)

    assert read == [b"0", b"1"]
    assert broker.ranges == [0]


async def test_a_replica_is_read_where_the_primary_sends_no_more(world, broker, replica):
    broker.before[2] = never

    async with (
        QueueReader(world.name_servers, replicas=True, call_timeout_s=CALL_TIMEOUT_S) as reader,
        asyncio.timeout(60),
    ):
        assert await bodies(reader, 5) == [b"0", b"1", b"2", b"3", b"4"]

    assert (broker.ranges, replica.ranges) == ([0], [2])


async def test_a_slow_replica_is_asked_itself_whether_it_lives(world, broker, replica):
    broker.before[0] = never
    replica.bounds = ListQueueBoundsResponse()
    replica.before[1] = replica.asked.wait

    async with (
        QueueReader(world.name_servers, replicas=True, call_timeout_s=CALL_TIMEOUT_S) as reader,
        asyncio.timeout(60),
    ):
        assert await bodies(reader, 3) == [b"0", b"1", b"2"]

    assert replica.ranges == [0]


async def test_so_does_one_that_sends_nothing_at_all(broker, reader):
    broker.before[0] = never

    async with asyncio.timeout(60):
        with pytest.raises(errors.DeadlinePassed):
            await bodies(reader, 5)


@pytest.mark.parametrize("answer", ["bounds", "unimplemented", "busy"])
async def test_a_broker_that_is_slow_and_answers_is_waited_for(broker, reader, answer, make_status):
    async def slowly():
        enough = broker.asked_count + 2
        async with asyncio.timeout(60):
            while broker.asked_count < enough:  # noqa: ASYNC110 - a short one.
                await asyncio.sleep(0.01)

    broker.before = {1: slowly, 3: slowly}
    broker.bounds = {
        "bounds": ListQueueBoundsResponse(),
        "unimplemented": grpc.StatusCode.UNIMPLEMENTED,
        "busy": make_status(grpc.StatusCode.UNAVAILABLE, "SERVICE_BUSY"),
    }[answer]

    assert await bodies(reader, 4) == [b"0", b"1", b"2", b"3"]
    assert broker.ranges == [0]
    assert broker.asked.is_set()


async def test_who_takes_long_over_a_chunk_is_not_the_brokers_fault(broker, reader):
    read = []
    async for columns in reader.read_range(QUEUE, 0, 3):
        read += columns.queue_offset.tolist()
        await asyncio.sleep(2 * CALL_TIMEOUT_S)

    assert read == [0, 1, 2]
    assert not broker.asked.is_set()


async def test_a_chunk_that_comes_while_the_broker_is_asked_is_taken(broker, reader):
    broker.before[1] = broker.asked.wait

    assert await bodies(reader, 3) == [b"0", b"1", b"2"]


async def test_who_reads_may_leave_while_nothing_comes(broker, reader):
    broker.before[1] = never
    reading = asyncio.create_task(bodies(reader, 3))
    await asyncio.wait_for(broker.asked.wait(), 60)

    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await asyncio.wait_for(broker.left.wait(), 60)


async def test_a_frozen_broker_ends_the_reading(fragile_cluster):
    [process] = fragile_cluster.brokers
    async with ClusterClient(fragile_cluster.name_servers) as client:
        await client.create_topic("frozen")
    queue = MessageQueue("frozen", "broker-a", 0)
    async with Producer(fragile_cluster.name_servers) as producer:
        # More than gRPC reads ahead.
        large = Message("frozen", bytes(500_000))
        await asyncio.gather(*(producer.send(large, message_queue=queue) for _ in range(40)))
    ends = []

    async def read_and_freeze(reader):
        async for columns in reader.read_range(queue, 0, 40):
            ends.append(int(columns.queue_offset[-1]) + 1)
            os.kill(process.pid, signal.SIGSTOP)

    async with (
        QueueReader(fragile_cluster.name_servers, call_timeout_s=1.0, patience_s=1.0) as reader,
        asyncio.timeout(60),
    ):
        try:
            with pytest.raises(errors.DeadlinePassed):
                await read_and_freeze(reader)
        finally:
            os.kill(process.pid, signal.SIGCONT)
    assert 0 < ends[-1] < 40
    async with QueueReader(fragile_cluster.name_servers) as reader:
        rest = [columns async for columns in reader.read_range(queue, ends[-1], 40)]
    assert sum(map(len, rest)) == 40 - ends[-1]
