"""Queues that are read from a replica for a while: the backlog is deep, or the primary is away.

::

    primary   pull ... hint: a replica has it up to 900        pull from 900 on ...
    replica                      range 120 to 900 ------------>

The request of a range has no group, no lock, and no epoch of the log: the primary has the groups,
their offsets and locks. The messages of a replica were confirmed, so the primary's log has them,
too, under the same offsets. If a replica has no messages, refuses or fails, the primary is asked
again. Only messages from a replica move a position, no other answer.
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
"""The end of a range that reaches as far as a replica can read."""

REST_S: Final = 10.0
"""How long hints are ignored after a replica has failed: the primary has all messages, too."""

CHUNK_BYTES_MIN: Final = 64 << 10
CHUNK_BYTES_MAX: Final = 4 << 20
"""The limits of brokers."""

NO_PRIMARY_REASON: Final = "BROKER_NOT_PRIMARY"
"""The broker is no longer primary, and the route does not know the next primary yet."""

CHUNK_TIMEOUT_S: Final = 10.0
"""How long a chunk of a range may take; replicas do not hold requests."""


TakeIn: TypeAlias = Callable[[PulledRecords, int, Mapping[str, MessageFilter]], Awaitable[None]]
"""Puts records into the window of their queue; called with the records, the queue offset at which
they begin, and the filters of the request."""


class ReplicaReads:
    """Reads queues of one pull loop from replicas."""

    def __init__(
        self,
        connections: Connections,
        plan: ConsumerPlan,
        *,
        take_in: TakeIn,
        on_over: Callable[[], None],
    ) -> None:
        """``on_over`` is called when a queue can be pulled from the primary again."""
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
        """Read deep backlogs from the replicas that the primary names.

        Args:
            answer: The primary's answer, which is in the windows already.
            owned_queues: The queues of the loop.

        Returns:
            Whether a queue is read from a replica now.
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
                continue  # The answer was not taken in: another member may own the queue by now.
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
        """Read from replicas while there is no primary; offsets are stored once there is one.

        Args:
            owned_queues: The queues; locked ones are skipped, since locks cannot be renewed.
            replica: Returns the address of a replica; empty if there is none.
            lock_epoch_of: The epoch of the lock of a queue; None without a lock.
        """
        for owned in owned_queues:
            if lock_epoch_of(owned.queue) is None and (address := replica()):
                key = owned.queue.topic, owned.queue.queue_id
                self._begin(key, owned, address, READABLE_END)

    def end(self, key: QueueKey) -> None:
        """Stop reading a queue; no more of its messages are taken in."""
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()

    def look_again(self) -> None:
        """Go on with queues that have room again."""
        self._room.set()

    async def read(self, owned: OwnedQueue, address: str, end: int) -> None:
        """Read a range until its end, or until the queue moves otherwise.

        Args:
            owned: The queue.
            address: The address of the replica.
            end: The end of the range, exclusive.

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
            skip_expired=True,
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
                if end == READABLE_END and owned.log_epoch and owned.replica_begin is None:
                    # The primary that follows may have begun an epoch in what comes now.
                    owned.replica_begin = begin
                await self._take_in(_pulled(owned, chunk), begin, filters)
                if owned.window.next_pull_offset != chunk.next_queue_offset:
                    return  # It was not wanted, or is unreadable: the primary is asked again.
        except AioRpcError as error:
            raise error_from_rpc(error, peer=peer) from error
        except TimeoutError:
            raise DeadlinePassed(f"{peer} does not answer", retriable=True) from None
        finally:
            call.cancel()

    async def close(self) -> None:
        """Stop reading."""
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
        """Wait until a queue has room; False if it is being given up."""
        while not owned.released and not owned.wants_records:
            self._room.clear()
            await self._room.wait()
        return not owned.released

    def _chunk_bytes(self, owned: OwnedQueue) -> int:
        """About half of what a window holds, estimated from the messages that it has."""
        window, settings = owned.window, self._settings
        mean = window.size_bytes // window.message_count if window.message_count else 0
        half = mean * settings.queue_message_count_max // 2 or CHUNK_BYTES_MIN
        wanted = min(half, settings.pull_bytes_max, settings.queue_bytes_max)
        return min(max(wanted, CHUNK_BYTES_MIN), CHUNK_BYTES_MAX)


def _pulled(owned: OwnedQueue, chunk: PullRangeResponse) -> PulledRecords:
    """Return a chunk as an answer of the primary, which has the same messages there."""
    head = QueueRecords(
        topic=owned.queue.topic,
        queue_id=owned.queue.queue_id,
        next_queue_offset=chunk.next_queue_offset,
        log_epoch=owned.log_epoch,
        lost=chunk.lost,
        record_sizes=chunk.record_sizes,
    )
    records = memoryview(chunk.records)
    return PulledRecords(head, records, records[:0])
