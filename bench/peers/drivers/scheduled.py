"""Open loop: messages that are sent when they are due, and when each is acknowledged and heard.

All processes share the machine, so the monotonic clock of one is that of the other. A body begins
with the number of its message and the moment from which its time counts: when it was due to be sent
or, of a delayed message, when it was due to be delivered.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from driver_loop import SILENCE_S_MAX

_STAMP = struct.Struct("<qq")
_BURSTS_A_SECOND = 1000
_NS_A_SECOND = 1_000_000_000
_BURST_NS = _NS_A_SECOND // _BURSTS_A_SECOND
_PERCENTILES = {"p50": 50, "p99": 99, "p99.9": 99.9, "max": 100}
_SPREAD = 7919
"""A prime: delays go up and down instead of in the order of sending."""


_libc = ctypes.CDLL(None, use_errno=True)
_ABSOLUTE = 1
_EXPIRED = struct.Struct("=Q")
"""How often a timer has expired since it was read last."""


class _Timer(ctypes.Structure):
    """``struct itimerspec``: period and first expiration; Python knows it from 3.13 on."""

    _fields_ = [(name, ctypes.c_long) for name in ("period_s", "period_ns", "begin_s", "begin_ns")]


def checked(result: int) -> int:
    """What a function of the C library gave.

    Raises:
        OSError: It failed.
    """
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


class Schedule:
    """When what is sent: a burst every millisecond, fixed before the first of them.

    Args:
        load: As it was asked; its rate is a multiple of a thousand a second.
    """

    def __init__(self, load: Mapping[str, Any]) -> None:
        self.burst_size = load["rate"] // _BURSTS_A_SECOND
        self.burst_count = load["count"] // self.burst_size
        self.warm_up_count = load["warm_up_count"]
        self.filling = filling_of(load)
        self._delay_ms = load["delay_ms"]

    def delay_ms_of(self, number: int) -> int:
        """How long after it was due to be sent a message is to be delivered."""
        return self._delay_ms and self._delay_ms + number * _SPREAD % self._delay_ms


def filling_of(load: Mapping[str, Any]) -> bytes:
    """What stands in each body behind number and moment."""
    return bytes((p * 31 + 7) & 0xFF for p in range(_STAMP.size, load["body_bytes"]))


class Metronome:
    """Calls back on the loop when a burst is due, never waiting for the one before.

    By a timer of the kernel that the loop waits for as for a socket: its own timers are rounded up
    to milliseconds, and a thread would take the interpreter from the sender at every burst.
    """

    def __init__(self, burst_count: int, send_burst: Callable[[int, int], None]) -> None:
        self._burst_count = burst_count
        self._send_burst = send_burst
        self._next = 0
        self._begin_ns = 0
        self._fd = checked(_libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC))

    def start(self) -> None:
        """Begin in a moment."""
        self._begin_ns = time.monotonic_ns() + 50_000_000
        begin = divmod(self._begin_ns, _NS_A_SECOND)
        period = divmod(_BURST_NS, _NS_A_SECOND)
        timer = ctypes.byref(_Timer(*period, *begin))
        checked(_libc.timerfd_settime(self._fd, _ABSOLUTE, timer, None))
        asyncio.get_running_loop().add_reader(self._fd, self._tick)

    def _tick(self) -> None:
        (expired,) = _EXPIRED.unpack(os.read(self._fd, _EXPIRED.size))
        for burst in range(self._next, min(self._next + expired, self._burst_count)):
            self._send_burst(burst, self._begin_ns + burst * _BURST_NS)
        self._next += expired
        if self._next >= self._burst_count:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)


async def send_on_schedule(
    schedule: Schedule, send: Callable[[bytes, int], asyncio.Future[Any]]
) -> dict[str, Any]:
    """Send all when they are due, then wait for every outcome; each counts from when it was due.

    Args:
        schedule: What is due when.
        send: Sends a body without waiting, to be delivered so many milliseconds later.
    """
    count = left = schedule.burst_count * schedule.burst_size
    took_ns = np.full(count, -1, np.int64)
    late_ns = failures = 0
    all_over = asyncio.Event()

    # Counted and let go: many that are kept would have the garbage collector hold the sender up.
    def over(*, failed: bool) -> None:
        nonlocal left, failures
        left -= 1
        failures += failed
        if not left:
            all_over.set()

    def answered(number: int, due_ns: int, outcome: asyncio.Future[Any]) -> None:
        failed = outcome.cancelled() or outcome.exception() is not None
        if not failed:
            took_ns[number] = time.monotonic_ns() - due_ns
        over(failed=failed)

    def send_burst(burst: int, due_ns: int) -> None:
        nonlocal late_ns
        late_ns = max(late_ns, time.monotonic_ns() - due_ns)
        first = burst * schedule.burst_size
        for number in range(first, first + schedule.burst_size):
            later_ms = schedule.delay_ms_of(number)
            # The delay counts from the send, as an application's does.
            from_ns = time.monotonic_ns() + later_ms * 1_000_000 if later_ms else due_ns
            try:
                outcome = send(_STAMP.pack(number, from_ns) + schedule.filling, later_ms)
            except Exception:  # noqa: BLE001 - whatever a client says when it has no room.
                over(failed=True)
            else:
                outcome.add_done_callback(partial(answered, number, due_ns))

    begin = time.perf_counter()
    Metronome(schedule.burst_count, send_burst).start()
    await all_over.wait()
    looked_at = took_ns[schedule.warm_up_count :]
    return {
        "count": count - failures,
        "failures": failures,
        "seconds": time.perf_counter() - begin,
        "late_ms": late_ns / 1e6,
        "acknowledged": percentiles(looked_at[looked_at >= 0]),
    }


class Heard:
    """What a listener heard: looked at when the last has come."""

    def __init__(self, load: Mapping[str, Any]) -> None:
        self._load = load
        self._come: list[tuple[int, Sequence[Any]]] = []
        self._count = 0
        self._whole = asyncio.Event()

    def take(self, messages: Sequence[Any]) -> None:
        """Take messages that came now; each has a ``body``."""
        self._come.append((time.monotonic_ns(), [message.body for message in messages]))
        self._count += len(messages)
        if self._count >= self._load["count"]:
            self._whole.set()

    async def wait(self) -> None:
        """Wait until all have come, or nothing more does."""
        while not self._whole.is_set():
            before = self._count
            try:
                async with asyncio.timeout(SILENCE_S_MAX):
                    await self._whole.wait()
            except TimeoutError:
                if self._count == before:
                    return

    def answer(self) -> dict[str, Any]:
        """How many there were, how many were not as they were sent, and percentiles.

        Of messages that never came no percentile tells; they are lost, and told so.
        """
        took_ns = np.full(self._load["count"], -1, np.int64)
        filling = filling_of(self._load)
        altered = 0
        for at_ns, bodies in self._come:
            for body in bodies:
                number, from_ns = _STAMP.unpack_from(body)
                if bytes(body[_STAMP.size :]) != filling or not 0 <= number < len(took_ns):
                    altered += 1
                elif took_ns[number] < 0:
                    took_ns[number] = max(at_ns - from_ns, 0)
        looked_at = took_ns[self._load["warm_up_count"] :]
        return {
            "count": int((took_ns >= 0).sum()),
            "altered": altered,
            "percentiles": percentiles(looked_at[looked_at >= 0]),
        }


def percentiles(took_ns: Any) -> dict[str, float]:
    """What many nanoseconds come to, in milliseconds: what some message took, of two the worse.

    Of none it is -1.
    """
    if not len(took_ns):
        return dict.fromkeys(_PERCENTILES, -1.0)
    found = np.percentile(took_ns, list(_PERCENTILES.values()), method="higher") / 1e6
    return dict(zip(_PERCENTILES, found.tolist(), strict=True))
