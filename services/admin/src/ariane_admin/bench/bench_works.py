"""The measurements of ``ariane bench`` at full speed: sending, and consuming stored messages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from ariane_admin.bench.bench_bodies import BenchBodies
from ariane_admin.bench.bench_topic import BenchTopic
from ariane_sdk import Message, Producer, PushConsumer, ReceivedMessage
from ariane_sdk.errors import ArianeError, BatchSendError

SILENCE_S_MAX = 20.0
"""The time without messages after which a consumer is done; the rest counts as missing."""

_SHOWN_EVERY = 1000
_FILL_BATCH = 1000

Show = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sent:
    """The result of sending: acknowledged and failed messages, and seconds for all of them."""

    acknowledged: int
    failed: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Consumed:
    """The result of consuming: deliveries, and seconds from the first to the last.

    The messages of the first call count with a proportional part of the time.
    """

    deliveries: int
    seconds: float


class SendingRun:
    """Sends numbered messages, one by one or in explicit batches.

    Args:
        topic: The topic.
        bodies: The bodies of the messages.
        in_flight: Concurrent sends, or batches.
        batch: Messages of an explicit batch; 1: single sends.
        show: Shows the progress.
    """

    def __init__(
        self, topic: BenchTopic, bodies: BenchBodies, *, in_flight: int, batch: int, show: Show
    ) -> None:
        self._topic = topic
        self._bodies = bodies
        self._in_flight = in_flight
        self._batch = batch
        self._show = show
        self._acknowledged = 0
        self._failed = 0

    async def run(self) -> Sent:
        """Send all; the clock runs from the first send to the last answer."""
        async with Producer(self._topic.name_servers) as producer:
            # The route and the connection exist before the clock starts.
            await producer.route(self._topic.name)
            turns = iter(range(0, self._bodies.count, self._batch))
            begin = time.perf_counter()
            await asyncio.gather(*(self._work(producer, turns) for _ in range(self._in_flight)))
            return Sent(self._acknowledged, self._failed, time.perf_counter() - begin)

    async def _work(self, producer: Producer, turns: Iterator[int]) -> None:
        shown = 0
        for first in turns:
            numbers = range(first, min(first + self._batch, self._bodies.count))
            messages = [Message(self._topic.name, self._bodies.body(each)) for each in numbers]
            failed = await _send(producer, messages)
            self._failed += failed
            self._acknowledged += len(messages) - failed
            if self._acknowledged - shown >= _SHOWN_EVERY:
                shown = self._acknowledged
                self._show(f"{shown:,} of {self._bodies.count:,} messages sent")


async def _send(producer: Producer, messages: Sequence[Message]) -> int:
    """Send one message, or a batch; return the number without an acknowledgement."""
    try:
        if len(messages) == 1:
            await producer.send(messages[0])
        else:
            await producer.send_batch(messages)
    except BatchSendError as error:
        return sum(isinstance(outcome, ArianeError) for outcome in error.outcomes)
    except ArianeError:
        return 1
    return 0


async def fill(topic: BenchTopic, bodies: BenchBodies, show: Show) -> Sent:
    """Store all messages, to be consumed."""
    return await SendingRun(topic, bodies, in_flight=4, batch=_FILL_BATCH, show=show).run()


class ConsumingRun:
    """Consumes all messages of a topic by several groups at the same time.

    Args:
        topic: The topic.
        bodies: Its bodies, made for as many copies as groups.
        group_count: The number of groups.
        listener_batch: The most messages for one call of a listener.
        show: Shows the progress.
    """

    def __init__(
        self,
        topic: BenchTopic,
        bodies: BenchBodies,
        *,
        group_count: int,
        listener_batch: int,
        show: Show,
    ) -> None:
        self._topic = topic
        self._bodies = bodies
        self._group_count = group_count
        self._listener_batch = listener_batch
        self._show = show
        self._come: list[ReceivedMessage] = []
        self._whole = asyncio.Event()
        self._first_count = 0
        self._begin = 0.0
        self._end = 0.0

    async def run(self) -> Consumed:
        """Consume all; bodies are checked when the clock has stopped."""
        asked = time.perf_counter()
        async with AsyncExitStack() as consumers:
            for _ in range(self._group_count):
                await consumers.enter_async_context(self._consumer())
            await self._wait()
        for message in self._come:
            self._bodies.check(message.body)
        count = len(self._come)
        return Consumed(
            count, seconds_of(self._end - self._begin, self._end - asked, self._first_count, count)
        )

    def _consumer(self) -> PushConsumer:
        return PushConsumer(
            self._topic.name_servers,
            group=self._topic.new_group(),
            subscriptions={self._topic.name: "*"},
            listener=self._listen,
            start="earliest",
            batch_size=self._listener_batch,
        )

    async def _listen(self, messages: Sequence[ReceivedMessage]) -> None:
        self._come.extend(messages)
        self._end = time.perf_counter()
        if not self._begin:
            self._begin, self._first_count = self._end, len(self._come)
        if len(self._come) >= self._expected:
            self._whole.set()

    @property
    def _expected(self) -> int:
        return self._bodies.count * self._group_count

    async def _wait(self) -> None:
        """Wait until all messages have arrived, or no more arrive."""
        silent_since, before = time.monotonic(), 0
        while not self._whole.is_set():
            self._show(f"{len(self._come):,} of {self._expected:,} messages consumed")
            try:
                async with asyncio.timeout(0.2):
                    await self._whole.wait()
            except TimeoutError:
                if len(self._come) > before:
                    silent_since, before = time.monotonic(), len(self._come)
                elif time.monotonic() - silent_since > SILENCE_S_MAX:
                    return


def seconds_of(first_to_last_s: float, asked_to_last_s: float, first: int, count: int) -> float:
    """The duration of all deliveries: the first call's messages count with a proportional part.

    If all messages were in the first call, the time counts from the request, which also bounds it.

    Args:
        first_to_last_s: Seconds between the first call of a listener and the last.
        asked_to_last_s: Seconds between the start of the consumers and the last call.
        first: Messages of the first call.
        count: All messages.
    """
    bound = max(asked_to_last_s, 1e-9)
    if count <= first:
        return bound
    return min(max(first_to_last_s * count / (count - first), 1e-9), bound)
