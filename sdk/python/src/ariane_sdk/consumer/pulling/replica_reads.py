"""Queues that are read from a replica for a while: their backlog is deep, or the primary is away.

::

    primary   pull ... hint: a replica has it up to 900        pull from 900 on ...
    replica                      range 120 to 900 ------------>

A range has no group, no lock, and no epoch of the log: groups, their offsets and locks are the
primary's. What a replica hands out was confirmed, so it lies in the primary's log as well, and a
position that was read up to there is one of the primary's. Where a replica has nothing, refuses or
fails, the primary is asked again, and says what is so: nothing that a replica says moves a position
but messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeAlias

from grpc.aio import AioRpcError

from ariane.broker.v1.pull_service_pb2 import (
    RANGE_PROJECTION_RECORDS,
    PullRangeRequest,
    PullRangeResponse,
    QueueRecords,
)
from ariane_sdk.checks.message_filter import MessageFilter
from ariane_sdk.consumer.delivery.owned_queue import OwnedQueue
from ariane_sdk.consumer.group.consumer_plan import ConsumerPlan
from ariane_sdk.consumer.pulling.pull_requests import QueueKey
from ariane_sdk.consumer.pulling.pull_wire import PulledRecords
from ariane_sdk.errors import CallError, DeadlinePassed
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.connections import Connections
from ariane_sdk.net.status import error_from_rpc
from ariane_sdk.runtime.log import logger
from ariane_sdk.runtime.tasks import start_task

READABLE_END: Final = 1 << 61
"""The end of a range that means whatever can be read there."""

REST_S: Final = 10.0
"""How long no hint is followed after a replica has failed: the primary has everything, too."""

CHUNK_BYTES_MIN: Final = 64 << 10
CHUNK_BYTES_MAX: Final = 4 << 20
"""What brokers take."""

NO_PRIMARY_REASON: Final = "BROKER_NOT_PRIMARY"
"""Whoever was primary is none any more, and the route does not know the next one yet."""

CHUNK_TIMEOUT_S: Final = 10.0
"""How long a chunk of a range may take: nobody holds one."""


TakeIn: TypeAlias = Callable[[PulledRecords, int, Mapping[str, MessageFilter]], Awaitable[None]]
"""Puts what came of a queue into its window: the records, where they begin, and the filters that
they were asked for with."""


class ReplicaReads:
    """The queues of one pull loop that are read from replicas now."""

    def __init__(
        self,
        connections: Connections,
        plan: ConsumerPlan,
        *,
        take_in: TakeIn,
        on_over: Callable[[], None],
    ) -> None:
        """Read none yet.

        Args:
            connections: To all processes.
            plan: What the consumer is to be; its filters may change.
            take_in: Puts what came of a queue into its window.
            on_over: Called when a queue is to be pulled from the primary again.
        """
        self._connections = connections
        self._filters = plan.filters
        self._settings = plan.settings
        self._clock = plan.clock
        self._take_in = take_in
        self._on_over = on_over
        self._tasks: dict[QueueKey, asyncio.Task[None]] = {}
        self._room = asyncio.Event()
        self._rests_until_s = 0.0

    def __contains__(self, key: QueueKey) -> bool:
        """Whether a queue is read from a replica now."""
        return key in self._tasks

    def follow_hints(
        self, answer: Iterable[PulledRecords], owned_queues: Mapping[QueueKey, OwnedQueue]
    ) -> bool:
        """Read deep backlogs where the primary says; it has no part in them for so long.

        Args:
            answer: What it gave, which is in the windows already.
            owned_queues: The queues of the loop.

        Returns:
            Whether any is read elsewhere now.
        """
        hinted = [pulled.head for pulled in answer if pulled.head.HasField("replica")]
        if not hinted or self._clock.monotonic_s() < self._rests_until_s:
            return False
        begun = False
        for head in hinted:
            key = head.topic, head.queue_id
            owned = owned_queues.get(key)
            if (
                owned is None
                or key in self
                or owned.window.next_pull_offset < head.next_queue_offset
            ):
                continue  # It was not taken in: another member may own it by now.
            self._begin(key, owned, head.replica.address, head.replica.end_queue_offset)
            begun = True
        return begun

    def helps(self, error: CallError) -> bool:
        """Whether replicas are read after a pull from the primary has failed."""
        return error.unanswered or error.reason == NO_PRIMARY_REASON

    def stand_in(
        self,
        owned_queues: Iterable[OwnedQueue],
        replica: Callable[[], str],
        lock_epoch_of: Callable[[MessageQueue], int | None],
    ) -> None:
        """Read what can be read while there is no primary; offsets are stored once there is one.

        Args:
            owned_queues: The queues; those that are locked are left, since locks cannot be renewed.
            replica: Where one is; nothing if nowhere.
            lock_epoch_of: Of the lock of a queue; nothing without one.
        """
        for owned in owned_queues:
            if lock_epoch_of(owned.queue) is None and (address := replica()):
                key = owned.queue.topic, owned.queue.queue_id
                self._begin(key, owned, address, READABLE_END)

    def end(self, key: QueueKey) -> None:
        """Read a queue no longer; nothing of it is taken in from now on."""
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()

    def look_again(self) -> None:
        """A queue may have room again."""
        self._room.set()

    async def read(self, owned: OwnedQueue, address: str, end: int) -> None:
        """Read a range until its end, or until something else is wanted.

        Args:
            owned: The queue.
            address: The replica.
            end: How far, exclusive.

        Raises:
            CallError: The replica did not answer, or refused.
        """
        queue, filters = owned.queue, dict(self._filters)
        request = PullRangeRequest(
            topic=queue.topic,
            queue_id=queue.queue_id,
            begin_queue_offset=owned.window.next_pull_offset,
            end_queue_offset=end,
            projection=RANGE_PROJECTION_RECORDS,
            chunk_bytes=self._chunk_bytes(owned),
        )
        if queue.topic in filters:
            request.filter.CopyFrom(filters[queue.topic].to_wire(queue.topic).filter)
        peer = f"replica {address} of broker {queue.broker_name}"
        call = self._connections.pull(address).PullRange(request)
        chunks = aiter(call)
        try:
            while await self._has_room(owned):
                async with asyncio.timeout(CHUNK_TIMEOUT_S):
                    chunk = await anext(chunks, None)
                if chunk is None or owned.released:
                    return
                begin = owned.window.next_pull_offset
                await self._take_in(_pulled(owned, chunk), begin, filters)
                if owned.window.next_pull_offset != chunk.next_queue_offset:
                    return  # It was not wanted, or cannot be read: the primary tells more.
        except AioRpcError as error:
            raise error_from_rpc(error, peer=peer) from error
        except TimeoutError:
            raise DeadlinePassed(f"{peer} does not answer", retriable=True) from None
        finally:
            call.cancel()

    async def close(self) -> None:
        """Read nothing more."""
        tasks = list(self._tasks.values())
        for key in list(self._tasks):
            self.end(key)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, key: QueueKey, owned: OwnedQueue, address: str, end: int) -> None:
        task = start_task(self._run(key, owned, address, end), f"replica-{owned.queue}")
        self._tasks[key] = task

    async def _run(self, key: QueueKey, owned: OwnedQueue, address: str, end: int) -> None:
        begin = owned.window.next_pull_offset
        try:
            await self.read(owned, address, end)
        except CallError as error:
            logger.info("%s is read from its primary again: %s", owned.queue, error)
            if end != READABLE_END:
                self._rests_until_s = self._clock.monotonic_s() + REST_S
        else:
            came = owned.window.next_pull_offset - begin
            logger.debug("%s: %d queue offsets came from %s", owned.queue, came, address)
        finally:
            if self._tasks.get(key) is asyncio.current_task():
                del self._tasks[key]
                self._on_over()

    async def _has_room(self, owned: OwnedQueue) -> bool:
        """Wait until a queue has room; whether it is still wanted."""
        while not owned.released and not owned.wants_records:
            self._room.clear()
            await self._room.wait()
        return not owned.released

    def _chunk_bytes(self, owned: OwnedQueue) -> int:
        """About as much as half of a window holds, by the messages that it has."""
        window, settings = owned.window, self._settings
        mean = window.size_bytes // window.message_count if window.message_count else 0
        half = mean * settings.queue_message_count_max // 2 or CHUNK_BYTES_MIN
        wanted = min(half, settings.pull_bytes_max, settings.queue_bytes_max)
        return min(max(wanted, CHUNK_BYTES_MIN), CHUNK_BYTES_MAX)


def _pulled(owned: OwnedQueue, chunk: PullRangeResponse) -> PulledRecords:
    """A chunk as if the primary had given it: it has the same messages there."""
    head = QueueRecords(
        topic=owned.queue.topic,
        queue_id=owned.queue.queue_id,
        next_queue_offset=chunk.next_queue_offset,
        log_epoch=owned.log_epoch,
        record_sizes=chunk.record_sizes,
    )
    records = memoryview(chunk.records)
    return PulledRecords(head, records, records[:0])
