"""Following a primary over gRPC, for as long as the stream of its log lasts.

::

    replica                                     primary (``replication_servicers``)
    hello: epochs, begin and end of the log --> where both logs agree (``Primary.follow``)
       <------------------------------ welcome, with the bytes before that place
    mends its log, if it is not relied on; else cuts it there (``LogTaker.agree``)
    pulls the state ------------------------->  ``PullState``: files that differ
    progress -------------------------------->  the confirmed offset moves
       <------------------- chunks of the log   (``LogFeed``)
       <------------------------- heartbeats:   state is to be pulled, the confirmed offset

The primary has to welcome this broker first: a store of another set, which it refuses, stays
unchanged. The state is pulled before the primary gets the progress of this log: it assumes that a
copy has all topics that were created before it joined.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Executor, Future
from random import Random
from typing import Any, Final, NamedTuple

from grpc import aio

from ariane.replication.v1 import log_service_pb2 as log_pb
from ariane.replication.v1 import state_service_pb2 as state_pb
from ariane.replication.v1.replica_pb2 import EpochStart as EpochStartMessage
from ariane.replication.v1.replica_pb2 import LogRange as LogRangeMessage
from ariane.replication.v1.state_service_pb2_grpc import StateServiceStub
from ariane_broker.following.log_mending import LogMending
from ariane_broker.following.log_wire import LogResponse, log_response
from ariane_broker.replication.log_feed import LogRun
from ariane_broker.replication.log_taker import CannotFollow, LogTaker, Welcome
from ariane_broker.replication.state_copies import (
    DECIDED,
    STATE_FILE_BYTES_MAX,
    StateCopies,
    StatePart,
)
from ariane_record.checksums.checksum import crc32
from ariane_servicekit import get_logger, open_channel
from ariane_servicekit.security.caller import BROKERS
from ariane_storage.copying.log_copy import Junction, LogRange
from ariane_storage.errors import StorageError
from ariane_storage.log.epoch_history import EpochStart
from ariane_storage.store import Store
from ariane_wire import ChannelOptions

CONNECT_S_MAX: Final = 3.0
STATE_CALL_S_MAX: Final = 30.0
STATE_STEP_S: Final = 0.05
"""Interval of checks whether the log has reached the end that pulled state files include."""

_OPTIONS: Final = ChannelOptions(
    backoff_first_s=0.1,
    backoff_max_s=1.0,
    connect_timeout_s=CONNECT_S_MAX,
    receive_octets_max=-1,
    # A replica may be far away, and what fills its link has the link for itself.
    stream_window_octets=4 << 20,
    keepalive_time_s=10.0,
)

_LOG_SERVICE: Final = log_pb.DESCRIPTOR.services_by_name["LogService"]
_FOLLOW_LOG: Final = f"/{_LOG_SERVICE.full_name}/FollowLog"

_log = get_logger(__name__)


class ReplicaIdentity(NamedTuple):
    """The names and id of a replica."""

    cluster_name: str
    broker_name: str
    broker_id: int


class StatePull(NamedTuple):
    """State files of a primary, to be stored here."""

    end: int
    """Snapshots are stored once the log reaches this commit-log offset."""
    deleted_topics: dict[str, int]
    """Commit-log offset up to which each topic's records are deleted."""
    parts: list[StatePart]
    """The files."""
    version: int
    """Their version of topics and groups."""


