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
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import count as counter
from itertools import cycle, islice
from typing import Any

import numpy as np
from isal.isal_zlib import crc32
from numpy.typing import NDArray

Step = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]

POOL_SIZE = 4096
SILENCE_S_MAX = 20.0
"""A consumer that hears nothing for so long is done; what it lacks is lost."""

SUMMED_AT_ONCE = 32
"""Messages that are summed up at once where they come one by one."""

YOUNG_OBJECTS_MAX = 20_000
"""New objects that the garbage collector lets be before it looks at them."""

TOPICS_AT_ONCE = 4
"""Topics that are made, looked for or deleted at the same time."""

_WORD = np.dtype("<i8")
_DIGEST_MASK = (1 << 64) - 1

_bodies: dict[int, list[bytes]] = {}
_pools: dict[int, tuple[NDArray[np.int64], NDArray[np.uint64]]] = {}


def bodies_of(body_bytes: int) -> list[bytes]:
    """The pool of bodies of a size, as ``peer_bench.bodies`` draws it."""
    if body_bytes not in _bodies:
        filling = bytes((position * 31 + 7) & 0xFF for position in range(8, body_bytes))
        _bodies[body_bytes] = [struct.pack("<q", n) + filling for n in range(POOL_SIZE)]
    return _bodies[body_bytes]


def digest_of(bodies: Any) -> int:
    """Sum of the checksums of bodies."""
    return sum(map(crc32, bodies)) & _DIGEST_MASK


def digest_of_rows(octets: NDArray[np.uint8], body_bytes: int) -> int:
    """As ``digest_of``, of bodies of one size that lie back to back; no step is taken for each.

    They are compared with the pool, octet by octet: a body that is in it has a known checksum. Most
    come in the order in which they were sent, so that long pieces are compared at once.
    """
    if body_bytes % _WORD.itemsize == 0 and len(octets):
        pooled, sums = _pooled(body_bytes)
        words, row = octets.view(_WORD), body_bytes // _WORD.itemsize
        numbers = words[::row].copy()
        ends_of_runs = [*(np.flatnonzero(np.diff(numbers) != 1) + 1).tolist(), len(numbers)]
        digest = first = 0
        for end in ends_of_runs:
            number = int(numbers[first])
            behind = number + end - first
            if not 0 <= number < behind <= POOL_SIZE:
                break
            if not (words[first * row : end * row] == pooled[number * row : behind * row]).all():
                break
            digest += int(sums[behind] - sums[number])
            first = end
        else:
            return digest & _DIGEST_MASK
    view = octets.tobytes()
    return digest_of(view[start : start + body_bytes] for start in range(0, len(view), body_bytes))


def _pooled(body_bytes: int) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """The bodies of the pool back to back, and the sum of the checksums before each, and of all."""
    if body_bytes not in _pools:
        bodies = bodies_of(body_bytes)
        sums = np.zeros(POOL_SIZE + 1, np.uint64)
        np.cumsum(np.array(list(map(crc32, bodies)), np.uint64), out=sums[1:])
        _pools[body_bytes] = np.frombuffer(b"".join(bodies), _WORD), sums
    return _pools[body_bytes]


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


def share_of(load: Mapping[str, Any], number: int) -> int:
    """How many messages of a load the topic of that number gets: they go to all in turn."""
    messages: int = load["count"]
    return len(range(number, messages, load["topics"]))


async def each_of(topics: Iterable[str], step: Callable[[str], Awaitable[object]]) -> None:
    """Do something for each topic, a few of them at the same time."""
    turns = iter(topics)

    async def work_on() -> None:
        for topic in turns:
            await step(topic)

    await asyncio.gather(*(work_on() for _ in range(TOPICS_AT_ONCE)))


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
    """What a consumer gets: summed up as it comes, and forgotten.

    Kept, it would be memory that nobody had before, which costs more than the sum.

    Args:
        expected_count: How many messages there are.
        digest: The digest of what is taken at once, if that is no sequence of bodies.
    """

    def __init__(self, expected_count: int, digest: Callable[[Any], int] = digest_of) -> None:
        self._first_count = 0
        self._count = 0
        self._expected_count = expected_count
        self._digest_of = digest
        self._digest = 0
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
        self._digest += self._digest_of(chunk)
        self._count += len(chunk)
        self._end = time.perf_counter()
        if self._begin is None:
            self._begin, self._first_count = self._end, self._count
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
        return {
            "count": self._count,
            "begin": self._asked if self._begin is None else self._begin,
            "end": self._end,
            "seconds": self._seconds(),
            "digest": self._digest & _DIGEST_MASK,
        }

    def _seconds(self) -> float:
        """From the first delivery to the last, as if the first chunk had taken its part of it.

        What comes at once with the first message has come before the clock ran: with large chunks
        that is much. Where nothing came later, the time counts from the question.
        """
        come_later = self._count - self._first_count
        whole = max(self._end - self._asked, 1e-9)
        if self._begin is None or not come_later:
            return whole
        # Of a few that come late no pace can be told: the question is as early as it can begin.
        return min(max((self._end - self._begin) * self._count / come_later, 1e-9), whole)


async def serve(steps: Mapping[str, Step]) -> None:
    """Answer until standard input ends."""
    # As our README advises who sends much, for all Python clients alike: most messages are gone
    # before the collector looks at them.
    gc.set_threshold(YOUNG_OBJECTS_MAX)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        load = json.loads(line)
        # As services do: what is imported and kept by now is not looked through again while
        # something is measured. It takes 20 to 100 ms each time.
        gc.collect()
        gc.freeze()
        try:
            answer = await steps[load["do"]](load)
        except Exception as error:  # noqa: BLE001 - whoever asked is told, and decides.
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
