"""Following a primary over gRPC, for as long as the stream of its log lasts.

::

    replica                                     primary (``replication_servicers``)
    hello: epochs, begin and end of the log --> where both logs agree (``Primary.follow``)
       <------------------------------ welcome, with the bytes before that place
    mends its log, if it is not relied on; else cuts it there (``LogTaker.agree``)
    pulls the state (``StatePulls``) -------->  ``PullState``: files that differ
    progress -------------------------------->  the confirmed offset moves
       <------------------- chunks of the log   (``LogFeed``)
       <------------------------- heartbeats:   state is to be pulled, the confirmed offset

The primary has to welcome this broker first: a store of another set, which it refuses, stays
unchanged. The state is pulled before the primary gets the progress of this log: it assumes that a
copy has all topics that were created before it joined.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from random import Random
from typing import Any, Final, NamedTuple

from grpc import aio

from ariane.replication.v1 import log_service_pb2 as log_pb
from ariane.replication.v1.replica_pb2 import EpochStart as EpochStartMessage
from ariane.replication.v1.replica_pb2 import LogRange as LogRangeMessage
from ariane.replication.v1.state_service_pb2_grpc import StateServiceStub
from ariane_broker.following.log_mending import LogMending
from ariane_broker.following.log_wire import LogResponse, log_response
from ariane_broker.following.state_pulls import StatePulls
from ariane_broker.replication.log_feed import LogChunk
from ariane_broker.replication.log_taker import CannotFollow, LogTaker, Welcome
from ariane_record.checksums.checksum import crc32
from ariane_servicekit import get_logger, open_channel
from ariane_servicekit.security.caller import BROKERS
from ariane_storage.copying.log_copy import Junction, LogRange
from ariane_storage.log.epoch_history import EpochStart
from ariane_storage.store import Store
from ariane_wire import ChannelOptions

CONNECT_S_MAX: Final = 3.0

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


class FollowEnvironment(NamedTuple):
    """What following takes from its process."""

    identity: ReplicaIdentity
    """Who follows."""
    keeper: Executor
    """The thread for work on the disk, but for flushes."""
    flusher: Executor
    """The thread for flushes that the primary waits for."""
    is_sync_flush: bool
    """Whether bytes are flushed before they are reported as progress."""
    chance: Random
    """Spreads attempts to connect."""


class ReplicaClient:
    """Fills a store from its primary. Lives on one loop."""

    def __init__(
        self,
        environment: FollowEnvironment,
        store: Store,
        taker: LogTaker,
        pulls: StatePulls,
        mending: LogMending,
        *,
        is_relied_on: Callable[[], bool],
        on_taken: Callable[[], None],
    ) -> None:
        """``mending`` mends the log, once ``is_relied_on`` tells that this broker is not in sync.

        ``on_taken`` is called when bytes were appended.
        """
        self._environment = environment
        self._store = store
        self._taker = taker
        self._pulls = pulls
        self._mending = mending
        self._is_relied_on = is_relied_on
        self._tried: Sequence[LogRange] = ()
        self._on_taken = on_taken
        self.agreement_count = 0
        """How often the log was made to agree with a primary's, or this was begun. Each time may
        have cut it."""
        self._agreement: Future[Any] | None = None
        self._progressed = asyncio.Event()
        pulls.on_stored = self._progressed.set

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
        name = self._environment.identity.broker_name
        async with open_channel(
            address, _OPTIONS, self._environment.chance, kinds=BROKERS, name=name
        ) as channel:
            async with asyncio.timeout(CONNECT_S_MAX):
                await channel.channel_ready()
            self._pulls.begin()
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
            if await self._mend(channel, welcome.begin):
                return
            await self._agree(welcome)
            await self._pulls.pull(stub, wait=False)
            beside.append(asyncio.create_task(self._pulls.keep_pulling(stub), name="pull-state"))
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

    async def _mend(self, channel: aio.Channel, agreed: int) -> bool:
        """Mend the log up to where both agree, and damage in its last segment.

        Returns whether it has changed: the primary has to be asked anew then.

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
        return await self._mending.fetch(channel, agreed)

    async def _agree(self, welcome: Welcome) -> None:
        """Make the log agree with the primary's.

        The thread goes on even if the stream is given up meanwhile: its future ends with it.
        """
        self.agreement_count += 1
        self._agreement = self._environment.keeper.submit(self._taker.agree, welcome)
        await asyncio.wrap_future(self._agreement)

    def _take(self, response: LogResponse) -> None:
        if response.message.HasField("heartbeat"):
            beat = response.message.heartbeat
            self._taker.note_confirmed(beat.confirmed_commit_log_offset)
            self._pulls.ask_for(beat.state_version)
            return
        chunk, log_bytes = response.message.chunk, response.log_bytes
        if crc32(log_bytes) != chunk.log_crc32:
            raise CannotFollow(f"bytes of {chunk.commit_log_offset} were changed on their way")
        self._taker.note_confirmed(chunk.confirmed_commit_log_offset)
        self._taker.take(
            LogChunk(
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
            if self._environment.is_sync_flush and store.flushed_offset < store.max_offset:
                await loop.run_in_executor(self._environment.flusher, store.flush)
            progress = log_pb.ReplicaProgress(
                written_commit_log_offset=store.max_offset,
                flushed_commit_log_offset=store.flushed_offset,
                state_version=self._pulls.version,
                received_commit_log_offset=store.copying.next_offset,
                missing=self._missing(),
            )
            await call.write(log_pb.FollowLogRequest(progress=progress))
            if self._mending.missing not in ((), self._tried) and not self._is_relied_on():
                raise CannotFollow("damage was found in its log: that is mended first")

    def _hello(self, known_epoch: int) -> log_pb.ReplicaHello:
        store, identity = self._store, self._environment.identity
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
