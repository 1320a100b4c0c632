"""One message queue that this consumer owns: its window, and the loop that calls the listener.

::

    pulled --> window --> take a batch --> listener --> finished: the consumer offset moves
                 ^                            |
                 |                            +-- failed --> sent back to the broker (retry topic)
                 |                                              | cannot be sent back
                 +----------------------------------------------+ wait, then call the listener again
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ariane_record.names import RETRY_PREFIX
from ariane_sdk.client.hold import REQUESTED, Hold
from ariane_sdk.client.listener import Deliver
from ariane_sdk.consumer.delivery.failed_messages import (
    FailedMessages,
    ListenerFailures,
    failed_messages,
    restore_topics,
)
from ariane_sdk.consumer.delivery.hand_out import NO_CARE, DeliveryCare, GivenUpError, HandOut
from ariane_sdk.consumer.delivery.holding import Holding
from ariane_sdk.consumer.delivery.message_returns import REJECTED, MessageReturns, PassingOver
from ariane_sdk.consumer.delivery.window import Delivery, QueueWindow
from ariane_sdk.errors import ConsumptionHeld
from ariane_sdk.message import ReceivedMessage, count_attempt
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.net.backoff import Backoff
from ariane_sdk.runtime.log import logger
from ariane_sdk.runtime.tasks import start_task
from ariane_sdk.settings import PushSettings

TURN_MESSAGES: Final = 256
"""After this many messages the loop lets other tasks run, even if the listener never awaits."""

REDELIVERY_DELAY_S_MAX: Final = 60.0
"""The longest delay before messages are delivered again that could not be sent back."""

RUN_MESSAGES: Final = 32
"""The loop takes this many messages from the window at once if the listener gets fewer in a call:
that saves the work of taking and finishing each small batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerParts:
    """What all queues of one listener share."""

    deliver: Deliver
    """Calls the listener."""
    batch_size: int
    """The most messages for one call."""
    settings: PushSettings
    """The consumer's behaviour."""
    holding: Holding
    """What is not handed out."""
    after_batch: Callable[[MessageQueue], Awaitable[None]] | None = None
    """Awaited with the queue after each batch; None: nothing is."""
    failures: ListenerFailures = field(default_factory=ListenerFailures)
    """Logs the listener's failures."""


