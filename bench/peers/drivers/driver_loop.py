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
from collections.abc import Awaitable, Callable, Iterator, Mapping
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

_WORD = np.dtype("<i8")
_DIGEST_MASK = (1 << 64) - 1

_bodies: dict[int, list[bytes]] = {}
_sums: dict[int, NDArray[np.uint64]] = {}


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

    They are compared with the pool, octet by octet: a body that is in it has a known checksum.
    """
    words = octets.reshape(-1, body_bytes)
    if body_bytes % _WORD.itemsize == 0:
        words = words.view(_WORD)
        numbers, fillings = words[:, 0], words[:, 1:]
        filling = np.frombuffer(bodies_of(body_bytes)[0], _WORD)[1:]
        if ((numbers >= 0) & (numbers < POOL_SIZE)).all() and (fillings == filling).all():
            return int(_sums_of(body_bytes)[numbers].sum()) & _DIGEST_MASK
    view = octets.tobytes()
    return digest_of(view[start : start + body_bytes] for start in range(0, len(view), body_bytes))


def _sums_of(body_bytes: int) -> NDArray[np.uint64]:
    """The checksum of each body of the pool."""
    if body_bytes not in _sums:
        _sums[body_bytes] = np.array(list(map(crc32, bodies_of(body_bytes))), np.uint64)
    return _sums[body_bytes]


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
