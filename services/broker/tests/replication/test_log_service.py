"""What a primary says and takes note of on the stream of a replica that follows its log."""

from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace

import pytest

from ariane.replication.v1 import replica_pb2 as replica_pb
from ariane.replication.v1.log_service_pb2 import (
    FollowLogRequest,
    FollowLogResponse,
    ReplicaHello,
    ReplicaProgress,
)
from ariane_broker.replication.copies import Progress
from ariane_broker.replication.log_feed import LogFeed
from ariane_broker.rpc.servicers import replication_servicers
from ariane_broker.rpc.servicers.replication_servicers import LogServicer
from ariane_servicekit import first_request
from ariane_servicekit.errors import ServiceError
from ariane_storage import Store
from ariane_storage.testing import FixedClock, block_of, small_config
from services.broker.tests.log_side import cold_reads
from services.broker.tests.slow_disk import SlowDisk

HELLO = ReplicaHello(
    cluster_name="c",
    broker_name="b",
    broker_id=1,
    epochs=[replica_pb.EpochStart(epoch=1, begin_commit_log_offset=0)],
)

PEER = SimpleNamespace(peer=lambda: "ipv4:127.0.0.1:1")


class NotingPrimary:
    """Hands out one feed and notes what it is told."""

    def __init__(self, store):
        self.reign = SimpleNamespace(broker_id=0, epoch=1)
        self.state_version = 0
        self.feed = LogFeed(store, 0, busy_chunk_count=None)
        self.hellos, self.progress, self.gone = [], [], []

    def follow(self, hello):
        self.hellos.append(hello)
        return self.feed, "the copy"

    def progressed(self, copy, feed, progress):
        self.progress.append((copy, feed, progress))

    def left(self, copy, feed):
        self.gone.append((copy, feed))


@pytest.fixture
def disk():
    return SlowDisk()


@pytest.fixture
def store(tmp_path, disk):
    with Store.open(tmp_path, small_config(), disk=disk, clock=FixedClock()) as store:
        store.copying.begin_epoch(1)
        yield store


@pytest.fixture
def primary(store):
    return NotingPrimary(store)


@pytest.fixture
def said():
    """What a replica says, in order; None ends its side."""
    return asyncio.Queue()


@pytest.fixture
def follow(store, primary, said):
    """Open a stream; a servicer with a lease of a second beats four times in it."""
    servicer = LogServicer(
        primary, store, cold_reads(), cluster_name="c", broker_name="b", lease_s=1
    )

    async def requests():
        while (request := await said.get()) is not None:
            yield request

    def follow(*first):
        for request in first:
            said.put_nowait(request)
        return servicer.FollowLog(requests(), PEER)

    return follow


async def told(stream):
    response = await asyncio.wait_for(anext(stream), 60)
    return FollowLogResponse.FromString(response) if isinstance(response, bytes) else response


@pytest.mark.parametrize("first", [None, FollowLogRequest(progress=ReplicaProgress())])
async def test_a_stream_without_hello_is_refused(follow, primary, first):
    with pytest.raises(ServiceError, match="hello"):
        await told(follow(first))
    assert primary.hellos == []


async def test_a_stream_that_says_nothing_ends(follow, primary, monkeypatch):
    at_once = partial(first_request, wait_s=0.01)
    monkeypatch.setattr(replication_servicers, "first_request", at_once)
    with pytest.raises(ServiceError, match="no request came") as raised:
        await told(follow())
    assert raised.value.row.name == "DEADLINE_PASSED"
    assert primary.hellos == []


@pytest.mark.parametrize(
    ("field", "wrong"), [("cluster_name", "other"), ("broker_name", "other"), ("broker_id", 0)]
)
async def test_a_stranger_is_refused(follow, primary, field, wrong):
    hello = ReplicaHello()
    hello.CopyFrom(HELLO)
    setattr(hello, field, wrong)
    with pytest.raises(ServiceError):
        await told(follow(FollowLogRequest(hello=hello)))
    assert primary.hellos == []


async def test_a_replica_is_welcomed_gets_the_log_and_hears_of_changes(follow, primary, store):
    store.append(block_of("flights", [b"x"]), 0)
    stream = follow(FollowLogRequest(hello=HELLO))
    welcome = (await told(stream)).welcome
    assert (welcome.epoch, welcome.max_commit_log_offset) == (1, store.max_offset)
    assert welcome.silence_max.ToMilliseconds() == 1000
    chunk = (await told(stream)).chunk
    assert (chunk.commit_log_offset, len(chunk.log_bytes)) == (0, store.max_offset)
    primary.state_version = 7
    assert (await told(stream)).heartbeat.state_version == 7
    for body in (b"y", b"z"):
        begin = store.max_offset
        store.append(block_of("flights", [body]), 0)
        assert (await told(stream)).chunk.commit_log_offset == begin
    quiet = await told(stream)
    assert quiet.heartbeat.confirmed_commit_log_offset == store.confirmed_offset
    await stream.aclose()
    assert primary.gone == [("the copy", primary.feed)]


async def test_a_log_that_only_the_disk_has_is_sent_without_making_the_loop_wait(
    follow, store, disk
):
    store.append(block_of("flights", [b"x"]), 0)
    disk.cool_all()
    disk.answers.set()
    stream = follow(FollowLogRequest(hello=HELLO))
    await told(stream)
    assert len((await told(stream)).chunk.log_bytes) == store.max_offset
    assert disk.asked.is_set()
    assert not disk.loop_waits
    await stream.aclose()


async def test_progress_is_noted_and_the_end_of_the_replica_ends_the_stream(follow, primary, said):
    stream = follow(FollowLogRequest(hello=HELLO))
    await told(stream)
    progress = ReplicaProgress(
        received_commit_log_offset=40,
        written_commit_log_offset=30,
        flushed_commit_log_offset=20,
        state_version=4,
    )
    said.put_nowait(FollowLogRequest(progress=progress))
    await told(stream)
    assert primary.progress == [("the copy", primary.feed, Progress(40, 30, 20, 4))]
    said.put_nowait(None)
    async with asyncio.timeout(60):
        assert all([response.HasField("heartbeat") async for response in stream])
    assert primary.feed.is_closed
    assert primary.gone == [("the copy", primary.feed)]
