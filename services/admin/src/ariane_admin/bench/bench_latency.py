"""The measurement of ``ariane bench latency``: end to end at a fixed rate, in an open loop.

The schedule is fixed in advance and waits for no answer; the time of a message that is sent late,
after some delay, counts from when it was due. So a pause shows in every message that it delays, as
it would for an application.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ariane_admin.bench.bench_bodies import BenchBodies
from ariane_admin.bench.bench_topic import BenchTopic
from ariane_admin.bench.bench_works import SILENCE_S_MAX, Show
from ariane_sdk import Message, Producer, PushConsumer, ReceivedMessage
from ariane_sdk.errors import SendBufferFull

_TICK_S = 0.001
_LEAD_S = 0.1


@dataclass(frozen=True, slots=True)
class LatencyFigures:
    """The result of a schedule."""

    failed: int
    """The number of sends without an acknowledgement."""
    late_ms: float
    """The largest lateness of the sender."""
    percentiles_ms: dict[str, float]
    """From when a message was due to the listener's call."""
    acknowledged_ms: dict[str, float]
    """From when it was due to its acknowledgement."""


class Ticker(threading.Thread):
    """Calls back on the loop every millisecond: the loop's own timers are rounded up to that.

    A loop that is late gets one call for all the milliseconds that it missed. Hundreds would fill
    the pipe that wakes it, which then has no room for the signal of Ctrl-C.
    """

    def __init__(self, begin_ns: int, ticks: int, due: Callable[[], None]) -> None:
        super().__init__(name="ticker", daemon=True)
        self._begin_ns = begin_ns
        self._ticks = ticks
        self._due = due
        self._loop = asyncio.get_running_loop()
        self._stopped = threading.Event()
        self._waits = False

    def run(self) -> None:
        """Call back until all ticks have passed, or until it is stopped."""
        for tick in range(self._ticks):
            rest_s = (self._begin_ns - time.monotonic_ns()) / 1e9 + tick * _TICK_S
            if rest_s > 0:
                time.sleep(rest_s)
            if self._stopped.is_set():
                return
            if not self._waits:
                self._waits = True
                self._loop.call_soon_threadsafe(self._call)

    def stop(self) -> None:
        """Stop the calls, for good when it returns: the loop may close then."""
        self._stopped.set()
        self.join()

    def _call(self) -> None:
        self._waits = False
        self._due()


class Schedule:
    """Sends messages when they are due, even if earlier ones take long.

    Args:
        producer: The producer.
        topic: The topic.
        bodies: The bodies of the messages.
        rate: Messages per second.
    """

    def __init__(self, producer: Producer, topic: str, bodies: BenchBodies, rate: int) -> None:
        self._producer = producer
        self._topic = topic
        self._bodies = bodies
        self._rate = rate
        self._sent = 0
        self._begin_ns = 0
        self._late_ns = 0
        self._refused = 0
        self._outcomes: list[asyncio.Future[Any]] = []
        self.acknowledged_ns: NDArray[np.int64] = np.full(bodies.count, -1, np.int64)
        """The time from due to acknowledgement of each; -1 without one."""
        self._all_sent = asyncio.Event()

    async def run(self, show: Show) -> tuple[int, float]:
        """Send all, then wait for every outcome; returns failures, and the largest lateness."""
        self._begin_ns = time.monotonic_ns() + round(_LEAD_S * 1e9)
        ticks = round(self._bodies.count / self._rate / _TICK_S) + 2
        ticker = Ticker(self._begin_ns, ticks, self._send_due)
        ticker.start()
        try:
            while not self._all_sent.is_set():
                show(f"{self._sent:,} of {self._bodies.count:,} messages sent")
                try:
                    async with asyncio.timeout(0.5):
                        await self._all_sent.wait()
                except TimeoutError:
                    continue
        finally:
            ticker.stop()
        ended = await asyncio.gather(*self._outcomes, return_exceptions=True)
        failed = self._refused + sum(isinstance(each, BaseException) for each in ended)
        return failed, self._late_ns / 1e6

    def _send_due(self) -> None:
        now_ns = time.monotonic_ns()
        due = int((now_ns - self._begin_ns) * self._rate / 1e9) + 1
        for number in range(self._sent, min(max(due, 0), self._bodies.count)):
            due_ns = self._begin_ns + number * 1_000_000_000 // self._rate
            self._late_ns = max(self._late_ns, now_ns - due_ns)
            message = Message(self._topic, self._bodies.body(number, due_ns))
            try:
                outcome = self._producer.send_nowait(message)
            except SendBufferFull:
                self._refused += 1
            else:
                outcome.add_done_callback(partial(self._take_outcome, number, due_ns))
                self._outcomes.append(outcome)
            self._sent = number + 1
        if self._sent >= self._bodies.count:
            self._all_sent.set()

    def _take_outcome(self, number: int, due_ns: int, outcome: asyncio.Future[Any]) -> None:
        if not outcome.cancelled() and outcome.exception() is None:
            self.acknowledged_ns[number] = time.monotonic_ns() - due_ns


async def measure_latency(
    topic: BenchTopic, bodies: BenchBodies, *, rate: int, warm_up_count: int, show: Show
) -> LatencyFigures:
    """Send on a schedule while a listener listens; both are in this process.

    Args:
        topic: The topic.
        bodies: The bodies; all are checked.
        rate: Messages per second.
        warm_up_count: The number of first messages that the percentiles leave out.
        show: Shows the progress.
    """
    whole = asyncio.Event()

    async def listen(messages: Sequence[ReceivedMessage]) -> None:
        now_ns = time.monotonic_ns()
        for message in messages:
            bodies.check(message.body, now_ns)
        if bodies.seen_count >= bodies.count:
            whole.set()

    consumer = PushConsumer(
        topic.name_servers,
        group=topic.new_group(),
        subscriptions={topic.name: "*"},
        listener=listen,
        start="earliest",
    )
    async with Producer(topic.name_servers) as producer, consumer:
        await producer.route(topic.name)
        await consumer.wait_assigned()
        schedule = Schedule(producer, topic.name, bodies, rate)
        failed, late_ms = await schedule.run(show)
        seen = -1
        while not whole.is_set() and bodies.seen_count > seen:
            seen = bodies.seen_count
            show(f"{seen:,} of {bodies.count:,} messages heard")
            try:
                async with asyncio.timeout(SILENCE_S_MAX if not failed else 2.0):
                    await whole.wait()
            except TimeoutError:
                continue
    return LatencyFigures(
        failed,
        late_ms,
        _percentiles(bodies.first_took_ns[warm_up_count:]),
        _percentiles(schedule.acknowledged_ns[warm_up_count:]),
    )


def _percentiles(all_ns: NDArray[np.int64]) -> dict[str, float]:
    """Percentiles in milliseconds, of messages with a time; between two times, the greater one."""
    took_ns = all_ns[all_ns >= 0]
    if not len(took_ns):
        return {}
    found = np.percentile(took_ns, [50, 99, 99.9, 100], method="higher") / 1e6
    names = ("p50_ms", "p99_ms", "p999_ms", "max_ms")
    return {name: round(float(each), 3) for name, each in zip(names, found, strict=True)}
