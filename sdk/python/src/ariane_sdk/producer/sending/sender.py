r"""The calls to one broker: the messages that gather while a call is in flight form the next one.

The rule, for small messages:

1. With no call in flight, everything that waits is sent. A lone message is sent in this very turn
   of the loop.
2. If many have waited for one answer, all send again when it comes: client and broker would
   work in turn. So that is then sent in two halves, of whole rows, and the broker works on one
   while the client makes the other.
3. Beside one call in flight another is sent as soon as half as much waits for it.
4. A second call must be worth its price: its rows have 16 messages on average, or its messages and
   rows are 48 together; for a row costs about as much as a message. Where each answer waits for the
   disk or a replica, there is no second call: two would wait for twice as many flushes.

Where 256 KiB wait, the bytes are the main cost: such calls are sent beside one another, and twice
as many go in two halves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from ariane_record.encoding.record_table import RecordTable
from ariane_record.single.message_id import UniqueIds
from ariane_sdk.errors import CallError, DeadlinePassed, ServiceUnavailable
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.accumulator.accumulator import EVERYTHING, Accumulator
from ariane_sdk.producer.accumulator.row import Row
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.settings import ProducerSettings

LARGE_CALL_BYTES: Final = 256 << 10
"""From this size on, the cost of the call itself is small compared to that of its records."""

SMALL_CALLS_MAX: Final = 2
"""Small calls at the same time: one that the broker works on, and one that is made meanwhile."""

ROW_MESSAGES_MIN: Final = 16
"""How many messages in each row, on average, make a second call worth its price."""

CALL_ITEMS_MIN: Final = 48
"""How many messages and rows together make it worth its price however small the rows are. Without
it, client and broker work in turn where many topics have few messages each under way."""


def is_worth_a_call(count: int, row_count: int) -> bool:
    """Whether so many messages in so many rows are worth a second call beside the first."""
    return count + row_count >= CALL_ITEMS_MIN or count >= ROW_MESSAGES_MIN * max(1, row_count)


@dataclass(slots=True, eq=False)
class AppendCall:
    """One call to a broker; the sender gets it back with the outcome of everything it carried."""

    broker_name: str
    """The broker."""
    over: Callable[[AppendCall], None]
    """Called with the call when nothing is left to do for it."""
    rows: Sequence[Row]
    """The rows that it carries."""
    queues: set[MessageQueue]
    """Queues to which no other call may send until this one is over."""
    count: int
    """Number of messages."""
    encoded: RecordTable | None = None
    """The records of the rows that were not encoded before, which are the last ones then."""
    unique_ids: UniqueIds | None = None
    """The ids of those."""
    begun_s: float = 0.0
    """When the call was sent, by the monotonic clock."""
    address: str = ""
    """Where it went, "host:port"."""
    refused: list[tuple[Row, CallError]] = field(default_factory=list)
    """The rows that were not acknowledged, each with the reason."""
    lost: bool = False
    """Whether the broker gave no answer."""
    answers_late: bool | None = None
    """Whether the broker answers only when the messages are safer than in its memory; None while
    that is not known."""

    @property
    def peer(self) -> str:
        """The broker's name and address, for the text of errors."""
        return f"broker {self.broker_name} at {self.address}"

    def refuse_all(self, error: CallError) -> None:
        """Refuse all rows for the same reason."""
        self.lost = isinstance(error, ServiceUnavailable | DeadlinePassed)
        self.refused = [(row, error) for row in self.rows]


