"""Translates the services of replication: log and state for replicas, the set for operators."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, Final

from grpc import aio
from typing_extensions import override

from ariane.replication.v1 import log_service_pb2 as log_pb
from ariane.replication.v1 import replica_pb2 as replica_pb
from ariane.replication.v1 import replica_set_service_pb2 as set_pb
from ariane.replication.v1 import state_service_pb2 as state_pb
from ariane.replication.v1.log_service_pb2_grpc import LogServiceServicer
from ariane.replication.v1.replica_set_service_pb2_grpc import ReplicaSetServiceServicer
from ariane.replication.v1.state_service_pb2_grpc import StateServiceServicer
from ariane_broker.log.cold_reads import ColdReads
from ariane_broker.replication.copies import Copy, Progress
from ariane_broker.replication.log_feed import WINDOW_BYTES, LogChunk, LogFeed
from ariane_broker.replication.operating import SetOperations, SetStatus
from ariane_broker.replication.primary import Hello, Primary
from ariane_broker.replication.replica_set import ReplicaSet
from ariane_broker.replication.state_copies import StateCopies
from ariane_record.checksums.checksum import crc32
from ariane_record.layout import ByteBuffer
from ariane_record.single.wire_fields import length_prefix, length_tag
from ariane_servicekit import first_request
from ariane_servicekit.errors import field_invalid
from ariane_storage.copying.log_copy import Junction, LogRange
from ariane_storage.log.epoch_history import EpochStart
from ariane_storage.store import Store

PIECE_BYTES: Final = 1 << 20
GRACE_S: Final = 5.0
GRACE_S_MAX: Final = 30.0
HEARTBEAT_S_MAX: Final = 1.0


class LogServicer(LogServiceServicer):
    """Streams a primary's log to its replicas."""

    def __init__(
        self,
        primary: Primary,
        store: Store,
        cold_reads: ColdReads,
        *,
        cluster_name: str,
        broker_name: str,
        lease_s: float,
    ) -> None:
        self._primary = primary
        self._store = store
        self._cold_reads = cold_reads
        self._names = (cluster_name, broker_name)
        self._heartbeat_s = min(HEARTBEAT_S_MAX, lease_s / 4)
        self._silence_s = lease_s

    @override
    async def FollowLog(
        self,
        request_iterator: AsyncIterator[log_pb.FollowLogRequest],
        context: aio.ServicerContext[Any, Any],
    ) -> AsyncIterator[Any]:
        requests = aiter(request_iterator)
        first = await first_request(anext(requests, None))
        if first is None or not first.HasField("hello"):
            raise field_invalid("hello", "must come first")
        feed, copy = self._primary.follow(self._hello(first.hello, context))
        reading = asyncio.create_task(self._read(requests, copy, feed))
        try:
            reader = f"replica {first.hello.broker_id}"
            common = partial(self._store.copying.junction, feed.position)
            junction = await self._cold_reads.run(reader, common)
            yield log_pb.FollowLogResponse(welcome=self._welcome(feed, junction))
            sent_version = 0
            while not feed.is_closed:
                if sent_version != self._primary.state_version:
                    sent_version = self._primary.state_version
                    yield log_pb.FollowLogResponse(heartbeat=self._heartbeat())
                # A replica that is far behind gets what only the disk has; the loop goes on.
                chunk = await self._cold_reads.run(reader, feed.take, stream="log")
                if chunk is not None:
                    yield self._chunk(chunk)
                    continue
                woken = await feed.wait(self._heartbeat_s)
                if not woken:
                    yield log_pb.FollowLogResponse(heartbeat=self._heartbeat())
        finally:
            self._primary.left(copy, feed)
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading

    @override
    async def FetchLog(
        self, request: log_pb.FetchLogRequest, context: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[log_pb.FetchLogResponse]:
        copying = self._store.copying
        self._primary.check_copier(request.set_id)
        wanted = LogRange(request.begin_commit_log_offset, request.end_commit_log_offset)
        if not await asyncio.to_thread(copying.is_sound, wanted):
            return
        place = wanted.begin
        while place < wanted.end:
            content = await asyncio.to_thread(
                partial(copying.read, place, wanted.end, bytes_max=PIECE_BYTES)
            )
            yield log_pb.FetchLogResponse(log_crc32=crc32(content), log_bytes=bytes(content))
            place += len(content)

    async def _read(
        self, requests: AsyncIterator[log_pb.FollowLogRequest], copy: Copy, feed: LogFeed
    ) -> None:
        """Read the replica's progress until it ends the stream."""
        try:
            async for request in requests:
                self._primary.progressed(copy, feed, _progress(request.progress))
        finally:
            feed.close()

    def _hello(self, hello: log_pb.ReplicaHello, context: aio.ServicerContext[Any, Any]) -> Hello:
        if (hello.cluster_name, hello.broker_name) != self._names:
            raise field_invalid("broker_name", f"is not {self._names[1]}", hello.broker_name)
        if hello.broker_id == self._primary.reign.broker_id:
            raise field_invalid("broker_id", "is the primary's own", hello.broker_id)
        return Hello(
            hello.broker_id,
            [EpochStart(one.epoch, one.begin_commit_log_offset) for one in hello.epochs],
            hello.min_commit_log_offset,
            hello.max_commit_log_offset,
            hello.segment_bytes,
            hello.known_epoch,
            context.peer(),
            hello.set_id,
            _ranges(hello.missing),
        )

    def _welcome(self, feed: LogFeed, junction: Junction) -> log_pb.PrimaryWelcome:
        store = self._store
        welcome = log_pb.PrimaryWelcome(
            epoch=self._primary.reign.epoch,
            epochs=epoch_messages(store),
            begin_commit_log_offset=feed.position,
            min_commit_log_offset=store.min_offset,
            max_commit_log_offset=store.max_offset,
            window_bytes=WINDOW_BYTES,
            set_id=store.copying.set_id,
            junction_bytes=junction.size_bytes,
            junction_crc32=junction.crc,
        )
        welcome.silence_max.FromTimedelta(timedelta(seconds=self._silence_s))
        return welcome

    def _chunk(self, chunk: LogChunk) -> bytes:
        message = log_pb.LogChunk(
            commit_log_offset=chunk.begin,
            epoch=chunk.epoch,
            epoch_begin_commit_log_offset=chunk.epoch_begin,
            confirmed_commit_log_offset=self._store.confirmed_offset,
            log_crc32=crc32(chunk.content),
        )
        return chunk_response(message, chunk.content)

    def _heartbeat(self) -> log_pb.PrimaryHeartbeat:
        return log_pb.PrimaryHeartbeat(
            epoch=self._primary.reign.epoch,
            confirmed_commit_log_offset=self._store.confirmed_offset,
            state_version=self._primary.state_version,
        )


class StateServicer(StateServiceServicer):
    """Sends a primary's state files to its replicas."""

    def __init__(self, primary: Primary, store: Store, state: StateCopies) -> None:
        self._primary = primary
        self._store = store
        self._state = state

    @override
    async def PullState(
        self, request: state_pb.PullStateRequest, context: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[state_pb.PullStateResponse]:
        known = {one.name: one.content_crc32 for one in request.known_files}
        state_version = self._primary.state_version
        parts = await asyncio.to_thread(lambda: list(self._state.parts(known)))
        head = state_pb.StateHead(
            epoch=self._primary.reign.epoch,
            # Read after the files: no file includes a later record.
            max_commit_log_offset=self._store.max_offset,
            deleted_topic_ends=self._store.copying.deleted_topic_ends,
            state_version=state_version,
        )
        yield state_pb.PullStateResponse(head=head)
        for part in parts:
            for begin in range(0, max(1, len(part.content)), PIECE_BYTES):
                end = begin + PIECE_BYTES
                piece = state_pb.StateFilePiece(
                    name=part.name,
                    content=part.content[begin:end],
                    is_last=end >= len(part.content),
                )
                yield state_pb.PullStateResponse(piece=piece)


class ReplicaSetServicer(ReplicaSetServiceServicer):
    """Answers operators about the set, on primaries and replicas alike."""

    def __init__(self, operations: SetOperations, store: Store) -> None:
        self._operations = operations
        self._store = store

    @override
    async def GetReplicaSet(
        self, request: set_pb.GetReplicaSetRequest, context: aio.ServicerContext[Any, Any]
    ) -> set_pb.GetReplicaSetResponse:
        status, store = self._operations.status(), self._store
        response = set_pb.GetReplicaSetResponse(
            replica_set=set_message(self._operations.names, status.replica_set),
            broker_id=status.broker_id,
            replicas=[_replica(copy, status, store) for copy in status.copies],
            has_lease=status.has_lease,
            trouble=status.trouble,
            database_away=status.is_row_away,
            in_sync_min=status.in_sync_min,
        )
        if store.is_open:
            response.max_commit_log_offset = store.max_offset
            response.min_commit_log_offset = store.min_offset
            response.confirmed_commit_log_offset = store.confirmed_offset
            response.epochs.extend(epoch_messages(store))
        return response

    @override
    async def TransferPrimary(
        self, request: set_pb.TransferPrimaryRequest, context: aio.ServicerContext[Any, Any]
    ) -> set_pb.TransferPrimaryResponse:
        grace_s = request.grace.ToMilliseconds() / 1000 if request.HasField("grace") else GRACE_S
        if not 0 < grace_s <= GRACE_S_MAX:
            raise field_invalid("grace", f"must be above 0 s and at most {GRACE_S_MAX:g} s")
        changed = await self._operations.transfer(request.target_broker_id, grace_s=grace_s)
        return set_pb.TransferPrimaryResponse(
            replica_set=set_message(self._operations.names, changed)
        )

    @override
    async def ElectPrimary(
        self, request: set_pb.ElectPrimaryRequest, context: aio.ServicerContext[Any, Any]
    ) -> set_pb.ElectPrimaryResponse:
        changed = await self._operations.elect(request.broker_id, unclean=request.unclean)
        return set_pb.ElectPrimaryResponse(replica_set=set_message(self._operations.names, changed))

    @override
    async def RemoveReplica(
        self, request: set_pb.RemoveReplicaRequest, context: aio.ServicerContext[Any, Any]
    ) -> set_pb.RemoveReplicaResponse:
        changed = await self._operations.remove(request.broker_id)
        return set_pb.RemoveReplicaResponse(
            replica_set=set_message(self._operations.names, changed)
        )


def _progress(progress: log_pb.ReplicaProgress) -> Progress:
    return Progress(
        received=progress.received_commit_log_offset,
        written=progress.written_commit_log_offset,
        flushed=progress.flushed_commit_log_offset,
        state_version=progress.state_version,
        missing=_ranges(progress.missing),
    )


def _ranges(messages: Iterable[replica_pb.LogRange]) -> tuple[LogRange, ...]:
    return tuple(
        LogRange(one.begin_commit_log_offset, one.end_commit_log_offset) for one in messages
    )


def epoch_messages(store: Store) -> list[replica_pb.EpochStart]:
    """The epochs of a log as messages of the contract."""
    return [
        replica_pb.EpochStart(epoch=start.epoch, begin_commit_log_offset=start.begin)
        for start in store.copying.epochs
    ]


def set_message(names: tuple[str, str], replica_set: ReplicaSet) -> replica_pb.ReplicaSet:
    """The shared row as a message of the contract."""
    cluster_name, broker_name = names
    return replica_pb.ReplicaSet(
        cluster_name=cluster_name,
        broker_name=broker_name,
        epoch=replica_set.epoch,
        primary_broker_id=replica_set.primary_id,
        in_sync_broker_ids=sorted(replica_set.in_sync),
        version=replica_set.version,
        addresses=replica_set.addresses,
        wanted_broker_id=replica_set.wanted_id,
        unclean=replica_set.unclean,
        set_id=replica_set.set_id,
        rivals=replica_set.rivals,
        wishes={
            one: replica_pb.BrokerWish(preference=wish.preference, zone=wish.zone)
            for one, wish in replica_set.wishes.items()
        },
    )


def _replica(copy: Copy, status: SetStatus, store: Store) -> replica_pb.ReplicaState:
    state = replica_pb.ReplicaState(
        broker_id=copy.broker_id,
        address=copy.address,
        attached=copy.attached,
        written_commit_log_offset=copy.written,
        flushed_commit_log_offset=copy.flushed,
        behind_bytes=max(0, store.max_offset - copy.written),
        in_sync=copy.broker_id in status.replica_set.in_sync,
    )
    state.behind_for.FromTimedelta(timedelta(seconds=max(0.0, status.now_s - copy.caught_up_s)))
    state.longest_wait.FromTimedelta(timedelta(seconds=copy.waits.longest_s(status.now_s)))
    state.silent_for.FromTimedelta(timedelta(seconds=max(0.0, status.now_s - copy.heard_s)))
    return state


_CHUNK: Final = length_tag(log_pb.FollowLogResponse.CHUNK_FIELD_NUMBER)
_LOG_BYTES: Final = length_tag(log_pb.LogChunk.LOG_BYTES_FIELD_NUMBER)


def chunk_response(chunk: log_pb.LogChunk, log_bytes: ByteBuffer) -> bytes:
    """Encode a response with a chunk and its bytes, which the chunk does not have yet."""
    rest = chunk.SerializeToString() + length_prefix(_LOG_BYTES, len(log_bytes))
    return b"".join((length_prefix(_CHUNK, len(rest) + len(log_bytes)), rest, log_bytes))
