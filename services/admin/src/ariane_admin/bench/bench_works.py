"""What ``ariane bench`` measures as fast as it goes: sending, and consuming what is stored."""

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
"""A consumer that hears nothing for so long is done; what it lacks is missing."""

_SHOWN_EVERY = 1000
_FILL_BATCH = 1000

Show = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sent:
    """What sending gave: acknowledged and failed messages, and seconds for all of them."""

    acknowledged: int
    failed: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Consumed:
    """What consuming gave: deliveries, and seconds from the first to the last.

    What comes with the first call counts as if it had taken its part of that time.
    """

    deliveries: int
    seconds: float


class SendingRun:
    """Sends numbered messages, one by one or in explicit batches.

    Args:
        topic: Where to.
        bodies: What.
        in_flight: Sends, or batches, that are awaited at the same time.
        batch: Messages of an explicit batch; 1: single sends.
        show: Tells how far it is.
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
            # The route and the connection are there before the clock starts.
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
    """Send one, or a batch; returns how many have no acknowledgement."""
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
    """Store all messages, as what is to be consumed."""
    return await SendingRun(topic, bodies, in_flight=4, batch=_FILL_BATCH, show=show).run()


class ConsumingRun:
    """Consumes all of a topic by groups at the same time, each of them all.

    Args:
        topic: Where from.
        bodies: What it holds, made for as many copies as there are groups.
        group_count: How many groups.
        listener_batch: Messages for one call of a listener, at most.
        show: Tells how far it is.
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
        """Wait until all have come, or nothing more does."""
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
    """What all deliveries took: the first ones came before the clock ran, and took their part too.

    Where nothing came later, the time counts from the question, which bounds it in any case.

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
