"""A replica and its primary over gRPC: whose store is refused, and what comes in which order."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
from grpc import aio

from ariane.replication.v1.log_service_pb2 import FollowLogResponse
from ariane.replication.v1.log_service_pb2_grpc import add_LogServiceServicer_to_server
from ariane.replication.v1.state_service_pb2_grpc import add_StateServiceServicer_to_server
from ariane_broker.errors.replication import log_diverged
from ariane_broker.following import log_mending, state_pulls
from ariane_broker.following.log_mending import LogMending
from ariane_broker.following.replica_client import FollowEnvironment, ReplicaClient, ReplicaIdentity
from ariane_broker.following.state_pulls import StatePull, StatePulls
from ariane_broker.replication.log_feed import LogFeed
from ariane_broker.replication.log_taker import CannotFollow, LogTaker
from ariane_broker.replication.state_copies import StateCopies, StatePart
from ariane_broker.rpc.servicers.replication_servicers import LogServicer, StateServicer
from ariane_storage import Store
from ariane_storage.copying.log_copy import LogRange
from ariane_storage.testing import FaultyDisk, FixedClock, block_of, small_config
from services.broker.tests.log_side import cold_reads

CONFIG = Path("/config")


class EmptyPrimary:
    """Has no message; refuses whom it is told to."""

    def __init__(self, store):
        self.reign = SimpleNamespace(broker_id=0, epoch=1)
        self.state_version = 3
        self.state = state_of("primary")
        self.refusal = None
        self.progress = asyncio.Queue()
        self.store = store

    def follow(self, hello):
        self.hello = hello
        if self.refusal is not None:
            raise self.refusal
        self.feed = LogFeed(self.store, 0, busy_chunk_count=None)
        return self.feed, "the copy"

    def progressed(self, _copy, _feed, progress):
        self.progress.put_nowait(progress)

    def left(self, _copy, _feed):
        pass


class PlainLogServicer(LogServicer):
    """Answers with messages, as a plain server of gRPC encodes them."""

    async def FollowLog(self, requests, context):  # noqa: N802 - the contract's name.
        async for response in super().FollowLog(requests, context):
            is_raw = isinstance(response, bytes)
            yield FollowLogResponse.FromString(response) if is_raw else response


def new_store(folder, disk=None):
    return Store.open(folder, small_config(), disk=disk or FaultyDisk(), clock=FixedClock())


def state_of(owner):
    state = StateCopies(FaultyDisk(), CONFIG)
    state.put(StatePart("topics.json", b'{"owner": "%s"}' % owner.encode()))
    return state


@pytest.fixture
async def primary(tmp_path):
    """It serves at ``address``."""
    with new_store(tmp_path / "primary") as store:
        store.copying.begin_epoch(1)
        primary = EmptyPrimary(store)
        server = aio.server()
        log = PlainLogServicer(
            primary, store, cold_reads(), cluster_name="c", broker_name="b", lease_s=60
        )
        add_LogServiceServicer_to_server(log, server)
        add_StateServiceServicer_to_server(StateServicer(primary, store, primary.state), server)
        primary.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        yield primary
        await server.stop(None)


@pytest.fixture
def replica(tmp_path):
    """A client, and its state files."""

    async def nothing():
        pass

    state = state_of("replica")
    with new_store(tmp_path / "replica", state.disk) as store, ThreadPoolExecutor(1) as keeper:
        client = ReplicaClient(
            FollowEnvironment(
                ReplicaIdentity("c", "b", 1),
                keeper=keeper,
                flusher=keeper,
                is_sync_flush=False,
                chance=Random(1),
            ),
            store,
            LogTaker(store, state.forget_snapshots),
            StatePulls(store, state, keeper, interval_s=60, sleep=asyncio.sleep, on_state=nothing),
            LogMending(
                store,
                keeper,
                set_begin=lambda: 0,
                forget_snapshots=state.forget_snapshots,
                on_mended=lambda: None,
            ),
            is_relied_on=lambda: client.is_in_sync,
            on_taken=lambda: None,
        )
        client.is_in_sync = False
        yield client, state


async def test_a_store_that_is_refused_stays_as_it_is(primary, replica):
    client, state = replica
    before = state.versions()
    primary.refusal = log_diverged("no epoch is in both logs", 0, 0)
    with pytest.raises(aio.AioRpcError):
        await client.follow(primary.address, 1, lambda: None)
    assert state.versions() == before


async def test_the_state_is_there_before_the_primary_hears_of_the_copy(primary, replica):
    client, state = replica
    following = asyncio.create_task(client.follow(primary.address, 1, lambda: None))
    progress = await asyncio.wait_for(primary.progress.get(), 60)
    assert progress.state_version == primary.state_version
    assert state.versions() == primary.state.versions()
    following.cancel()
    await asyncio.wait([following])


async def test_a_deletion_is_copied_once_all_that_it_deletes_is_here(primary, replica, tmp_path):
    """Before, the rest would come back as a topic of its name when this broker is elected."""
    client, state = replica
    for number in range(100):
        primary.store.append(block_of("flights", [b"%d" % number]), 0)
    primary.store.keeping.delete_queues("flights")
    ends = {"flights": primary.store.max_offset}
    following = asyncio.create_task(client.follow(primary.address, 1, lambda: None))
    async with asyncio.timeout(60):
        while (progress := await primary.progress.get()).state_version != primary.state_version:
            pass
    assert progress.written >= ends["flights"]
    assert client._store.copying.deleted_topic_ends == ends
    following.cancel()
    await asyncio.wait([following])
    client._store.close()
    with new_store(tmp_path / "replica", state.disk) as store:
        assert store.queues() == []


async def test_nothing_is_written_while_records_of_a_deleted_topic_are_awaited(replica, tmp_path):
    client, state = replica
    store, noted, slept = client._store, [], []

    class CountingStore(SimpleNamespace):
        @property
        def max_offset(self):
            return store.max_offset

    async def sleep(_):
        slept.append(noted.copy())
        if len(slept) == 5:
            store.append(block_of("flights", [b"deleted"]), 0)
        await asyncio.sleep(0)

    def note(ends):
        noted.append(store.max_offset)
        store.copying.note_deleted(ends)

    with new_store(tmp_path / "primary") as primary_store:
        primary_store.append(block_of("flights", [b"deleted"]), 0)
        end = primary_store.max_offset
    counting = CountingStore(flush=store.flush, copying=SimpleNamespace(note_deleted=note))
    with ThreadPoolExecutor(1) as keeper:
        pulls = StatePulls(
            counting, state, keeper, interval_s=60, sleep=sleep, on_state=client._pulls._on_state
        )
        pull = StatePull(end, {"flights": end}, [], 3)
        await asyncio.wait_for(pulls._put(pull, wait=True), 60)
    assert noted == [0, end]
    assert slept == [[0]] * 5
    assert store.copying.deleted_topic_ends == {"flights": end}
    assert pulls.version == 3


async def test_who_cannot_pull_state_any_more_does_not_follow(primary, replica, monkeypatch):
    client, _ = replica
    following = asyncio.create_task(client.follow(primary.address, 1, lambda: None))
    await asyncio.wait_for(primary.progress.get(), 60)
    monkeypatch.setattr(state_pulls, "STATE_FILE_BYTES_MAX", 0)
    primary.state.put(StatePart("topics.json", b'{"owner": "changed"}'))
    async with asyncio.timeout(60):
        while not following.done():
            primary.state_version += 1
            primary.feed.wake()
            await asyncio.sleep(0.01)
    with pytest.raises(CannotFollow, match="too large"):
        following.result()


class DamagedEnd:
    """A log with damage in its last segment, until that is cut."""

    def __init__(self):
        self.missing = (LogRange(0, 8),)

    def cut_damaged_end(self):
        self.missing = ()
        cut = Future()
        cut.set_result(True)
        return cut


async def test_the_set_relies_on_no_broker_any_more_that_cuts_damage_from_its_end(
    primary, replica, monkeypatch
):
    """Cut before, it would be elected with less than it has confirmed."""
    client, _ = replica
    damaged = DamagedEnd()
    monkeypatch.setattr(client, "_mending", damaged)
    client.is_in_sync = True
    following = asyncio.create_task(client.follow(primary.address, 1, lambda: None))
    progress = await asyncio.wait_for(primary.progress.get(), 60)
    assert primary.hello.missing == progress.missing == damaged.missing == (LogRange(0, 8),)
    client.is_in_sync = False
    primary.feed.close()
    async with asyncio.timeout(60):
        await asyncio.wait([following])
        await client.follow(primary.address, 1, lambda: None)
    assert damaged.missing == ()


async def test_who_is_out_of_the_set_follows_anew_to_mend_what_it_finds(
    primary, replica, monkeypatch
):
    client, _ = replica
    following = asyncio.create_task(client.follow(primary.address, 1, lambda: None))
    await asyncio.wait_for(primary.progress.get(), 60)
    monkeypatch.setattr(client, "_mending", DamagedEnd())
    async with asyncio.timeout(60):
        while not following.done():
            primary.state_version += 1
            primary.feed.wake()
            await asyncio.sleep(0.01)
    with pytest.raises(CannotFollow, match="mended first"):
        following.result()


async def test_only_what_both_logs_have_is_fetched(replica, monkeypatch):
    """Behind, the primary has other records, and this log is cut."""
    client, _ = replica
    fetched = []

    async def no_pieces():
        for nothing in ():
            yield nothing

    def fetch(request, **_):
        fetched.append((request.begin_commit_log_offset, request.end_commit_log_offset))
        return no_pieces()

    stub = SimpleNamespace(FetchLog=fetch)
    monkeypatch.setattr(log_mending, "LogServiceStub", lambda _: stub)
    mending = client._mending
    missing = (LogRange(0, 8), LogRange(40, 60), LogRange(80, 90))
    monkeypatch.setattr(type(mending), "missing", missing)
    assert not await mending.fetch(None, 50)
    assert fetched == [(0, 8), (40, 60)]
