"""One message queue whose messages the application fetches itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ariane_sdk.client.hold import Hold
from ariane_sdk.client.queue_position import QueuePosition
from ariane_sdk.consumer.delivery.window import QueueWindow
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.runtime.log import logger
from ariane_sdk.settings import ConsumerSettings


class PolledQueue:
    """Holds pulled messages until they are polled, and the application's progress.

    ::

        queue offsets   40 ............ 52 ............ 60 ..............
                        [ handed out   ][ waits        ]
                        ^ done offset   ^ position      ^ next pull offset
    """

    def __init__(
        self,
        queue: MessageQueue,
        begin_offset: int,
        *,
        settings: ConsumerSettings,
        paused: set[MessageQueue],
        on_room: Callable[[], None],
        on_arrival: Callable[[PolledQueue], None],
    ) -> None:
        """Own a queue whose first message to be handed out has this offset.

        ``paused`` has the consumer's paused queues: one that is taken over anew, as after a reset
        of its offset, is paused still. ``on_room`` is called when the queue may be pulled again,
        ``on_arrival`` when there are messages to poll.
        """
        self.queue = queue
        """The queue."""
        self.window = self._window_at(begin_offset)
        """Messages that were pulled and not handed out."""
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
        """When messages of it were last handed out, the same way."""
        self.in_line = False
        """Whether it is in the line of queues to poll."""
        self.hold: Hold | None = None
        """None: nothing but the application holds it."""
        self._settings = settings
        self._paused = paused
        self._on_room = on_room
        self._on_arrival = on_arrival
        self._done_offset = begin_offset
        self._all_done = True
        self._released = False
        self._nothing_in_hand = asyncio.Event()
        self._nothing_in_hand.set()

    @property
    def position(self) -> int:
        """The queue offset that is handed out next."""
        return self.window.consumer_offset

    @property
    def done_offset(self) -> int:
        """The consumer offset that may be stored.

        Behind the messages that are done. If all are done, also behind messages that a filter left
        out since: otherwise these would be looked at again after each start.
        """
        return self.position if self._all_done else self._done_offset

    @property
    def paused(self) -> bool:
        """Whether it is neither pulled nor handed out."""
        return self.queue in self._paused

    @property
    def released(self) -> bool:
        """Whether the queue is being given up: no more messages are handed out."""
        return self._released

    @property
    def wants_records(self) -> bool:
        """Whether the queue is to be pulled."""
        return not (self._released or self.paused) and self.window.has_room(
            count_max=self._settings.queue_message_count_max,
            bytes_max=self._settings.queue_bytes_max,
            span_max=self._settings.queue_span_max,
        )

    @property
    def in_flight_count(self) -> int:
        """Queue offsets that the application got and has not finished."""
        return max(0, self.position - self.done_offset)

    @property
    def waiting_count(self) -> int:
        """Messages that wait to be polled."""
        return self.window.message_count

    def start(self) -> None:
        """Do nothing: a polled queue has no task."""

    def wake(self) -> None:
        """Note that messages have arrived in the window."""
        if self.window.message_count and not (self.paused or self._released):
            self._on_arrival(self)

    def take(self, count_max: int) -> Sequence[ReceivedMessage]:
        """Hand out the next messages; none if there are none.

        Args:
            count_max: Messages at most, at least one.
        """
        if self.paused or self._released:
            return ()
        had_room, position = self.wants_records, self.position
        delivery = self.window.take(count_max)
        if delivery is None:
            return ()
        # They no longer count for the window's limits: the application limits them by its polls.
        self.window.finish(delivery)
        self._handed_out(position, had_room=had_room)
        return delivery.messages

    def _handed_out(self, position: int, *, had_room: bool) -> None:
        """Note that messages were handed out from a position on."""
        self.delivered_s = asyncio.get_running_loop().time()
        if self._all_done:
            self._all_done, self._done_offset = False, position
        self._nothing_in_hand.clear()
        if not had_room and self.wants_records:
            self._on_room()

    def _window_at(self, queue_offset: int) -> QueueWindow:
        return QueueWindow(queue_offset)

    def count_as_done(self, queue_offset: int | None = None) -> None:
        """Count the application's messages as done.

        Args:
            queue_offset: Up to here, exclusive; all that was handed out if not given.
        """
        self._done_offset = self.position if queue_offset is None else queue_offset
        self._all_done = self._done_offset == self.position
        if self._done_offset >= self.position:
            self._nothing_in_hand.set()

    def forget_in_hand(self) -> None:
        """Give up the messages that the application has: a consumer gets them again."""
        self._nothing_in_hand.set()

    def seek(self, position: QueuePosition) -> None:
        """Go on at another queue offset; messages before it do not count as done."""
        self._done_offset, self._all_done = self.done_offset, False
        self.window = self._window_at(position.queue_offset)
        self.log_epoch, self.replica_begin = position.log_epoch, None
        self._nothing_in_hand.set()
        self._on_room()

    def pause(self) -> None:
        """Stop pulling and handing out."""
        self._paused.add(self.queue)

    def resume(self) -> None:
        """Go on."""
        self._paused.discard(self.queue)
        self.wake()
        self._on_room()

    def deliver_nothing_new(self) -> None:
        """Begin to give the queue up."""
        if not self._released:
            self._released = True
            self.window.drop_waiting()

    async def release(self, timeout_s: float) -> int:
        """Give the queue up, and wait until the application has finished its messages.

        Args:
            timeout_s: How long to wait; then the next owner of the queue gets them again.

        Returns:
            The consumer offset to be stored.
        """
        self.deliver_nothing_new()
        try:
            async with asyncio.timeout(timeout_s):
                await self._nothing_in_hand.wait()
        except TimeoutError:
            logger.warning("the application still has messages of %s; not waiting", self.queue)
        return self._done_offset
