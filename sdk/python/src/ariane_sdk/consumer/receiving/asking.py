"""Requesting messages from all brokers of a group's topics, in a loop.

::

    broker a   ask ... full answer   ask ahead ... answer (waits)
    broker b   ask ... answer                    ask ......... held
                         |                        |
    line               [ batch ]  ->  the application: works, then wants the next

One batch stands in line, and each broker has at most one more ready or on its way: fetched messages
are invisible to other members, which may be idle. A broker is asked ahead only if it likely has
more. A call is held only while the application waits. While it works, new messages go to other
members; and an application that stops after a batch leaves no call behind that is answered just
then.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary, WeakValueDictionary

from ariane.broker.v1.receive_service_pb2 import ReceiveOrder
from ariane_sdk.consumer.receiving.fetched import Batch, Fetched
from ariane_sdk.consumer.receiving.receive_calls import HOLD_S, Answer, messages_of
from ariane_sdk.errors import CallError, ClientNotRunning, DeadlinePassed, ServiceUnavailable
from ariane_sdk.message import ReceivedMessage
from ariane_sdk.net.timestamps import duration_s
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

Receive: TypeAlias = Callable[[BrokerRoute, ReceiveOrder, float], Coroutine[None, None, Answer]]
"""Asks a broker for messages; the number is the hold time in seconds."""

TURNS: Final = 2
"""While one answer is read, the broker works on the next request."""

_of_loops: Final[
    WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[str, asyncio.Semaphore]]
] = WeakKeyDictionary()


def is_held(message: ReceivedMessage, clock: Clock) -> bool:
    """Whether this member still holds a message; after too long a wait another may have it.

    All messages of an answer, and so of a batch, are held until the same time.
    """
    held = message.receipt.held_until_s > clock.monotonic_s()
    if not held:
        logger.info("messages waited until their time was over, and come again: %r", message)
    return held


def _names(brokers: dict[str, BrokerRoute], name: str) -> bool:
    """Whether there is a broker of that name."""
    return any(broker.broker_name == name for broker in brokers.values())


class Asking:
    """Asks all brokers until the application wants no more."""

    def __init__(
        self,
        receive: Receive,
        brokers: Callable[[], Awaitable[dict[str, BrokerRoute]]],
        order: ReceiveOrder,
        fetched: Fetched,
        *,
        clock: Clock,
        timeout_s: float | None,
        doubt: Callable[[], None],
        keeps: bool = False,
    ) -> None:
        """No broker is asked yet.

        ``brokers`` returns those that have queues of the topics now, by address. Messages of
        ``fetched`` are returned first; messages that are not taken stay there in the end.
        ``timeout_s`` is the time without a message after which this ends; None: never, and the
        application is expected to want each next batch. ``doubt`` is called when a broker does not
        answer, or has become a replica. ``keeps`` tells whether brokers renew the invisible time of
        messages by themselves.
        """
        self._receive = receive
        self._brokers = brokers
        self._order = order
        self._fetched = fetched
        self._kept = fetched.kept
        self._clock = clock
        self._timeout_s = timeout_s
        self._doubt = doubt
        self._wait_s = HOLD_S if timeout_s is None else timeout_s
        self._line: asyncio.Queue[Answer | CallError] = asyncio.Queue(maxsize=1)
        self._askers: dict[str, asyncio.Task[None]] = {}
        self._ahead: dict[str, asyncio.Task[Answer]] = {}
        self._sent: set[str] = set()
        self._wanted = asyncio.Event()  # The application waits, and the line is empty.
        self._wanted.set()
        self._is_slow = False
        self._closing = False
        self._wait: asyncio.Timeout | None = None  # Only while the application waits.
        self._ended = asyncio.Event()
        invisible_s = duration_s(order.invisible_duration) or math.inf
        self._slow_s = math.inf if keeps else invisible_s * SLOW_SHARE

    async def batches(self) -> AsyncGenerator[Batch]:
        """Yield batches of all brokers as they arrive.

        Raises:
            RouteNotFound: No live broker carries a topic.
            CallError: The group may not receive.
            RecordDamaged: A broker's answer cannot be decoded.
            ClientNotRunning: The consumer was closed meanwhile.
        """
        try:
            while not self._closing:
                while self._kept:
                    batch = self._first(self._kept.pop())
                    if is_held(batch[0], self._clock):
                        begin_s = self._clock.monotonic_s()
                        yield batch
                        self._pace(begin_s)
                    del batch  # So the application alone decides how long the batch lives.
                await self._follow()
                if self._kept or self._closing:
                    continue
                if self._line.empty():
                    self._wanted.set()
                try:
                    async with asyncio.timeout(self._wait_s) as self._wait:
                        found = await self._line.get()
                except TimeoutError:
                    if self._timeout_s is not None and not self._closing:
                        return
                    continue
                finally:
                    self._wait = None
                if isinstance(found, CallError):
                    raise found
                # Decoded only now: a waiting answer is one piece of memory, and cheap.
                batch = self._first(messages_of(found))
                del found
                if is_held(batch[0], self._clock):
                    begin_s = self._clock.monotonic_s()
                    yield batch
                    self._pace(begin_s)
                del batch
            raise ClientNotRunning("the consumer was closed")
        finally:
            try:
                await self._end()
            finally:
                self._ended.set()

    async def close(self) -> None:
        """Have ``batches`` end with ClientNotRunning, and wait for that if a call waits in it."""
        self._closing = True
        if self._wait is not None:
            if not self._wait.expired():  # By itself, or by another close.
                self._wait.reschedule(asyncio.get_running_loop().time())
            await self._ended.wait()

    def _pace(self, begin_s: float) -> None:
        """Note how long the application worked: after long work no broker is asked ahead."""
        self._is_slow = self._clock.monotonic_s() - begin_s > self._slow_s

    def _first(self, messages: Batch) -> Batch:
        """The first messages of a batch, as many as the order wants; the rest is kept."""
        count_max = self._order.message_count_max
        if len(messages) > count_max:
            self._kept.append(messages[count_max:])
        return messages[:count_max]

    async def _follow(self) -> None:
        """Ask every broker of the topics in the present routes."""
        brokers = await self._brokers()
        for address in [address for address, asker in self._askers.items() if asker.done()]:
            del self._askers[address]
        self._ask_others(brokers)
        left = [address for address in self._askers if address not in brokers]
        if left:
            await self._stop(left)
        self._fetched.keep_late_but(brokers.keys())

    def _ask_others(self, brokers: dict[str, BrokerRoute]) -> None:
        """Ask brokers that are not asked yet."""
        for address in [each for each in brokers if each not in self._askers]:
            asking = self._ask(address, brokers[address])
            self._askers[address] = start_task(asking, f"receive-{address}")

    async def _stop(self, addresses: Sequence[str]) -> None:
        """Stop asking some brokers, and keep their answers that were not taken."""
        askers = [self._askers[address] for address in addresses]
        for asker in askers:
            asker.cancel()
        if askers:
            await asyncio.wait(askers)
        ahead = [self._ahead[address] for address in addresses if address in self._ahead]
        for address in addresses:
            if address in self._ahead and address not in self._sent:
                self._ahead[address].cancel()  # The broker was not asked yet: no message is lost.
        if ahead:
            _, late = await asyncio.wait(ahead, timeout=ENDING_S)
            for call in late:
                call.cancel()
        # Only now: the tasks cancelled above use these entries until they end.
        for address in addresses:
            del self._askers[address]
            if address in self._ahead:
                self._fetched.keep_of(self._ahead.pop(address))

    async def _ask(self, address: str, broker: BrokerRoute) -> None:
        """Ask one broker again and again, until it is of no more use."""
        try:
            await self._ask_on(address, broker)
        except CallError as error:
            await self._line.put(error)

    async def _ask_on(self, address: str, broker: BrokerRoute) -> None:
        # With a timeout the application wants one batch: one held call serves it.
        likely = self._timeout_s is None and not self._fetched.is_late(address)
        hold_s = min(HOLD_S, self._wait_s)
        while True:
            await self._wanted.wait()
            try:
                answer = await self._next_answer(address, broker, hold_s, likely=likely)
            except CallError as error:
                # A broker that has become a replica refuses; its address is of no use then.
                away = isinstance(error, ServiceUnavailable | DeadlinePassed)
                if not error.retriable and not away:
                    raise
                logger.info("broker %s gives no messages: %s", broker.broker_name, error)
                self._doubt()
                await self._clock.sleep(RETRY_S)
                # A new primary is asked at once, not only when the application wants more.
                brokers = await self._brokers()
                self._ask_others(brokers)
                if address not in brokers and _names(brokers, broker.broker_name):
                    return
                hold_s = 0.0  # Whether it is still away is known sooner.
                continue
            hold_s = min(HOLD_S, self._wait_s)
            likely = self._timeout_s is None and self._is_full(answer)
            if not answer.message_count:
                continue
            try:
                if likely and self._line.empty() and not self._is_slow:
                    await self._ask_at_once(address, broker)
                await self._line.put(answer)
                self._wanted.clear()
            except asyncio.CancelledError:
                self._fetched.keep(answer)
                raise
            del answer
            if self._timeout_s is not None:
                return

    async def _next_answer(
        self, address: str, broker: BrokerRoute, hold_s: float, *, likely: bool
    ) -> Answer:
        """The answer of a call made ahead, or of a new call, held unless messages are likely."""
        if likely and address not in self._ahead:
            await self._ask_at_once(address, broker)
        if address not in self._ahead:
            return await self._answer(address, broker, hold_s)
        try:
            # ``_stop`` takes its answer, also if this is cancelled.
            answer = await asyncio.shield(self._ahead[address])
        except CallError:
            del self._ahead[address]
            raise
        del self._ahead[address]
        return answer

    async def _answer(self, address: str, broker: BrokerRoute, hold_s: float) -> Answer:
        """Make a held call; if one batch is wanted, the call outlives the wait for it."""
        calls = self._fetched.take_late(address)
        if not calls and self._timeout_s is None:
            return await self._receive(broker, self._order, hold_s)
        if not calls:
            asking = self._receive(broker, self._order, hold_s)
            calls = [asyncio.create_task(asking, name=f"ariane-receive-{address}")]
        try:
            await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            call = next(call for call in calls if call.done())
            calls.remove(call)
            return call.result()
        finally:
            self._fetched.add_late(address, calls)

    async def _ask_at_once(self, address: str, broker: BrokerRoute) -> None:
        """Ask the broker while records are decoded here. Not held: see ``ENDING_S``."""
        asking = self._in_turn(address, broker)
        self._ahead[address] = asyncio.create_task(asking, name=f"ariane-receive-ahead-{address}")
        await asyncio.sleep(0)  # The call is made,
        await asyncio.sleep(0)  # and is on its way.

    async def _in_turn(self, address: str, broker: BrokerRoute) -> Answer:
        """Ask for the messages that the broker has now, at this consumer's turn."""
        async with turn_at(address):
            self._sent.add(address)
            try:
                return await self._receive(broker, self._order, 0)
            finally:
                self._sent.remove(address)

    def _is_full(self, answer: Answer) -> bool:
        """Whether the broker likely has more."""
        return (
            answer.message_count >= self._order.message_count_max
            or answer.size_bytes * 2 >= self._order.size_bytes_max
        )

    async def _end(self) -> None:
        """Stop asking, and keep messages that were not taken for the next request."""
        await self._stop(list(self._askers))
        while not self._line.empty():
            found = self._line.get_nowait()
            if not isinstance(found, CallError):
                self._fetched.keep(found)


def turn_at(address: str) -> asyncio.Semaphore:
    """The semaphore to hold during a call that the broker answers at once.

    It limits the full answers of one broker on their way to this process. If many consumers of a
    process asked at once, all answers would arrive in parallel, each slowly: they would need memory
    for all, and none would be ready. In turns, the first is processed while the next is on its way.

    Shared by all consumers on the running loop. Held calls do not use it: the time of their answer
    is unknown.
    """
    turns = _of_loops.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
    turn = turns.get(address)
    if turn is None:
        turn = turns[address] = asyncio.Semaphore(TURNS)
    return turn
