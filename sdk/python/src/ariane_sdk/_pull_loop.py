"""One held pull for each broker, covering all the queues that the consumer owns there.

The next pull is made while the listener works on what the last one brought. A queue whose window
is full is left out; when it has room again, or a queue is added, while a pull without it is being
held, that pull is cancelled and made anew. Nothing is lost by that: positions move only when an
answer has been taken in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import compress, islice
from typing import TYPE_CHECKING, Final

import numpy as np
from grpc.aio import AioRpcError

from ariane.broker.v1.pull_service_pb2 import PullPosition, PullRecordsRequest, QueueRecords
from ariane_record.errors import RecordCorrupted
from ariane_sdk._clock import Clock
from ariane_sdk._column_window import ColumnWindow
from ariane_sdk._connections import Connections
from ariane_sdk._log import logger
from ariane_sdk._message import MessageQueue
from ariane_sdk._owned_queue import OwnedQueue
from ariane_sdk._received_messages import received_messages
from ariane_sdk._settings import ConsumerSettings
from ariane_sdk._status import error_from_rpc, error_from_status
from ariane_sdk._tag_filter import TagFilter
from ariane_sdk._tasks import loop_for_ever, start_task
from ariane_sdk._timestamps import duration_from
from ariane_sdk.errors import CallError, QueueOffsetOutOfRange, RecordDamaged

if TYPE_CHECKING:
    from grpc.aio import UnaryUnaryCall

    from ariane.broker.v1.pull_service_pb2 import PullRecordsResponse

INTERRUPT_DELAY_S: Final = 0.005
"""A pull that finds something answers sooner; only one that is held is cancelled."""

POSITIONS_PER_PULL_MAX: Final = 8192
"""Brokers take no more in one call."""

HOLD_S_IN_TURN: Final = 0.1
"""How long a pull is held that leaves other queues waiting for their turn."""

HOLD_GRACE_S: Final = 5.0
"""How much longer than the hold a call may take."""


LOST_REASONS: Final = frozenset({"QUEUE_LOCKED", "QUEUE_LOCK_FENCED", "CONSUMER_OFFSET_RESET"})
"""The queue is to be dropped: another member owns it, or its offset was set anew."""


class PullLoop:
    """Pulls from one broker for as long as any queue there is owned."""

    def __init__(
        self,
        broker_name: str,
        connections: Connections,
        *,
        address: Callable[[], str],
        group: str,
        client_id: str,
        filters: Mapping[str, TagFilter],
        settings: ConsumerSettings,
        clock: Clock,
        on_trouble: Callable[[str, CallError], None],
        on_lost: Callable[[MessageQueue, CallError], None],
        lock_epoch_of: Callable[[MessageQueue], int | None],
    ) -> None:
        """Own no queue yet.

        Args:
            broker_name: The broker.
            connections: Where channels come from.
            address: Tells where the broker is now; nothing if nobody knows.
            group: The consumer group.
            client_id: The consumer.
            filters: What is wanted of each topic.
            settings: How the consumer behaves.
            clock: Paces repeats.
            on_trouble: Told the topic and the error when a route may be out of date.
            on_lost: Told of a queue that another member has locked.
            lock_epoch_of: The epoch of the lock of a queue; nothing if there is none.
        """
        self.broker_name = broker_name
        self._connections = connections
        self._address = address
        self._group = group
        self._client_id = client_id
        self._filters = filters
        self._settings = settings
        self._clock = clock
        self._on_trouble = on_trouble
        self._on_lost = on_lost
        self._lock_epoch_of = lock_epoch_of
        self._works: dict[tuple[str, int], OwnedQueue] = {}
        self._asked: dict[tuple[str, int], int] = {}
        self._call: UnaryUnaryCall[PullRecordsRequest, PullRecordsResponse] | None = None
        self._interrupt: asyncio.TimerHandle | None = None
        self._changed = asyncio.Event()
        self._failure_count = 0
        self._task = start_task(loop_for_ever(self._turn, clock), f"pull-{broker_name}")

    def add(self, work: OwnedQueue) -> None:
        """Pull this queue too."""
        self._works[work.queue.topic, work.queue.queue_id] = work
        self.look_again()

    def remove(self, queue: MessageQueue) -> None:
        """Pull this queue no longer; an answer that is under way is dropped."""
        self._works.pop((queue.topic, queue.queue_id), None)

    @property
    def empty(self) -> bool:
        """Whether there is no queue to pull."""
        return not self._works

    def look_again(self) -> None:
        """A queue was added, or has room again."""
        self._changed.set()
        if self._call is not None and self._interrupt is None:
            loop = asyncio.get_running_loop()
            self._interrupt = loop.call_later(INTERRUPT_DELAY_S, self._interrupt_held)

    async def close(self) -> None:
        """Pull no more."""
        if self._interrupt is not None:
            self._interrupt.cancel()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _interrupt_held(self) -> None:
        self._interrupt = None
        if self._call is not None and any(
            self._asked.get(key) != work.window.next_pull_offset and self._is_ready(work)
            for key, work in self._works.items()
        ):
            self._call.cancel()

    def _is_ready(self, work: OwnedQueue) -> bool:
        return work.wants_records and work.not_before_s <= self._clock.monotonic_s()

    async def _turn(self) -> None:
        """One pull, or one wait for something to pull."""
        self._changed.clear()
        ready = self._next_ready()
        if not ready:
            await self._wait_for_change()
            return
        try:
            response = await self._pull(ready)
        except AioRpcError as rpc_error:
            peer = f"broker {self.broker_name}"
            await self._back_off(error_from_rpc(rpc_error, peer=peer), ready)
        except CallError as error:
            await self._back_off(error, ready)
        else:
            self._failure_count = 0
            for records in response.queues if response is not None else ():
                self._take_in(records)
                # Decoding takes time: others have their turn between queues.
                await asyncio.sleep(0)

    def _next_ready(self) -> dict[tuple[str, int], OwnedQueue]:
        """The queues of the next pull; where one pull cannot name all of them, they take turns."""
        ready = {key: work for key, work in self._works.items() if self._is_ready(work)}
        if len(ready) <= POSITIONS_PER_PULL_MAX:
            return ready
        chosen = dict(islice(ready.items(), POSITIONS_PER_PULL_MAX))
        for key, work in chosen.items():
            del self._works[key]
            self._works[key] = work
        return chosen

    async def _wait_for_change(self) -> None:
        """Wait for a queue that is ready, or for the time at which one may be pulled again."""
        now_s = self._clock.monotonic_s()
        times_s = [work.not_before_s for work in self._works.values() if work.not_before_s > now_s]
        try:
            async with asyncio.timeout(min(times_s) - now_s if times_s else None):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _pull(
        self, ready: Mapping[tuple[str, int], OwnedQueue]
    ) -> PullRecordsResponse | None:
        """The answer to one pull; nothing if it was interrupted."""
        address = self._address()
        if not address:
            raise CallError(f"no address of broker {self.broker_name} is known", retriable=True)
        request = self._request(ready)
        self._asked = {
            (position.topic, position.queue_id): position.queue_offset
            for position in request.positions
        }
        call = self._connections.pull(address).PullRecords(
            request, timeout=self._settings.hold_s + HOLD_GRACE_S
        )
        self._call = call
        try:
            return await call
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                call.cancel()
                raise
            return None
        finally:
            self._call = None
            if self._interrupt is not None:
                self._interrupt.cancel()
                self._interrupt = None

    def _request(self, ready: Mapping[tuple[str, int], OwnedQueue]) -> PullRecordsRequest:
        settings = self._settings
        topics = {topic for topic, _ in ready}
        return PullRecordsRequest(
            consumer_group=self._group,
            client_id=self._client_id,
            positions=[
                PullPosition(
                    topic=topic,
                    queue_id=queue_id,
                    queue_offset=work.window.next_pull_offset,
                    record_count_max=settings.queue_message_count_max - work.window.message_count,
                    size_bytes_max=settings.queue_bytes_max - work.window.size_bytes,
                    lock_epoch=self._lock_epoch_of(work.queue),
                )
                for (topic, queue_id), work in ready.items()
            ],
            subscriptions=[
                self._filters[topic].to_wire(topic) for topic in topics if topic in self._filters
            ],
            record_count_max=settings.pull_record_count_max,
            size_bytes_max=settings.pull_bytes_max,
            hold_duration=duration_from(
                settings.hold_s if len(ready) < POSITIONS_PER_PULL_MAX else HOLD_S_IN_TURN
            ),
        )

    def _take_in(self, records: QueueRecords) -> None:
        key = (records.topic, records.queue_id)
        work = self._works.get(key)
        if work is None or work.released or self._asked[key] != work.window.next_pull_offset:
            return
        if records.HasField("error"):
            error = error_from_status(records.error, peer=f"broker {self.broker_name}")
            if isinstance(error, QueueOffsetOutOfRange):
                self._move_into_range(work, records)
            elif error.reason in LOST_REASONS:
                self._on_lost(work.queue, error)
            else:
                self._queue_failed(work, error)
            return
        if not records.record_sizes:
            work.window.put((), records.next_queue_offset)
            return
        sizes = np.frombuffer(records.record_sizes, "<i4")
        tag_filter = self._filters.get(work.queue.topic)
        try:
            if isinstance(work.window, ColumnWindow):
                tags = tag_filter.tags if tag_filter is not None else ()
                work.window.put_records(records.records, sizes, records.next_queue_offset, tags)
                work.wake()
                return
            messages = received_messages(records.records, sizes, work.queue)
        except (RecordCorrupted, RecordDamaged) as error:
            damage = CallError(f"{work.queue} at {self._asked[key]}: {error}")
            self._queue_failed(work, damage)
            return
        sizes_bytes = sizes.tolist()
        if tag_filter is not None and tag_filter.tags:
            wanted = [tag_filter.matches(message.tag) for message in messages]
            messages = list(compress(messages, wanted))
            sizes_bytes = list(compress(sizes_bytes, wanted))
        work.window.put(messages, records.next_queue_offset, sizes_bytes)
        work.wake()

    def _move_into_range(self, work: OwnedQueue, records: QueueRecords) -> None:
        """Go on where the broker still has, or will have, something.

        Below the range: retention has deleted what comes next, so the oldest that is kept does.
        Above: the broker has lost what was consumed already, and all that is to come is new.
        """
        asked = work.window.next_pull_offset
        oldest, end = records.min_queue_offset, records.max_queue_offset
        next_offset = oldest if asked < oldest else end
        logger.warning(
            "%s keeps %d to %d, and not %d; going on at %d",
            work.queue,
            oldest,
            end,
            asked,
            next_offset,
        )
        work.window.put((), next_offset)

    def _queue_failed(self, work: OwnedQueue, error: CallError) -> None:
        """One queue was not read; the others were."""
        logger.warning("%s cannot be pulled: %s", work.queue, error)
        delay_s = self._settings.reconnect_delay_s_max
        work.not_before_s = self._clock.monotonic_s() + delay_s
        # By then a pull for the other queues may be held.
        asyncio.get_running_loop().call_later(delay_s, self.look_again)
        self._on_trouble(work.queue.topic, error)

    async def _back_off(
        self, error: CallError, ready: Mapping[tuple[str, int], OwnedQueue]
    ) -> None:
        """The call failed as a whole: wait before the next, longer each time."""
        logger.info("broker %s cannot be pulled from: %s", self.broker_name, error)
        for topic in _topics(ready):
            self._on_trouble(topic, error)
        delay_s = min(
            self._settings.reconnect_delay_s_min * 2 ** min(self._failure_count, 16),
            self._settings.reconnect_delay_s_max,
        )
        self._failure_count += 1
        await self._clock.sleep(max(delay_s, error.retry_after_s))


def _topics(ready: Mapping[tuple[str, int], OwnedQueue]) -> Sequence[str]:
    return sorted({topic for topic, _ in ready})