class QueueWork:
    """Delivers the messages of one queue: one batch after the other, or several at once.

    When the listener fails on messages, they are sent back to their broker, which delivers them
    again through the group's retry topic; delivery goes on with the messages behind them. When a
    batch of the retry topic fails as a whole, its messages are delivered again one by one, so that
    only the message that fails by itself uses up its attempts.

    Messages that cannot be sent back are delivered again from here, after a delay that grows. A
    broadcasting consumer, which sends none back, passes over them after some attempts, of which two
    are of the whole batch. With one batch at a time, the messages behind them wait. With several,
    the others go on until the distance from the first unfinished message to the last reaches
    ``queue_span_max``.
    """

    _takes_runs = True

    def __init__(
        self,
        queue: MessageQueue,
        begin_offset: int,
        parts: ListenerParts,
        *,
        on_room: Callable[[], None],
        returns: MessageReturns | PassingOver | None = None,
        care: DeliveryCare = NO_CARE,
    ) -> None:
        """Own a queue from now on, and consume it from ``begin_offset``.

        ``on_room`` is called when the window has room again, so that the queue can be pulled.
        Without ``returns``, messages that fail are delivered again from here without limit.
        """
        self.queue = queue
        """The queue."""
        self.window = QueueWindow(begin_offset)
        """Messages that were pulled and are not finished."""
        self.not_before_s = 0.0
        """When the queue may be pulled again, by the monotonic clock."""
        self.log_epoch = 0
        """Epoch of the broker's log at the last pull; 0 if unknown."""
        self.replica_begin: int | None = None
        """As ``OwnedQueue.replica_begin``."""
        self.first_offset = begin_offset
        """Where this consumer began."""
        self.stored_offset: int | None = None
        """The stored consumer offset; None if this consumer has stored none."""
        self.is_doubted = False
        """Whether the broker may have lost the stored offset: it was away meanwhile."""
        self.pulled_s: float | None = None
        """When its last pull was answered, by the loop's time; None if never."""
        self.delivered_s: float | None = None
        """When messages were last taken for the listener, the same way."""
        self.hand_out = HandOut(
            queue, self.window, parts.deliver, care=care, is_released=lambda: self.released
        )
        """Gives messages to the listener."""
        settings, batch_size = parts.settings, parts.batch_size
        self._failures = parts.failures
        self._holding = parts.holding
        self._batch_size = batch_size
        # With several loops for the queue, one loop's run would keep messages from the others.
        self._after_batch = parts.after_batch
        alone = self._takes_runs and settings.queue_concurrency == 1 and parts.after_batch is None
        self._run_size = batch_size * max(1, RUN_MESSAGES // batch_size) if alone else batch_size
        self._settings = settings
        self._on_room = on_room
        self._passing_over = returns if isinstance(returns, PassingOver) else None
        self._returns = None if isinstance(returns, PassingOver) else returns
        self._return_id = "" if self._returns is None else self._returns.new_return_id()
        self._comes_back = queue.topic.startswith(RETRY_PREFIX)
        self._arrived = asyncio.Event()
        self._released = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def released(self) -> bool:
        """Whether the queue is being given up: nothing new is delivered."""
        return self._released.is_set()

    @property
    def paused(self) -> bool:
        """Whether the application has paused it."""
        return self._holding.is_paused(self.queue)

    @property
    def hold(self) -> Hold | None:
        """Why nothing of it is handed out now; None if nothing holds it."""
        return self._holding.of(self.queue)

    @property
    def wants_records(self) -> bool:
        """Whether the queue is to be pulled."""
        return not (self._released.is_set() or self.paused) and self.window.has_room(
            count_max=self._settings.queue_message_count_max,
            bytes_max=self._settings.queue_bytes_max,
            span_max=self._settings.queue_span_max,
        )

    @property
    def done_offset(self) -> int:
        """The offset of the first message that the listener has not finished."""
        return self.window.consumer_offset

    @property
    def in_flight_count(self) -> int:
        """Messages that the listener has and has not finished."""
        # Messages taken for several calls go to the listener batch by batch.
        return sum(min(count, self._batch_size) for count in self.window.taken_counts())

    @property
    def waiting_count(self) -> int:
        """Messages that wait for the listener."""
        taken_count = sum(self.window.taken_counts())
        return self.window.waiting_count + taken_count - self.in_flight_count

    def start(self) -> None:
        """Start delivering."""
        self._tasks = [
            start_task(self._run(), f"queue-{self.queue}")
            for _ in range(self._settings.queue_concurrency)
        ]

    def wake(self) -> None:
        """Tell the loop that messages have arrived in the window."""
        self._arrived.set()

    def deliver_nothing_new(self) -> None:
        """Begin to give the queue up: the listener finishes what it has, and gets no more."""
        self._released.set()
        self.window.drop_waiting()
        self._arrived.set()
        self.hand_out.wake()

    async def release(self, timeout_s: float) -> int:
        """Give the queue up: deliver nothing new, and wait for what the listener has.

        Args:
            timeout_s: How long to wait; then the listener is cancelled, and the next owner of the
                queue delivers again what it had.

        Returns:
            The consumer offset to be stored.
        """
        self.deliver_nothing_new()
        if self._tasks:
            _, busy = await asyncio.wait(self._tasks, timeout=timeout_s)
            if busy:
                logger.warning("the listener is still busy with %s; not waiting", self.queue)
            for task in busy:
                task.cancel()
        return self.window.consumer_offset

    async def _run(self) -> None:
        """Deliver what arrives, until the queue is given up."""
        since_turn, now_s = 0, asyncio.get_running_loop().time
        while True:
            await self._wait_free()
            delivery = self._take()
            if delivery is None:
                if self.released:
                    return
                self._arrived.clear()
                await self._arrived.wait()
                continue
            self.delivered_s = now_s()
            in_one = len(delivery.messages) <= self._batch_size
            deliver = self._deliver_until_done if in_one else self._deliver_run
            if not await deliver(delivery):
                return
            had_room = self.wants_records
            self.window.finish(delivery)
            self.hand_out.wake()
            if self._after_batch is not None:
                await self._after_batch(self.queue)
            if not had_room and self.wants_records:
                self._on_room()
            since_turn += len(delivery.messages)
            if since_turn >= TURN_MESSAGES:
                since_turn = 0
                await asyncio.sleep(0)

    def _take(self) -> Delivery | None:
        if self.hand_out.is_past_suspects:
            return self.window.take(self._run_size)
        return self.window.take(self._batch_size, self.hand_out.suspects)

    async def _deliver_until_done(self, delivery: Delivery) -> bool:
        """Deliver a batch until the listener has finished it; False if the queue was given up."""
        if self._comes_back:
            restore_topics(delivery.messages)
        return await self._listen_until_done(delivery, delivery.messages)

    async def _deliver_run(self, delivery: Delivery) -> bool:
        """As ``_deliver_until_done``, in several calls of the listener.

        Only for consumers without delivery care: no message has to be watched by itself.
        """
        messages, size = delivery.messages, self._batch_size
        give = self.hand_out.give_freely
        for begin in range(0, len(messages), size):
            # If the queue is given up here, the messages before this one are finished.
            delivery.done_count = begin
            if self._holding.any:
                await self._wait_free()
            if self._released.is_set():
                return False
            batch = messages[begin : begin + size]
            try:
                await give(batch)
            except Exception as error:  # noqa: BLE001 - any error of a listener means "not done".
                if not await self._try_again(delivery, batch, error):
                    return False
        return True

    async def _listen_until_done(
        self, delivery: Delivery, left: Sequence[ReceivedMessage], tries: int = 0
    ) -> bool:
        try:
            await self._give(delivery, left)
        except GivenUpError:
            return False
        except Exception as error:  # noqa: BLE001 - any error of a listener means "not done".
            return await self._try_again(delivery, left, error, tries)
        return True

    async def _try_again(
        self,
        delivery: Delivery,
        left: Sequence[ReceivedMessage],
        error: Exception,
        tries: int = 0,
    ) -> bool:
        """Send back or deliver again messages that the listener has failed on, until none is left.

        ``tries`` attempts here have failed before.

        Returns:
            False if the queue was given up meanwhile.
        """
        backoff = Backoff(self._settings.redelivery_delay_s_min, REDELIVERY_DELAY_S_MAX)
        while True:
            failed = failed_messages(left, error)
            if failed.hold is not None:
                self._hold_by(failed.hold)
                left = failed.messages
            else:
                self._failures.log(self.queue, left, failed.messages, error)
                named = failed.named or failed.rejected
                if len(left) > 1 and not named and self._goes_on_singly(tries):
                    return await self._listen_one_by_one(delivery, left, tries)
                left = await self._send_back(failed, tries)
                if not left:
                    break
                delay_s = backoff.next_s() if failed.delay_s is None else failed.delay_s
                if await self._given_up_within(delay_s):
                    return False
                tries += 1
                count_attempt(left)
            try:
                await self._give(delivery, left)
            except GivenUpError:
                return False
            except Exception as again:  # noqa: BLE001 - as the first time.
                error = again
            else:
                break
        return True

    def _goes_on_singly(self, tries: int) -> bool:
        """Whether messages come alone from now on: the one at fault may be given up in the end."""
        return self._comes_back or (self._passing_over is not None and tries > 0)

    async def _listen_one_by_one(
        self, delivery: Delivery, messages: Sequence[ReceivedMessage], tries: int
    ) -> bool:
        """Deliver messages singly, so that one that always fails does not take others along."""
        for message in messages:
            if self.released or not await self._listen_until_done(delivery, [message], tries):
                return False
        return True

    async def _send_back(self, failed: FailedMessages, tries: int) -> Sequence[ReceivedMessage]:
        """Send failed messages back; return the ones to deliver again from here."""
        if self.released:
            return failed.messages  # The next owner of the queue delivers them again.
        if self._passing_over is not None:
            return self._passing_over.left(failed, self.queue, tries)
        if self._returns is None:
            return failed.messages
        return await self._returns.send_back(
            failed,
            self.queue,
            return_id=self._return_id,
            local_attempts=tries,
            reason=REJECTED if failed.rejected else None,
        )

    async def _give(self, delivery: Delivery, left: Sequence[ReceivedMessage]) -> None:
        """Give what is left of a delivery to the listener once nothing holds the queue.

        What is before is done, and does not come again after a restart.

        Raises:
            GivenUpError: The listener did not get them.
            Exception: What the listener raised.
        """
        delivery.finish_before(left[0])
        if not await self._wait_free():
            raise GivenUpError
        await self.hand_out.give(left)

    async def _wait_free(self) -> bool:
        """Wait until nothing holds the queue; False if it was given up."""
        if self._holding.any:
            await self._holding.wait(self.queue, self._released)
        return not self._released.is_set()

    def _hold_by(self, wish: ConsumptionHeld) -> None:
        """Hold this queue, or all, as the listener wishes."""
        queue = None if wish.all_queues else self.queue
        self._holding.hold(queue, REQUESTED, seconds=wish.hold_s, cause=str(wish))

    async def _given_up_within(self, delay_s: float) -> bool:
        """Wait for the delay; returns at once, and True, when the queue is given up."""
        try:
            async with asyncio.timeout(delay_s):
                await self._released.wait()
        except TimeoutError:
            return False
        return True
