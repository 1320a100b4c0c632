"""What TLS costs, and what rights cost: the same work at three clusters of this machine.

    .venv/bin/python -m bench.cluster.tls [--pairs 5] [--quick]

They are up at the same time, and take turns. One is open and in plain text. Over TLS all
connections are encrypted, those to the name server with them, and the producer shows a certificate.
The third is in plain text, and its broker closed: it knows 10,000 users, and judges each call by
the 1,000 entries of its caller, who has logged in by a key.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

from ariane_sdk import Message, Producer, Tls
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.access_rules import entry_of
from ariane_testkit.user_keys import UserKeys
from bench.measure import Row, program

BODY = b"x" * 1024
TOGETHER = 256

USERS = 10_000
ENTRIES = 1_000
"""Of the caller's policy."""


async def batches(producer: Producer, count: int) -> float:
    """Messages a second in batches of a thousand."""
    begin = time.perf_counter()
    for _ in range(max(1, count // 1000)):
        await producer.send_batch([Message("tls", BODY)] * 1000)
    return max(1, count // 1000) * 1000 / (time.perf_counter() - begin)


async def single_sends(producer: Producer, count: int) -> float:
    """Messages a second, each sent and awaited by one of many tasks."""

    async def send() -> None:
        for _ in range(count // TOGETHER):
            await producer.send(Message("tls", BODY))

    begin = time.perf_counter()
    await asyncio.gather(*(send() for _ in range(TOGETHER)))
    return count // TOGETHER * TOGETHER / (time.perf_counter() - begin)


async def lone_sends(producer: Producer, count: int) -> float:
    """Sends a second at the median of one after the other."""
    took = []
    for _ in range(count // 50):
        begin = time.perf_counter()
        await producer.send(Message("tls", BODY))
        took.append(time.perf_counter() - begin)
    return 1 / statistics.median(took)


WORKS: dict[str, tuple[Callable[[Producer, int], Awaitable[float]], str]] = {
    "batches of 1,000 messages of 1 KiB": (batches, "messages/s"),
    f"single sends of 1 KiB, {TOGETHER} at a time": (single_sends, "messages/s"),
    "lone sends of 1 KiB, median": (lone_sends, "sends/s"),
}


def users(folder: Path) -> tuple[UserKeys, Path]:
    """Rules of 10,000 users, and the key of the one with 1,000 entries."""
    keys = UserKeys(folder)
    key = keys.file_of("bench")
    caller = keys.rules.users[0]
    # Half are names, half beginnings of names, among them some that are like the topic's.
    entries = ["allow PUBLISH,CREATE topic tls"]
    entries += (f"allow PUBLISH,SUBSCRIBE topic tls{number}" for number in range(ENTRIES // 2 - 1))
    entries += (f"deny GET topic t{number}-*" for number in range(ENTRIES // 2))
    caller.entries.extend(map(entry_of, entries))
    for number in range(USERS):
        keys.rules.users.add(user=f"user-{number}", entries=[entry_of("allow GET topic *")])
    return keys, key


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Variables for processes that are started meanwhile."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


async def measure(*, pairs: int, count: int) -> list[Row]:
    """Run each work so many times, by turns in plain text, over TLS, and with rights."""
    with tempfile.TemporaryDirectory() as folder:
        keys, key = users(Path(folder))
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            plain = await enter(LocalCluster(Path(folder) / "plain"))
            encrypted = await enter(LocalCluster(Path(folder) / "tls", tls=True))
            judging = LocalCluster(
                Path(folder) / "rights", extra_broker_args=("--access", "closed")
            )
            with environment(keys.environment()):
                await enter(judging)
            assert encrypted.certificates is not None
            tls = Tls(**encrypted.certificates.user("bench"))
            without = await enter(Producer(plain.name_servers, tls=False))
            others = {
                "over TLS": await enter(Producer(encrypted.name_servers, tls=tls)),
                "with rights alone": await enter(
                    Producer(judging.name_servers, tls=False, credentials=key)
                ),
            }
            rows = []
            for name, (work, unit) in WORKS.items():
                for producer in (without, *others.values()):
                    await work(producer, count // 10)
                for how, producer in others.items():
                    both = [
                        (await work(without, count), await work(producer, count))
                        for _ in range(pairs)
                    ]
                    rows.append(row_of(f"{how}: {name}", unit, both))
            return rows


def row_of(name: str, unit: str, both: list[tuple[float, float]]) -> Row:
    """One work, over its pairs."""
    ratios = [theirs / plain for plain, theirs in both]
    return Row(
        work=name,
        ours=statistics.median(theirs for _, theirs in both),
        unit=unit,
        against="the same in plain text, open",
        theirs=statistics.median(plain for plain, _ in both),
        ratio=statistics.median(ratios),
        ratio_min=min(ratios),
        ratio_max=max(ratios),
        pairs=len(both),
    )


def rows(*, pairs: int, quick: bool) -> list[Row]:
    """All rows of this benchmark."""
    return asyncio.run(measure(pairs=pairs, count=20_000 if quick else 100_000))


if __name__ == "__main__":
    program("tls", __doc__, rows, pairs=5)
