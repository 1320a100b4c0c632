"""A stream of held pulls to each broker, each for all the queues that the consumer owns there.

::

    pull 1 ->            pull 2 ->                        pull 3 ->
            <- answer 1   decode 1, deliver 1    <- answer 2   decode 2, deliver 2
                          (the broker reads)                   (the broker reads)

The next pull is sent before the last answer is decoded, so that broker and client work at the same
time. Where few messages come at a time, a pull follows the queues instead: the broker answers it
again whenever messages have come, as long as there is room for them, and the client sends nothing.

A pull leaves out queues whose windows are full. When such a queue has room again, or a queue is
added or removed, and the broker holds a pull that does not know of it, another pull is sent, which
ends the hold. No message is lost: a position moves only when an answer has been taken in, and an
answer for another position is dropped. A pull that overtakes another is answered once only, so that
the next pull begins where the answers on their way ended.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from ariane.broker.v1.pull_service_pb2 import PullRecordsRequest, QueueRecords
from ariane_record.errors import CodecMissing, RecordCorrupted
from ariane_sdk.checks.local_filter import LocalFilter
from ariane_sdk.checks.message_filter import MessageFilter
from ariane_sdk.client.lost_messages import LostMessages
from ariane_sdk.consumer.delivery.damaged_bodies import BodiesDamaged, DamagedBodies
from ariane_sdk.consumer.delivery.owned_queue import OwnedQueue
from ariane_sdk.consumer.delivery.window import ROOM_SHARE_MIN
from ariane_sdk.consumer.group.consumer_plan import ConsumerPlan
from ariane_sdk.consumer.pulling.pull_requests import (
    HOLD_S_IN_TURN,
    Arrived,
    PullRequests,
    QueueKey,
)
from ariane_sdk.consumer.pulling.pull_source import PullSource
from ariane_sdk.consumer.pulling.pull_stream import PullStream
from ariane_sdk.consumer.pulling.pull_wire import PullAnswer, PulledRecords
from ariane_sdk.consumer.pulling.pulled import (
    LOST_REASONS,
    damage_before_filter,
    fill,
    judge_replica,
    move_into_range,
)
from ariane_sdk.consumer.pulling.replica_reads import ReplicaReads
from ariane_sdk.errors import (
    CallError,
    FilterFailed,
    MessagesLost,
    QueueOffsetOutOfRange,
    RecordDamaged,
)
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.backoff import RECONNECT_DELAY_S_MAX, reconnect_delay_s
from ariane_sdk.net.connections import Connections
from ariane_sdk.net.status import error_from_status
from ariane_sdk.runtime.log import logger
from ariane_sdk.runtime.tasks import loop_for_ever, start_task

INTERRUPT_DELAY_S: Final = 0.005
"""A pull that finds messages is answered sooner; only a held pull is overtaken."""

POSITIONS_PER_PULL_MAX: Final = 8192
"""Brokers accept no more in one call."""

AHEAD_BYTES_MIN: Final = 64 << 10
"""A smaller answer is decoded before the next pull is sent: its listener should not wait."""


class _OpenPull(NamedTuple):
    """A pull that is not over."""

    offsets: dict[QueueKey, int]
    """Where its next answer begins in each queue."""
    filters: Mapping[str, MessageFilter]
    """The filter of each topic when it was sent."""


class PullLoop:
    """Pulls the owned queues of one broker."""

    def __init__(
        self,
        broker_name: str,
        connections: Connections,
        plan: ConsumerPlan,
        *,
        source: PullSource,
        on_trouble: Callable[[str, CallError], None],
        on_lost: Callable[[MessageQueue, CallError], None],
        lock_epoch_of: Callable[[MessageQueue], int | None],
        damaged_bodies: DamagedBodies,
        lost_messages: LostMessages,
        on_fatal: Callable[[CallError], None],
    ) -> None:
        """Start without queues.

        Args:
            broker_name: The broker.
            connections: The client's connections.
            plan: What the consumer is to be.
            source: The broker, or the FilterServers beside it.
            on_trouble: Called with a topic and an error when the route may be out of date.
            on_lost: Called when another member has locked a queue.
            lock_epoch_of: The epoch of the lock of a queue; None without a lock.
            damaged_bodies: Gives up messages that columns or filters cannot read.
            lost_messages: Notes messages that the broker has lost.
            on_fatal: Called when lost messages end the consumer.
        """
        self.broker_name = broker_name
        self._connections = connections
        self._source = source
        self._filters = plan.filters
        self._settings = plan.settings
        self._clock = plan.clock
        self._pause = plan.pause
        self._on_trouble = on_trouble
        self._on_lost = on_lost
        self._damaged_bodies = damaged_bodies
        self._lost_messages = lost_messages
        self._on_fatal = on_fatal
        self._requests = PullRequests(plan, lock_epoch_of)
        self._owned: dict[QueueKey, OwnedQueue] = {}
        self._replica_reads = ReplicaReads(
            connections, plan, take_in=self._take_in_from_replica, on_over=self.look_again
        )
        # The pulls that are not over, and the answers that are being taken in.
        self._asked: deque[_OpenPull] = deque()
        self._arrived: dict[QueueKey, Arrived] = {}
        self._stream: PullStream | None = None
        self._interrupt: asyncio.TimerHandle | None = None
        self._overtaking: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._failure_count = 0
        self._task = start_task(loop_for_ever(self._turn, plan.clock), f"pull-{broker_name}")

    def add(self, owned: OwnedQueue) -> None:
        """Add a queue."""
        key = owned.queue.topic, owned.queue.queue_id
        self._owned[key] = owned
        for asked in self._asked:
            # It was pulled before, perhaps under another lock.
            asked.offsets.pop(key, None)
        self.look_again()

    def remove(self, queue: MessageQueue) -> None:
        """Remove a queue; an answer on its way is dropped."""
        key = queue.topic, queue.queue_id
        self._owned.pop(key, None)
        self._replica_reads.end(key)
        self.look_again()

    @property
    def empty(self) -> bool:
        """Whether the loop has no queue."""
        return not self._owned

    def look_again(self) -> None:
        """Pull anew after a queue was added or removed, or has room again, or another filter."""
        self._changed.set()
        self._replica_reads.look_again()
        if self._asked and self._interrupt is None:
            self._overtake_soon()

    async def close(self) -> None:
        """Stop pulling."""
        if self._interrupt is not None:
            self._interrupt.cancel()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._replica_reads.close()
        self._hang_up()

    def _overtake_soon(self) -> None:
        loop = asyncio.get_running_loop()
        self._interrupt = loop.call_later(INTERRUPT_DELAY_S, self._overtake_held)

    def _overtake_held(self) -> None:
        """Send another pull if the held one lacks a ready queue, or has one that is gone."""
        self._interrupt = None
        stream = self._stream
        if stream is None or not self._asked:
            return  # The next pull is sent soon.
        if len(self._asked) > 1:
            # One is overtaken already; the other one may be held as well.
            self._overtake_soon()
            return
        asked = self._asked[0]
        ready = self._next_ready()
        if not ready:
            return
        offsets = asked.offsets
        misses = any(offsets.get(key) != self._position(key, owned) for key, owned in ready.items())
        if misses or not offsets.keys() <= self._owned.keys() or asked.filters != self._filters:
            request = self._note(self._request(ready))
            self._overtaking = start_task(self._send_after(stream, request), "overtaking-pull")

    async def _send_after(self, stream: PullStream, request: PullRecordsRequest) -> None:
        try:
            await stream.ask(request, follow=False)
        except CallError:
            return  # The reader of the answers gets the same error.

    def _is_ready(self, key: QueueKey, owned: OwnedQueue) -> bool:
        if not owned.wants_records or owned.not_before_s > self._clock.monotonic_s():
            return False
        if key in self._replica_reads:
            return False
        arrived = self._arrived.get(key)
        if arrived is None:
            return True
        window, settings = owned.window, self._settings
        return (
            window.message_count + arrived.message_count
        ) * ROOM_SHARE_MIN <= settings.queue_message_count_max and (
            window.size_bytes + arrived.size_bytes
        ) * ROOM_SHARE_MIN <= settings.queue_bytes_max

    def _position(self, key: QueueKey, owned: OwnedQueue) -> int:
        """The offset at which the next pull reads a queue."""
        arrived = self._arrived.get(key)
        if owned.replica_begin is not None:
            return owned.replica_begin
        return owned.window.next_pull_offset if arrived is None else arrived.next_offset

    async def _turn(self) -> None:
        """Take in one answer, or wait for a queue to pull."""
        self._changed.clear()
        ready: Mapping[QueueKey, OwnedQueue] = {}
        if not self._asked:
            ready = self._next_ready()
            if not ready:
                await self._wait_for_change()
                return
        try:
            answer = await self._next_answer(ready)
        except CallError as error:
            topics = {topic for asked in self._asked for topic, _ in asked.offsets}
            self._hang_up()
            await self._back_off(error, sorted(topics | {topic for topic, _ in ready}))
            return
        self._failure_count = 0
        self._source.answered()
        self._pause.answered(self.broker_name)
        await self._take_all_in(answer.queues, self._answered(answer))

    async def _next_answer(self, ready: Mapping[QueueKey, OwnedQueue]) -> PullAnswer:
        """Return the next answer; first pull these queues, if there are any."""
        if ready:
            await self._pull(ready)
        if self._stream is None:
            raise CallError("no pull was sent", retriable=True)
        return await self._stream.answer(self._hold_s() + self._settings.call_timeout_s)

    def _answered(self, answer: PullAnswer) -> _OpenPull:
        """Return the pull of an answer; if further answers follow, they begin behind this one."""
        if not answer.more_follow:
            return self._asked.popleft()
        asked = self._asked[0]
        before: dict[QueueKey, int] = {}
        for pulled in answer.queues:
            key = pulled.head.topic, pulled.head.queue_id
            if key in asked.offsets:
                before[key] = asked.offsets[key]
                asked.offsets[key] = pulled.head.next_queue_offset
        return _OpenPull(before, asked.filters)

    async def _take_all_in(self, answer: Sequence[PulledRecords], asked: _OpenPull) -> None:
        """Take in an answer while the broker works on the next one."""
        if not any(pulled.head.HasField("error") for pulled in answer):
            self._arrived = {
                (pulled.head.topic, pulled.head.queue_id): Arrived(
                    pulled.head.next_queue_offset,
                    pulled.message_count,
                    pulled.record_bytes,
                    pulled.head.log_epoch,
                )
                for pulled in answer
                if self._is_wanted(pulled.head, asked)
            }
        try:
            size_bytes = sum(arrived.size_bytes for arrived in self._arrived.values())
            if size_bytes >= AHEAD_BYTES_MIN and not self._asked and (ready := self._next_ready()):
                await self._pull_ahead(ready)
            for place, pulled in enumerate(answer):
                if place:
                    # Decoding takes time: other tasks run between two queues.
                    await asyncio.sleep(0)
                if damage := self._take_in(pulled, asked):
                    await self._give_up(pulled, damage, asked)
        finally:
            self._arrived.clear()
        if self._replica_reads.follow_hints(answer, self._owned):
            # Pulls on their way name queues that are read elsewhere now.
            self._hang_up()

    async def _take_in_from_replica(
        self, pulled: PulledRecords, begin: int, filters: Mapping[str, MessageFilter]
    ) -> None:
        asked = _OpenPull({(pulled.head.topic, pulled.head.queue_id): begin}, filters)
        if damage := self._take_in(pulled, asked):
            await self._give_up(pulled, damage, asked)

    async def _pull_ahead(self, ready: Mapping[QueueKey, OwnedQueue]) -> None:
        try:
            await self._pull(ready)
        except CallError as error:
            # The answer at hand is taken in first; then another stream is tried.
            logger.info("%s cannot be pulled from: %s", self._source.peer, error)
            self._hang_up()

    def _next_ready(self) -> dict[QueueKey, OwnedQueue]:
        """Return the queues of the next pull; if there are too many for one, they take turns."""
        ready = {key: owned for key, owned in self._owned.items() if self._is_ready(key, owned)}
        if len(ready) <= POSITIONS_PER_PULL_MAX:
            return ready
        chosen = dict(islice(ready.items(), POSITIONS_PER_PULL_MAX))
        for key, owned in chosen.items():
            del self._owned[key]
            self._owned[key] = owned
        return chosen

    async def _wait_for_change(self) -> None:
        """Wait for a ready queue, or for the time at which one may be pulled again."""
        now_s = self._clock.monotonic_s()
        times_s = [each.not_before_s for each in self._owned.values() if each.not_before_s > now_s]
        try:
            async with asyncio.timeout(min(times_s) - now_s if times_s else None):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _pull(self, ready: Mapping[QueueKey, OwnedQueue]) -> None:
        """Send one pull for all queues that are ready."""
        if self._interrupt is not None:
            self._interrupt.cancel()
            self._interrupt = None
        request = self._request(ready)
        address = self._source.address()
        if self._stream is not None and self._stream.address != address:
            self._hang_up()
        if self._stream is None:
            channel = self._connections.channel(address)
            self._stream = PullStream(channel, address, peer=self._source.peer)
        # If queues take turns, each pull has other queues.
        await self._stream.ask(self._note(request), follow=not _take_turns(ready))

    def _request(self, ready: Mapping[QueueKey, OwnedQueue]) -> PullRecordsRequest:
        hold_s = HOLD_S_IN_TURN if _take_turns(ready) else self._hold_s()
        return self._requests.request(ready, self._arrived, hold_s=hold_s)

    def _hold_s(self) -> float:
        """How long a pull is held: after a failure not at all, so that the next shows sooner."""
        if self._failure_count:
            return 0.0
        return min(self._settings.hold_s, self._source.hold_s_max)

    def _note(self, request: PullRecordsRequest) -> PullRecordsRequest:
        """Note a pull that is about to be sent."""
        offsets = {
            (position.topic, position.queue_id): position.queue_offset
            for position in request.positions
        }
        self._asked.append(_OpenPull(offsets, dict(self._filters)))
        return request

    def _hang_up(self) -> None:
        """End the stream; its pulls are repeated on the next one."""
        if self._overtaking is not None:
            self._overtaking.cancel()
            self._overtaking = None
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self._asked.clear()

    def _is_wanted(self, head: QueueRecords, asked: _OpenPull) -> bool:
        """Whether the records of a queue are those that its window waits for."""
        key = head.topic, head.queue_id
        owned = self._owned.get(key)
        return (
            owned is not None
            and not owned.released
            and asked.offsets.get(key) == owned.window.next_pull_offset
            and asked.filters.get(head.topic) == self._filters.get(head.topic)
        )

    async def _give_up(
        self, pulled: PulledRecords, damage: BodiesDamaged, asked: _OpenPull
    ) -> None:
        """Give up messages whose bodies cannot be read, and take in the others."""
        head = pulled.head
        owned = self._owned[head.topic, head.queue_id]
        if await self._damaged_bodies.give_up(owned.queue, damage):
            if not head.HasField("error"):
                self._take_in(pulled.without(damage.causes), asked)
            elif self._is_wanted(head, asked):
                owned.window.put((), head.next_queue_offset + 1)
        else:
            self._queue_failed(owned, CallError(f"{owned.queue}: {damage}"))

    def _take_in(self, pulled: PulledRecords, asked: _OpenPull) -> BodiesDamaged | None:
        """Put records into the window of their queue; return what must be given up first."""
        head = pulled.head
        key = head.topic, head.queue_id
        self._arrived.pop(key, None)
        owned = self._owned.get(key)
        if owned is None or not self._is_wanted(head, asked):
            if owned is not None and asked.offsets.get(key) == owned.replica_begin is not None:
                judge_replica(owned, head, self._source.peer, self._on_lost, self._queue_failed)
            # The next pull may have counted on this answer.
            self.look_again()
            return None
        if head.HasField("error"):
            error = error_from_status(head.error, peer=self._source.peer)
            if isinstance(error, QueueOffsetOutOfRange):
                owned.log_epoch = head.log_epoch
                move_into_range(owned, head)
            elif error.reason in LOST_REASONS:
                self._on_lost(owned.queue, error)
            elif error.reason == BodiesDamaged.reason and pulled.message_count:
                return damage_before_filter(pulled, owned.queue, error)
            else:
                self._queue_failed(owned, error)
            return None
        owned.pulled_s = asyncio.get_running_loop().time()
        # The broker has found that its log still has the messages of the window.
        owned.log_epoch = head.log_epoch
        return self._take_messages_in(owned, pulled)

    def _take_messages_in(self, owned: OwnedQueue, pulled: PulledRecords) -> BodiesDamaged | None:
        begin = owned.window.next_pull_offset
        try:
            self._lost_messages.note(owned.queue, pulled.head.lost)
            if pulled.message_count:
                self._fill(owned, pulled)
            else:
                owned.window.put((), pulled.head.next_queue_offset)
        except MessagesLost as error:
            self._queue_failed(owned, error)
            self._on_fatal(error)
        except BodiesDamaged as damage:
            return damage
        except FilterFailed as error:
            self._queue_failed(owned, FilterFailed(f"{owned.queue}: {error}"))
        except (CodecMissing, RecordCorrupted, RecordDamaged) as error:
            self._queue_failed(owned, CallError(f"{owned.queue} at {begin}: {error}"))
        return None

    def _fill(self, owned: OwnedQueue, pulled: PulledRecords) -> None:
        """Put records into a window; raises the errors of ``fill``."""
        message_filter = self._filters.get(owned.queue.topic)
        fill(owned, pulled, message_filter)
        if isinstance(message_filter, LocalFilter) and owned.wants_records and self._asked:
            # Messages that the filter dropped were counted as arrived, so the held pull may lack
            # this queue. No listener finishes them, which would make the loop look again.
            self.look_again()

    def _queue_failed(self, owned: OwnedQueue, error: CallError) -> None:
        """Report that a queue could not be read, and pull it again later."""
        logger.warning("%s cannot be pulled: %s", owned.queue, error)
        owned.not_before_s = self._clock.monotonic_s() + RECONNECT_DELAY_S_MAX
        # Then a pull for the other queues may be held.
        asyncio.get_running_loop().call_later(RECONNECT_DELAY_S_MAX, self.look_again)
        self._on_trouble(owned.queue.topic, error)

    async def _back_off(self, error: CallError, topics: Sequence[str]) -> None:
        """Wait after the stream has failed, longer each time."""
        logger.info("%s cannot be pulled from: %s", self._source.peer, error)
        for owned in self._owned.values():
            owned.is_doubted = True
        self._pause.refused(self.broker_name, error)
        for topic in topics:
            self._on_trouble(topic, error)
        if self._replica_reads.helps(error):
            ready = self._next_ready().values()
            self._replica_reads.stand_in(ready, self._source.replica, self._requests.lock_epoch_of)
        if await self._source.failed(error):
            return
        delay_s = reconnect_delay_s(self._failure_count)
        self._failure_count += 1
        await self._clock.sleep(max(delay_s, error.retry_after_s))


def _take_turns(ready: Mapping[QueueKey, OwnedQueue]) -> bool:
    """Whether a pull of these queues may leave others waiting."""
    return len(ready) >= POSITIONS_PER_PULL_MAX
