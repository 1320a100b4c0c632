"""The process of a Python client: reads what it is asked as lines of JSON, and answers so.

Nothing here knows a contender; each driver beside it gives its coroutines. They take the load as
it was asked and answer ``{"count", "seconds", "failures", "digest"}``.
"""

from __future__ import annotations

import asyncio
import gc
import json
import struct
import sys
import time
import traceback
import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import chain, cycle, islice
from itertools import count as counter
from typing import Any

Step = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]

POOL_SIZE = 4096
SILENCE_S_MAX = 20.0
"""A consumer that hears nothing for so long is done; what it lacks is lost."""

_bodies: dict[int, list[bytes]] = {}


def bodies_of(body_bytes: int) -> list[bytes]:
    """The pool of bodies of a size, as ``peer_bench.bodies`` draws it."""
    if body_bytes not in _bodies:
        filling = bytes((position * 31 + 7) & 0xFF for position in range(8, body_bytes))
        _bodies[body_bytes] = [struct.pack("<q", n) + filling for n in range(POOL_SIZE)]
    return _bodies[body_bytes]


def digest_of(bodies: Any) -> int:
    """Sum of the checksums of bodies."""
    return sum(map(zlib.crc32, bodies)) & ((1 << 64) - 1)


def load_bodies(load: Mapping[str, Any]) -> Iterator[bytes]:
    """The bodies of a load, one by one."""
    return islice(cycle(bodies_of(load["body_bytes"])), load["count"])


def load_batches(load: Mapping[str, Any]) -> Iterator[list[bytes]]:
    """The bodies of a load, in explicit batches."""
    bodies = load_bodies(load)
    while batch := list(islice(bodies, load["batch"])):
        yield batch


def topics_of(load: Mapping[str, Any]) -> list[str]:
    """The topics of a load: its own, or so many with a number behind it."""
    topic, count = load["topic"], load["topics"]
    return [topic] if count == 1 else [f"{topic}-{number}" for number in range(count)]


async def nothing(_load: Mapping[str, Any]) -> dict[str, Any]:
    """A step that a contender has no need of."""
    return {}


async def run_workers(
    works: Iterator[Any], workers: int, send: Callable[[Any], Awaitable[int]]
) -> dict[str, Any]:
    """Have workers take works in turn, each awaiting one at a time.

    Args:
        works: What is sent: a body, or a batch of bodies.
        workers: How many wait at the same time.
        send: Sends one and waits for its acknowledgement; returns how many messages were refused.
    """
    failures = 0
    taken = 0

    async def work_on() -> None:
        nonlocal failures, taken
        for work in works:
            taken += len(work) if isinstance(work, list) else 1
            # Added behind the wait: others add while this one waits.
            refused = await send(work)
            failures += refused

    begin = time.perf_counter()
    await asyncio.gather(*(work_on() for _ in range(workers)))
    seconds = time.perf_counter() - begin
    return {"count": taken - failures, "seconds": seconds, "failures": failures}


class Arrivals:
    """What a consumer gets: kept until the clock has stopped, and summed up then.

    Args:
        expected_count: How many messages there are.
        unpack: The bodies of what is taken at once, if that is no sequence of bodies.
    """

    def __init__(
        self, expected_count: int, unpack: Callable[[Any], Iterable[bytes]] | None = None
    ) -> None:
        self._chunks: list[Any] = []
        self._count = 0
        self._expected_count = expected_count
        self._unpack = unpack
        self._asked = time.perf_counter()
        self._begin: float | None = None
        self._end = 0.0
        self._whole = asyncio.Event()

    @property
    def whole(self) -> bool:
        """Whether all have come."""
        return self._count >= self._expected_count

    @property
    def left(self) -> int:
        """How many have not come."""
        return max(self._expected_count - self._count, 0)

    def take(self, chunk: Any) -> None:
        """Take what came at once."""
        self._chunks.append(chunk)
        self._count += len(chunk)
        self._end = time.perf_counter()
        if self._begin is None:
            self._begin = self._end
        if self.whole:
            self._whole.set()

    async def wait(self) -> None:
        """Wait until all have come, or nothing more does."""
        for _ in counter():
            before = self._count
            try:
                async with asyncio.timeout(SILENCE_S_MAX):
                    await self._whole.wait()
            except TimeoutError:
                if self._count > before:
                    continue
            return

    def answer(self) -> dict[str, Any]:
        """What the harness wants to know."""
        unpacked = self._chunks if self._unpack is None else map(self._unpack, self._chunks)
        return {
            "count": self._count,
            "begin": self._asked if self._begin is None else self._begin,
            "end": self._end,
            "seconds": self._seconds(),
            "digest": digest_of(chain.from_iterable(unpacked)),
        }

    def _seconds(self) -> float:
        """From the first delivery to the last, as if the first chunk had taken its part of it.

        What comes at once with the first message has come before the clock ran: with large chunks
        that is much. Where nothing came later, the time counts from the question.
        """
        come_later = self._count - len(self._chunks[0]) if self._chunks else 0
        whole = max(self._end - self._asked, 1e-9)
        if self._begin is None or not come_later:
            return whole
        # Of a few that come late no pace can be told: the question is as early as it can begin.
        return min(max((self._end - self._begin) * self._count / come_later, 1e-9), whole)


async def serve(steps: Mapping[str, Step]) -> None:
    """Answer until standard input ends."""
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        load = json.loads(line)
        gc.collect()
        try:
            answer = await steps[load["do"]](load)
        except Exception as error:  # noqa: BLE001 - whoever asked is told, and decides.
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