class Sender:
    """Sends what waits in the accumulator of one broker."""

    def __init__(
        self,
        broker_name: str,
        send_call: Callable[[AppendCall], None],
        *,
        settings: ProducerSettings,
        clock: Clock,
    ) -> None:
        """Start with nothing to send.

        Args:
            broker_name: The broker's name.
            send_call: Sends a call, and gives it back when it is over.
            settings: The numbers of calls and their sizes.
            clock: Says when rows that wait for their next try may be sent.
        """
        self.broker_name = broker_name
        """The broker's name."""
        self._send_call = send_call
        self._clock = clock
        self._calls_max = settings.calls_in_flight_max
        self._any_calls_max = max(self._calls_max, settings.large_calls_in_flight_max)
        self._may_overlap = settings.large_calls_in_flight_max >= SMALL_CALLS_MAX
        self._loop = asyncio.get_running_loop()
        self.accumulator = Accumulator(self.send_soon, request_bytes_max=settings.request_bytes_max)
        """The rows that wait for the broker."""
        self._queues_in_flight: set[MessageQueue] = set()
        self._calls_in_flight = 0
        self._in_step = False
        self._closed = False
        self._sending_soon: asyncio.Handle | None = None
        self._wake_up: asyncio.TimerHandle | None = None
        self.answers_late = False
        """Whether the broker answers only when messages are safer than in its memory."""

    @property
    def idle(self) -> bool:
        """Whether a new row would be sent at once."""
        return self._calls_in_flight < self._calls_max

    def send_soon(self) -> None:
        """Send what may be sent, at the end of this turn of the loop: its sends share the call."""
        if self._sending_soon is None and not self._closed:
            self._sending_soon = self._loop.call_soon(self._send_waiting)

    def close(self) -> None:
        """Send nothing from now on."""
        self._closed = True
        for handle in (self._sending_soon, self._wake_up):
            if handle is not None:
                handle.cancel()

    def _send_waiting(self) -> None:
        self._sending_soon = None
        while self.accumulator:
            count_max = self._count_of_next_call()
            if not count_max:
                return
            now_s = self._clock.monotonic_s()
            rows, count, queues, next_s = self.accumulator.take(
                count_max, self._queues_in_flight, now_s
            )
            if next_s < inf or self._wake_up is not None:
                self._wake_up_at(next_s, now_s)
            if not rows:
                return
            self._queues_in_flight |= queues
            self._calls_in_flight += 1
            self.accumulator.in_flight_count += count
            self._send_call(AppendCall(self.broker_name, self._over, rows, queues, count))

    def _count_of_next_call(self) -> int:
        """How many messages the next call takes; 0 while none may be sent."""
        if self._calls_in_flight >= self._any_calls_max:
            return 0
        overlaps = self._may_overlap and not self.answers_late
        if self._calls_in_flight < self._calls_max:
            many = self._in_step or len(self.accumulator) > 1
            return self._half() if many and overlaps and not self._calls_in_flight else EVERYTHING
        waiting = self.accumulator.waiting(self._queues_in_flight)
        if waiting.size_bytes >= LARGE_CALL_BYTES or (
            overlaps
            and self._calls_in_flight < SMALL_CALLS_MAX
            and waiting.message_count >= self.accumulator.in_flight_count // 2
            and is_worth_a_call(waiting.message_count, waiting.row_count)
        ):
            return EVERYTHING
        return 0

    def _half(self) -> int:
        """Half of the messages that wait, if client and broker share the work so; else all."""
        waiting = self.accumulator.waiting(frozenset())
        half = (waiting.message_count + 1) // 2
        if self._in_step:
            is_halved = is_worth_a_call(half, waiting.row_count // 2)
        else:
            is_halved = waiting.size_bytes >= 2 * LARGE_CALL_BYTES
        return half if is_halved else EVERYTHING

    def _wake_up_at(self, next_s: float, now_s: float) -> None:
        if self._wake_up is not None:
            self._wake_up.cancel()
            self._wake_up = None
        if next_s < inf:
            self._wake_up = self._loop.call_later(next_s - now_s, self.send_soon)

    def _over(self, call: AppendCall) -> None:
        """End a call. Senders that got their outcome send again before the next call is made."""
        self._calls_in_flight -= 1
        self.accumulator.in_flight_count -= call.count
        # Whether everybody has waited for this one answer.
        everybody = not self._calls_in_flight and not self.accumulator
        self._in_step = everybody and call.count >= ROW_MESSAGES_MIN
        self._queues_in_flight -= call.queues
        if call.answers_late is not None:
            self.answers_late = call.answers_late
        self.send_soon()
