"""Requesting messages from all brokers of a group's topics, in the task of who wants them.

::

    broker a         ask ... full answer   ask ahead ... answer (waits)
    broker b         ask ......... held ............................ answer (waits)
                                   |                     |
    the application           works on it, then takes the next that has come

Each broker is asked by one call at a time, beside those that earlier waits left in flight. No call
has a task: its answer is taken in the turn of the loop in which it comes, and wakes the application
if that waits. So few answers wait: fetched messages are invisible to other members, which may be
idle. Without a timeout the application is expected to want more, and a broker that likely has some
is asked ahead. A call is held only if the application waited when it was made. While it works, new
messages go to other members; and an application that stops after a batch leaves no call behind that
is answered just then.

Who wants one batch makes held calls. They outlive a wait that is given up, and nothing of what they
bring is lost::

    the application    one ... batch        one ... cancelled             one: batch
    the broker           ask ... answer       ask ............. answer: waits
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

from ariane_sdk.consumer.receiving.asked import (
    Asked,
    AskedCall,
    Brokers,
    is_outdated,
    is_passing,
    wake,
)
from ariane_sdk.consumer.receiving.fetched import Batch, Fetched
from ariane_sdk.consumer.receiving.receive_calls import (
    ANSWER_BYTES_MAX,
    ANSWER_SECONDS,
    HOLD_S,
    Answer,
    messages_of,
)
from ariane_sdk.consumer.receiving.turns import turns_at
from ariane_sdk.errors import CallError, ClientNotRunning
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.routing.route import BrokerRoute
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger
from ariane_sdk.runtime.tasks import start_task

RETRY_S: Final = 1.0
"""Delay before a broker that failed is asked again."""
SLOW_SHARE: Final = 1 / 8
"""If the application works on a batch for longer than this share of the invisible time, its next
batch is fetched anew."""
ENDING_S: Final = 1.0
"""The longest wait at the end for calls made ahead, which brokers answer at once."""

_NOBODY: Final[Mapping[str, BrokerRoute]] = MappingProxyType({})


def is_held(message: ReceivedMessage, clock: Clock) -> bool:
    """Whether this member still holds a message; after too long a wait another may have it.

    All messages of an answer, and so of a batch, are held until the same time.
    """
    held = message.receipt.held_until_s > clock.monotonic_s()
    if not held:
        logger.info("messages waited until their time was over, and come again: %r", message)
    return held


class Asking:
    """Asks all brokers until the application wants no more."""

    def __init__(
        self,
        brokers: Brokers,
        fetched: Fetched,
        *,
        count_max: int,
        timeout_s: float | None,
        clock: Clock,
        invisible_s: float = math.inf,
    ) -> None:
        """No broker is asked yet.

        Messages of ``fetched`` are returned first; messages that are not taken stay there in the
        end. A batch has ``count_max`` messages at most. ``timeout_s`` is the time without a message
        after which this ends; None: never, and the application is expected to want each next batch.
        ``invisible_s`` is the invisible time of messages; endless where brokers renew it.
        """
        self._brokers = brokers
        self._fetched = fetched
        self._kept = fetched.kept
        self._count_max = count_max
        self._timeout_s = timeout_s
        self._clock = clock
        self._slow_s = invisible_s * SLOW_SHARE
        self._seconds = math.inf if timeout_s is None else timeout_s
        self._followed: Mapping[str, BrokerRoute] = _NOBODY
        self._calls: dict[str, list[Asked]] = {}  # By address, also those that are over.
        self._ahead: dict[Asked, None] = {}
        self._come: deque[tuple[str, Asked]] = deque()  # Calls that are over, in their order.
        self._postponed: dict[str, Callable[[], object]] = {}  # What cancels it, by address.
        self._unlikely: set[str] = set()  # Whose last answer was not full.
        self._doubtful: set[str] = set()  # Who failed when it was asked last.
        self._is_bounded = True  # All calls end in time by themselves.
        self._is_outdated = False  # The brokers are to be found anew.
        self._is_slow = False
        self._closing = False
        self._waiting: asyncio.Future[None] | None = None  # Only while the application waits.
        self._ended: asyncio.Event | None = None  # Only if a close waits for the end.

    async def one(self) -> Batch:
        """The next batch; empty when the time is over. Errors as of ``batches``."""
        try:
            return await self._next() or []
        finally:
            if self._calls or self._postponed or self._ended is not None:
                await self._end()

    async def batches(self) -> AsyncGenerator[Batch]:
        """Yield batches of all brokers as they arrive.

        Raises:
            RouteNotFound: No live broker carries a topic.
            CallError: The group may not receive.
            RecordDamaged: A broker's answer cannot be decoded.
            ClientNotRunning: The consumer was closed meanwhile.
        """
        try:
            while (batch := await self._next()) is not None:
                begin_s = self._clock.monotonic_s()
                yield batch
                del batch  # So the application alone decides how long the batch lives.
                # After long work no broker is asked ahead.
                self._is_slow = self._clock.monotonic_s() - begin_s > self._slow_s
        finally:
            await self._end()

    async def close(self) -> None:
        """Have a wait for messages end with ClientNotRunning, and return when that has ended."""
        self._closing = True
        while self._postponed:
            self._postponed.popitem()[1]()
        if self._waiting is not None:
            wake(self._waiting)
            self._ended = self._ended or asyncio.Event()
        if self._ended is not None:
            await self._ended.wait()

    # What the application waits for.

    async def _next(self) -> Batch | None:
        """The next batch; None when the time is over."""
        loop, left_s, is_asked = asyncio.get_running_loop(), self._seconds, False
        end_s = loop.time() + left_s
        while True:
            batch: Batch = []
            if self._closing:
                raise ClientNotRunning("the consumer was closed")
            if self._kept:
                batch = self._kept.pop()
            elif not (self._come and is_asked) and self._has_moved():
                await self._follow()
            elif self._come and (answer := self._taken()) is not None:
                if self._ahead or self._postponed:
                    await self._leave_first(answer)
                # Decoded only now: a waiting answer is one piece of memory, and cheap.
                batch = messages_of(answer)
                del answer
            elif is_asked and left_s <= 0:
                return None
            else:
                self._ask(min(HOLD_S, left_s))
                is_asked = True
                if not self._come:
                    await self._wait(left_s)
                left_s = max(0.0, end_s - loop.time())
            if batch and is_held(batch[0], self._clock):
                return batch if len(batch) <= self._count_max else self._first(batch)
            del batch

    def _first(self, messages: Batch) -> Batch:
        """The first messages of a batch, as many as are wanted; the rest is kept."""
        self._kept.append(messages[self._count_max :])
        return messages[: self._count_max]

    async def _leave_first(self, answer: Answer) -> None:
        """Let what was asked ahead be on its way before an answer is decoded.

        Also by another consumer, for whose turn this one's has ended.
        """
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self._fetched.keep(answer)
            raise

    async def _wait(self, seconds: float) -> None:
        """Wait for a call to end, so long at most."""
        loop = asyncio.get_running_loop()
        waiting = self._waiting = loop.create_future()
        timer = None
        if (
            seconds < HOLD_S + ANSWER_SECONDS
            or self._postponed
            or not (self._calls and self._is_bounded)
        ):
            timer = loop.call_later(min(seconds, HOLD_S), wake, waiting)
        try:
            await waiting
        finally:
            self._waiting = None
            if timer is not None:
                timer.cancel()

    # Calls.

    def _has_moved(self) -> bool:
        """Whether there is more to do in the present routes than to ask as before."""
        brokers = self._brokers.known()
        if brokers is None or self._is_outdated:
            return True
        if self._followed is _NOBODY and not self._fetched.late:
            self._followed = brokers
        return brokers is not self._followed

    async def _follow(self) -> None:
        """Follow the present routes: brokers that are in none are asked no more."""
        brokers = self._brokers.known()
        if brokers is None or self._is_outdated:
            self._is_outdated = False
            brokers = await self._brokers.find()
        self._followed = brokers
        left = [each for each in (*self._calls, *self._postponed) if each not in brokers]
        if left:
            await self._stop(left)
        if self._fetched.late:
            self._fetched.keep_late_but(brokers.keys())

    def _ask(self, hold_s: float) -> None:
        """Ask every broker that is not asked; it holds the call for so long, unless it has some."""
        for address, broker in self._followed.items():
            if address in self._calls or address in self._postponed:
                continue
            if self._fetched.late:
                for asked in self._fetched.take_late(address):
                    if not (asked.done() and is_outdated(asked)):
                        self._note(address, asked)
            if address in self._calls:
                continue
            if self._timeout_s is None and address not in self._unlikely:
                self._ask_ahead(address, broker)
            else:
                own_s = 0.0 if address in self._doubtful else hold_s
                self._note(address, self._brokers.ask(broker, self._count_max, own_s))

    def _ask_ahead(self, address: str, broker: BrokerRoute) -> None:
        """Ask a broker for what it has now, at this consumer's turn. Not held: see ``ENDING_S``."""
        turns = turns_at(address)

        def begin() -> None:
            self._postponed.pop(address, None)
            asked: Asked
            try:
                asked = self._brokers.ask(broker, self._count_max, 0.0)
            except Exception as error:  # noqa: BLE001 - raised to whoever takes the answer.
                asked = asyncio.get_running_loop().create_future()
                asked.set_exception(error)
                asked.exception()  # Not logged if nobody takes it.
            self._ahead[asked] = None
            # First: the next one's request is sent before this one's answer is decoded.
            asked.add_done_callback(turns.end)
            self._note(address, asked)

        self._postponed[address] = partial(turns.forget, begin)
        turns.take(begin)

    def _note(self, address: str, asked: Asked) -> None:
        """Take what a call brings when it is over."""
        self._calls.setdefault(address, []).append(asked)
        self._is_bounded = self._is_bounded and isinstance(asked, AskedCall)
        asked.add_done_callback(partial(self._note_end, address))

    def _note_end(self, address: str, asked: Asked) -> None:
        self._come.append((address, asked))
        waiting = self._waiting
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def _taken(self) -> Answer | None:
        """The messages that have come first, if some have.

        Raises:
            CallError: A broker has refused for good.
            RecordDamaged: An answer cannot be decoded.
        """
        while self._come:
            address, asked = self._come.popleft()
            calls = self._calls.get(address, [])
            if asked not in calls:
                continue  # It is asked no more.
            calls.remove(asked)
            if not calls:
                del self._calls[address]
            self._ahead.pop(asked, None)
            broker = self._followed[address]
            try:
                answer = asked.result()
            except CallError as error:
                self._postpone(address, error)
                continue
            self._doubtful.discard(address)
            self._unlikely.add(address)
            if not answer.queues:
                continue
            if self._timeout_s is None and self._is_full(answer):
                self._unlikely.discard(address)
                if not self._is_slow and address not in self._postponed:
                    self._ask_ahead(address, broker)
            return answer
        return None

    def _is_full(self, answer: Answer) -> bool:
        """Whether the broker likely has more."""
        is_large = answer.size_bytes * 2 >= ANSWER_BYTES_MAX
        return is_large or answer.message_count >= self._count_max

    def _postpone(self, address: str, error: CallError) -> None:
        """Ask a broker that failed again after a while, and wherever it is then."""
        if not is_passing(error):
            raise error
        logger.info("the broker at %s gives no messages: %s", address, error)
        self._brokers.doubt()
        self._doubtful.add(address)  # Whether it is still away is known sooner without a hold.
        if address in self._postponed:
            return  # Another call to it, of those left in flight, was earlier.
        pause = start_task(self._clock.sleep(RETRY_S), f"receive-{address}")
        self._postponed[address] = pause.cancel
        pause.add_done_callback(partial(self._resume, address))

    def _resume(self, address: str, pause: asyncio.Task[None]) -> None:
        if not pause.cancelled():
            self._postponed.pop(address, None)
            self._is_outdated = True
            if self._waiting is not None:
                wake(self._waiting)

    # The end.

    async def _stop(self, addresses: Iterable[str]) -> None:
        """Ask some brokers no more, and keep what their calls bring."""
        ahead: list[Asked] = []
        for address in addresses:
            if address in self._postponed:
                self._postponed.pop(address)()  # No message is lost: it is not asked yet.
            for asked in self._calls.pop(address, ()):
                if asked.done():
                    self._fetched.keep_of(asked)
                elif asked in self._ahead:
                    ahead.append(asked)
                elif self._timeout_s is not None:
                    self._fetched.add_late(address, (asked,))
                else:
                    asked.cancel()
        if ahead:
            await self._end_ahead(ahead)

    async def _end_ahead(self, ahead: Sequence[Asked]) -> None:
        """Keep what calls bring that are answered at once."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + ENDING_S
        try:
            while not all(asked.done() for asked in ahead) and (left_s := end_s - loop.time()) > 0:
                await self._wait(left_s)
        finally:
            for asked in ahead:
                asked.cancel()
                self._fetched.keep_of(asked)
                self._ahead.pop(asked, None)

    async def _end(self) -> None:
        """Stop asking, and keep messages that were not taken for the next request."""
        try:
            await self._stop((*self._calls, *self._postponed))
        finally:
            self._come.clear()
            if self._ended is not None:
                self._ended.set()
