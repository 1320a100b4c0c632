"""redis-py with hiredis as a driver of streams: ``redis_driver.py PORT``. A topic is a stream.

By its blocking client, a thread for each pipeline: its asyncio client takes twice the CPU to send.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from itertools import count as counter
from typing import Any

from driver_loop import Arrivals, bodies_of, load_batches, nothing, run_workers, serve
from redis import Redis
from redis.exceptions import RedisError

READ_AT_ONCE = 1000
FIELD = b"body"


class RedisDriver:
    """Answers what is asked, by connections of one pool, a thread for each."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._group_numbers = counter(1)

    async def prepare_produce(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Make the bodies; a stream comes with its first entry."""
        bodies_of(load["body_bytes"])
        return {}

    async def produce(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Add a batch at a time, as one pipeline."""
        topic = load["topic"]

        def send(bodies: list[bytes]) -> int:
            pipeline = self._redis.pipeline(transaction=False)
            for body in bodies:
                pipeline.xadd(topic, {FIELD: body})
            try:
                answers = pipeline.execute(raise_on_error=False)
            except RedisError:
                return len(bodies)
            return sum(isinstance(answer, RedisError) for answer in answers)

        async def send_batch(bodies: list[bytes]) -> int:
            return await asyncio.to_thread(send, bodies)

        return await run_workers(load_batches(load), load["in_flight"], send_batch)

    async def consume(self, load: Mapping[str, Any]) -> dict[str, Any]:
        """Read from the first entry, by a new group; what was read is acknowledged."""
        return await asyncio.to_thread(self._consume, load)

    def _consume(self, load: Mapping[str, Any]) -> dict[str, Any]:
        arrivals = Arrivals(load["count"])
        topic, group = load["topic"], f"group-{next(self._group_numbers)}"
        self._redis.xgroup_create(topic, group, id="0")
        while not arrivals.whole:
            read = self._redis.xreadgroup(group, "member", {topic: ">"}, count=READ_AT_ONCE)
            if not read:
                break
            entries = read[0][1] if isinstance(read, list) else next(iter(read.values()))[0]
            arrivals.take([fields[FIELD] for _, fields in entries])
            self._redis.xack(topic, group, *(number for number, _ in entries))
        # Memory is what it keeps entries in.
        answer = arrivals.answer()
        self._redis.delete(topic)
        return answer


async def main(port: str) -> None:
    """Connect, and answer."""
    with Redis(host="127.0.0.1", port=int(port)) as redis:
        driver = RedisDriver(redis)
        await serve(
            {
                "prepare_produce": driver.prepare_produce,
                "produce": driver.produce,
                "prepare_consume": nothing,
                "consume": driver.consume,
            }
        )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