class ReplicaClient:
    """Fills a store from its primary. Lives on one loop."""

    def __init__(
        self,
        identity: ReplicaIdentity,
        store: Store,
        taker: LogTaker,
        state: StateCopies,
        *,
        keeper: Executor,
        flusher: Executor,
        is_sync_flush: bool,
        state_interval_s: float,
        sleep: Callable[[float], Awaitable[None]],
        chance: Random,
        mending: LogMending,
        is_relied_on: Callable[[], bool],
        on_taken: Callable[[], None],
        on_state: Callable[[], Awaitable[None]],
    ) -> None:
        """``is_sync_flush``: whether bytes are flushed before they are reported as progress.

        ``flusher`` runs flushes that the primary waits for, ``keeper`` other work on the disk.
        ``mending`` mends the log, once ``is_relied_on`` tells that this broker is not in sync.
        ``on_taken`` is called when bytes were appended; ``on_state`` is
        awaited when files of decisions may have changed.
        """
        self._identity = identity
        self._store = store
        self._taker = taker
        self._state = state
        self._keeper = keeper
        self._flusher = flusher
        self._is_sync_flush = is_sync_flush
        self._state_interval_s = state_interval_s
        self._sleep = sleep
        self._chance = chance
        self._mending = mending
        self._is_relied_on = is_relied_on
        self._tried: Sequence[LogRange] = ()
        self._on_taken = on_taken
        self._on_state = on_state
        self.agreement_count = 0
        """How often the log was made to agree with a primary's, or this was begun. Each time may
        have cut it."""
        self._agreement: Future[Any] | None = None
        self._state_version = 0
        self._state_wanted = asyncio.Event()
        self._progressed = asyncio.Event()

    @property
    def is_agreeing(self) -> bool:
        """Whether the log is being cut: it must not be read."""
        return self._agreement is not None and not self._agreement.done()

    async def follow(
        self, address: str, known_epoch: int, on_following: Callable[[], None]
    ) -> None:
        """Follow a primary until the stream ends.

        Args:
            address: Its address.
            known_epoch: The newest known epoch.
            on_following: Called once both logs agree.

        Raises:
            CannotFollow: An operator has to act.
            AioRpcError: The stream has failed.
            StorageError: This store is full or has failed.
            TimeoutError: The primary was silent for too long.
        """
        name = self._identity.broker_name
        async with open_channel(
            address, _OPTIONS, self._chance, kinds=BROKERS, name=name
        ) as channel:
            async with asyncio.timeout(CONNECT_S_MAX):
                await channel.channel_ready()
            self._state_version = 0
            self._state_wanted.clear()
            await self._follow_log(channel, known_epoch, on_following)

    async def _follow_log(
        self, channel: aio.Channel, known_epoch: int, on_following: Callable[[], None]
    ) -> None:
        follow_log: Any = channel.stream_stream(
            _FOLLOW_LOG, log_pb.FollowLogRequest.SerializeToString, log_response
        )
        call = follow_log()
        stub = StateServiceStub(channel)
        beside: list[asyncio.Task[None]] = []
        try:
            await call.write(log_pb.FollowLogRequest(hello=self._hello(known_epoch)))
            async with asyncio.timeout(CONNECT_S_MAX):
                first: Any = await call.read()
            if first is aio.EOF or not first.message.HasField("welcome"):
                raise CannotFollow("the primary did not begin with a welcome")
            welcome = _welcome(first.message.welcome)
            if await self._mend(channel):
                return
            await self._agree(welcome)
            await self._put_state(await self._pull_state(stub), wait=False)
            beside.append(asyncio.create_task(self._keep_pulling(stub), name="pull-state"))
            _log.info(
                "replica_follows",
                epoch=welcome.epoch,
                begin_commit_log_offset=welcome.begin,
                behind_bytes=welcome.end - welcome.begin,
            )
            on_following()
            beside.append(asyncio.create_task(self._keep_reporting(call), name="report-progress"))
            while True:
                self._progressed.set()
                async with asyncio.timeout(welcome.silence_s):
                    response: Any = await call.read()
                if response is aio.EOF:
                    return
                for task in beside:
                    if task.done():
                        task.result()
                self._take(response)
        finally:
            call.cancel()
            for task in beside:
                task.cancel()
            if beside:
                await asyncio.wait(beside)

    async def _mend(self, channel: aio.Channel) -> bool:
        """Mend the log; returns whether it has changed: the primary has to be asked anew then.

        A broker that can be elected cuts nothing: the primary takes it out of the set first.
        """
        if self._is_relied_on():
            return False
        self._tried = self._mending.missing
        cutting = self._mending.cut_damaged_end()
        if cutting is not None:
            self.agreement_count += 1
            self._agreement = cutting
            await asyncio.wrap_future(cutting)
            return True
        return await self._mending.fetch(channel)

    async def _agree(self, welcome: Welcome) -> None:
        """Make the log agree with the primary's.

        The thread goes on even if the stream is given up meanwhile: its future ends with it.
        """
        self.agreement_count += 1
        self._agreement = self._keeper.submit(self._taker.agree, welcome)
        await asyncio.wrap_future(self._agreement)

    def _take(self, response: LogResponse) -> None:
        if response.message.HasField("heartbeat"):
            beat = response.message.heartbeat
            self._taker.note_confirmed(beat.confirmed_commit_log_offset)
            if beat.state_version > self._state_version:
                self._state_wanted.set()
            return
        chunk, log_bytes = response.message.chunk, response.log_bytes
        if crc32(log_bytes) != chunk.log_crc32:
            raise CannotFollow(f"bytes of {chunk.commit_log_offset} were changed on their way")
        self._taker.note_confirmed(chunk.confirmed_commit_log_offset)
        self._taker.take(
            LogRun(
                chunk.commit_log_offset,
                chunk.epoch,
                chunk.epoch_begin_commit_log_offset,
                log_bytes,
            )
        )
        self._on_taken()

    async def _keep_reporting(self, call: Any) -> None:
        """Report this replica's progress, once for all bytes that arrived since the last report.

        Bytes are read and appended while a flush or a report is in progress.

        Raises:
            CannotFollow: The log is to be mended first.
            StorageError: A flush has failed.
        """
        loop, store = asyncio.get_running_loop(), self._store
        while True:
            await self._progressed.wait()
            self._progressed.clear()
            if self._is_sync_flush and store.flushed_offset < store.max_offset:
                await loop.run_in_executor(self._flusher, store.flush)
            progress = log_pb.ReplicaProgress(
                written_commit_log_offset=store.max_offset,
                flushed_commit_log_offset=store.flushed_offset,
                state_version=self._state_version,
                received_commit_log_offset=store.copying.next_offset,
                missing=self._missing(),
            )
            await call.write(log_pb.FollowLogRequest(progress=progress))
            if self._mending.missing not in ((), self._tried) and not self._is_relied_on():
                raise CannotFollow("damage was found in its log: that is mended first")

    def _hello(self, known_epoch: int) -> log_pb.ReplicaHello:
        store, identity = self._store, self._identity
        return log_pb.ReplicaHello(
            cluster_name=identity.cluster_name,
            broker_name=identity.broker_name,
            broker_id=identity.broker_id,
            epochs=[
                EpochStartMessage(epoch=start.epoch, begin_commit_log_offset=start.begin)
                for start in store.copying.epochs
            ],
            min_commit_log_offset=store.min_offset,
            max_commit_log_offset=store.max_offset,
            segment_bytes=store.config.segment_bytes,
            known_epoch=known_epoch,
            set_id=store.copying.set_id,
            missing=self._missing(),
        )

    def _missing(self) -> list[LogRangeMessage]:
        return [
            LogRangeMessage(begin_commit_log_offset=one.begin, end_commit_log_offset=one.end)
            for one in self._mending.missing
        ]

    # State.

    async def _keep_pulling(self, stub: Any) -> None:
        while True:
            sleeping = asyncio.ensure_future(self._sleep(self._state_interval_s))
            waking = asyncio.ensure_future(self._state_wanted.wait())
            try:
                await asyncio.wait((sleeping, waking), return_when=asyncio.FIRST_COMPLETED)
            finally:
                sleeping.cancel()
                waking.cancel()
            self._state_wanted.clear()
            try:
                await self._put_state(await self._pull_state(stub), wait=True)
            except (aio.AioRpcError, StorageError, OSError) as error:
                cause = error.details() if isinstance(error, aio.AioRpcError) else str(error)
                _log.warning("state_pull_failed", cause=cause)

    async def _pull_state(self, stub: Any) -> StatePull:
        known = await self._run(self._state.versions)
        request = state_pb.PullStateRequest(
            known_files=[
                state_pb.StateFileVersion(name=name, content_crc32=crc)
                for name, crc in known.items()
            ]
        )
        end, version, deleted = 0, 0, dict[str, int]()
        parts: list[StatePart] = []
        gathered = bytearray()
        responses: AsyncIterator[Any] = stub.PullState(request, timeout=STATE_CALL_S_MAX)
        async for response in responses:
            if response.HasField("head"):
                end = response.head.max_commit_log_offset
                version = response.head.state_version
                deleted = dict(response.head.deleted_topic_ends)
                continue
            gathered += response.piece.content
            if len(gathered) > STATE_FILE_BYTES_MAX:
                raise CannotFollow(f"{response.piece.name} is too large for a state file")
            if response.piece.is_last:
                parts.append(StatePart(response.piece.name, bytes(gathered)))
                gathered.clear()
        return StatePull(end, deleted, parts, version)

    async def _put_state(self, pull: StatePull, *, wait: bool) -> None:
        """Store state files: files of decisions at once, and report their version to the primary.

        Snapshots follow once the log reaches the end that they include, or with a later pull.
        """
        decided = [part for part in pull.parts if part.name in DECIDED]
        await self._run(self._put_parts, decided, pull.deleted_topics)
        if decided:
            await self._on_state()
        self._state_version = pull.version
        self._progressed.set()
        snapshots = [part for part in pull.parts if part.name not in DECIDED]
        while wait and self._store.max_offset < pull.end and not self._state_wanted.is_set():
            await self._sleep(STATE_STEP_S)
        if self._store.max_offset >= pull.end:
            await self._run(self._put_parts, snapshots, {})

    def _put_parts(self, parts: list[StatePart], deleted_topics: dict[str, int]) -> None:
        """Store files. Blocks."""
        if not parts and not deleted_topics:
            return
        self._store.flush()
        self._store.copying.note_deleted(deleted_topics)
        for part in parts:
            self._state.put(part)

    async def _run(self, work: Callable[..., Any], *given: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._keeper, work, *given)


def _welcome(message: log_pb.PrimaryWelcome) -> Welcome:
    return Welcome(
        epoch=message.epoch,
        epochs=[EpochStart(one.epoch, one.begin_commit_log_offset) for one in message.epochs],
        begin=message.begin_commit_log_offset,
        end=message.max_commit_log_offset,
        silence_s=message.silence_max.ToMilliseconds() / 1000,
        set_id=message.set_id,
        junction=Junction(message.junction_bytes, message.junction_crc32),
    )
