"""One end of ``bench/cluster/latency.py`` as a process of its own: sends on a schedule, or listens.

    python -m bench.cluster.latency_peer send '<a Schedule as JSON>'

Both ends run on one machine, so the monotonic clock of one is the clock of the other. Each body
begins with the moment at which its message was due; what the listener subtracts from that is the
latency, also of a message that left late because the sender was behind.
"""

from __future__ import annotations

import asyncio
import gc
import json
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import grpc
import numpy as np
from grpc_health.v1 import health_pb2, health_pb2_grpc
from numpy.typing import NDArray

from ariane_sdk import Message, Producer, PushConsumer, ReceivedMessage

BURST_S = 0.001
EMPTY_CALLS = 2000
LISTEN_S_MAX = 60.0
_STAMP = struct.Struct("<qq")
"""Number of the message, nanoseconds at which it was due."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """When what is sent: fixed before the first message, whatever happens to it."""

    name_servers: str
    """Where both ends find the broker."""
    broker_address: str
    """Where empty calls go."""
    topic: str
    """The topic, of which nothing is read by anybody else."""
    messages_per_s: int
    """The rate: a burst of a thousandth of it every millisecond."""
    warm_up_s: float
    """Seconds at the beginning that do not count."""
    measured_s: float
    """Seconds that count."""
    body_bytes: int
    """Of each message."""

    @property
    def burst_count(self) -> int:
        """How many bursts there are."""
        return round((self.warm_up_s + self.measured_s) / BURST_S)

    @property
    def burst_size(self) -> int:
        """How many messages one burst has."""
        return round(self.messages_per_s * BURST_S)

    @property
    def count(self) -> int:
        """How many messages there are."""
        return self.burst_count * self.burst_size

    @property
    def warm_up_count(self) -> int:
        """How many of them do not count."""
        return round(self.warm_up_s / BURST_S) * self.burst_size

    def to_json(self) -> str:
        """The schedule as an argument."""
        return json.dumps(asdict(self))


class Ticker(threading.Thread):
    """Calls back on the loop when a burst is due, never waiting for the one before.

    A thread, because the loop's own timers are rounded up to milliseconds.
    """

    def __init__(
        self,
        burst_count: int,
        send_burst: Callable[[int, int], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(name="ticker", daemon=True)
        self._burst_count = burst_count
        self._send_burst = send_burst
        self._loop = loop

    def run(self) -> None:
        """Tick to the end."""
        begin_ns = time.monotonic_ns() + 50_000_000
        for burst in range(self._burst_count):
            due_ns = begin_ns + burst * round(BURST_S * 1e9)
            rest_ns = due_ns - time.monotonic_ns()
            if rest_ns > 0:
                time.sleep(rest_ns / 1e9)
            self._loop.call_soon_threadsafe(self._send_burst, burst, due_ns)


async def send(schedule: Schedule) -> dict[str, object]:
    """Send all, wait for every outcome; then time empty calls while nothing else runs."""
    filling = bytes(np.random.default_rng(7).bytes(schedule.body_bytes - _STAMP.size))
    late_ns = np.zeros(schedule.burst_count, np.int64)
    left = schedule.count
    failures: list[BaseException] = []
    all_told = asyncio.Event()

    # Counted and let go: many that are kept would have the garbage collector hold the sender up.
    def told(outcome: asyncio.Future) -> None:
        nonlocal left
        left -= 1
        failure = outcome.exception()
        if failure is not None:
            failures.append(failure)
        if not left or failures:
            all_told.set()

    async with Producer(schedule.name_servers, group="latency") as producer:
        # The route and the connection are there before the first message is due.
        await producer.send(Message(schedule.topic, _STAMP.pack(-1, 0)))

        def send_burst(burst: int, due_ns: int) -> None:
            late_ns[burst] = time.monotonic_ns() - due_ns
            first = burst * schedule.burst_size
            for number in range(first, first + schedule.burst_size):
                body = _STAMP.pack(number, due_ns) + filling
                producer.send_nowait(Message(schedule.topic, body)).add_done_callback(told)

        Ticker(schedule.burst_count, send_burst, asyncio.get_running_loop()).start()
        await all_told.wait()
        if failures:
            raise failures[0]
    return {"late_ms": late_ns.max() / 1e6, "empty_call_ms": await empty_calls(schedule)}


async def empty_calls(schedule: Schedule) -> dict[str, float]:
    """How long a call takes that asks nothing, one at a time: what no message can beat."""
    taken = np.zeros(EMPTY_CALLS, np.int64)
    async with grpc.aio.insecure_channel(schedule.broker_address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest()
        for number in range(-100, EMPTY_CALLS):
            begin_ns = time.monotonic_ns()
            await stub.Check(request)
            taken[max(number, 0)] = time.monotonic_ns() - begin_ns
    return percentiles(taken)


async def listen(schedule: Schedule) -> dict[str, object]:
    """Take all, say so when it begins; how long each took from when it was due."""
    taken = np.full(schedule.count, -1, np.int64)
    numbers_left = schedule.count
    done = asyncio.Event()

    async def listener(messages: Sequence[ReceivedMessage]) -> None:
        nonlocal numbers_left
        now_ns = time.monotonic_ns()
        for message in messages:
            number, due_ns = _STAMP.unpack_from(message.body)
            if number >= 0 and taken[number] < 0:
                taken[number] = now_ns - due_ns
                numbers_left -= 1
        if not numbers_left:
            done.set()

    async with PushConsumer(
        schedule.name_servers,
        group=f"latency-{schedule.topic}",
        subscriptions={schedule.topic: "*"},
        listener=listener,
        start="earliest",
    ) as consumer:
        await consumer.wait_assigned()
        print("listening", flush=True)
        try:
            async with asyncio.timeout(schedule.warm_up_s + schedule.measured_s + LISTEN_S_MAX):
                await done.wait()
        except TimeoutError:
            raise SystemExit(f"{numbers_left} messages never came") from None
    return {"latency_ms": percentiles(taken[schedule.warm_up_count :])}


def percentiles(taken_ns: NDArray[np.int64]) -> dict[str, float]:
    """What many nanoseconds come to, in milliseconds."""
    # "higher": a latency that some message had, and not the better of two.
    p50, p99, p999 = np.percentile(taken_ns, [50, 99, 99.9], method="higher") / 1e6
    return {"p50": p50, "p99": p99, "p99.9": p999, "max": taken_ns.max() / 1e6}


if __name__ == "__main__":
    # As services do: what is imported by now is not looked through again, some 20 ms each time.
    gc.freeze()
    end = {"send": send, "listen": listen}[sys.argv[1]]
    print(json.dumps(asyncio.run(end(Schedule(**json.loads(sys.argv[2]))))), flush=True)
