"""How fast Go, Java and TypeScript send, receive and acknowledge, beside Python.

    .venv/bin/python -m bench.cluster.clients [--pairs 5] [--only go] [--keep]

Each language and Python in turn send a message of 100 bytes again and again to one broker, single
or in batches, or receive such messages, by the programs of ``integration/clients``. Clients and
broker share the machine.
"""

from __future__ import annotations

import argparse
import base64
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from os import getloadavg
from pathlib import Path
from typing import Any, Final

from ariane_sdk.sync import ClusterClient
from ariane_servicekit.running.processes import LocalCluster
from bench.measure import Row, pairs_of, table_of, write_results

sys.path.append(str(Path(__file__).parents[2] / "integration/clients"))

from languages import COMMANDS, Worker, build, missing

COUNTS: Final = {1: 2_000, 64: 60_000, 1024: 120_000}
"""Messages of one run, by how many are in flight: seconds, not minutes."""
BATCH: Final = 32
"""Messages of a call, also of one that receives."""
BATCHED: Final = 128_000
DRAINED: Final = 32_000
GOALS: Final = {"go": 1.0, "java": 0.5, "typescript": 0.5}
MESSAGE: Final[dict[str, Any]] = {
    **dict.fromkeys(("tag", "group", "id"), ""),
    "topic": "bench",
    "keys": [],
    "properties": {},
    "body": base64.b64encode(b"x" * 100).decode(),
}


def pump(
    worker: Worker, count: int, in_flight: int, batch: int = 1, topic: str = MESSAGE["topic"]
) -> float:
    """Send; return microseconds a message."""
    message = MESSAGE | {"topic": topic}
    seconds: float = worker.ask(
        "pump", messages=[message], count=count, in_flight=in_flight, batch=batch
    )
    return seconds / count * 1e6


def drain(worker: Worker, filler: Worker) -> float:
    """Receive what is sent first, and acknowledge it; return microseconds a message."""
    topic = drained_by(worker.language)
    pump(filler, DRAINED, 4, BATCH, topic)
    words = {"group": worker.language, "topic": topic, "max": BATCH}
    seconds: float = worker.ask("drain", count=DRAINED, **words)
    return seconds / DRAINED * 1e6


def drained_by(language: str) -> str:
    """The topic that a language has for itself, so that nothing is left for the next turn."""
    return f"{MESSAGE['topic']}-{language}"


def works_of(python: Worker) -> dict[str, Callable[[Worker], float]]:
    """What each language does, by the name of its row."""
    works: dict[str, Callable[[Worker], float]] = {
        f"{in_flight:,} in flight": partial(pump, count=count, in_flight=in_flight)
        for in_flight, count in COUNTS.items()
    }
    works[f"batches of {BATCH}"] = partial(pump, count=BATCHED, in_flight=4, batch=BATCH)
    works["receive and acknowledge"] = partial(drain, filler=python)
    return works


def row_of(language: str, name: str, pairs: list[tuple[float, float]]) -> Row:
    """One language beside Python in one work."""
    found = pairs_of(pairs)
    return Row(
        f"{language}, {name}",
        found.seconds,
        "us/message",
        "Python",
        found.limit_seconds,
        found.ratio,
        found.ratio_min,
        found.ratio_max,
        len(pairs),
        goal=GOALS[language] if name == "64 in flight" else None,
        extra={"load": getloadavg()[0]},
    )


def measure(languages: list[str], pairs: int) -> list[Row]:
    """Measure the languages whose toolchains are here."""
    rows = []
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        cluster = stack.enter_context(LocalCluster(Path(folder)))
        with ClusterClient(cluster.name_servers.split(",")) as admin:
            for topic in (MESSAGE["topic"], *map(drained_by, COMMANDS)):
                admin.create_topic(topic, queue_count=4)

        def started(language: str) -> Worker:
            build(language)
            worker = stack.enter_context(Worker(language))
            worker.ask("connect", name_servers=cluster.name_servers.split(","))
            return worker

        python = started("python")
        for language in languages:
            if lacks := missing(language):
                print(f"{language} is left out: {lacks} is not on this machine")
                continue
            ours = started(language)
            for name, work in works_of(python).items():
                measured = [(work(ours), work(python)) for _ in range(pairs + 1)][1:]
                rows.append(row_of(language, name, measured))
    return rows


def main() -> None:
    """Measure, print, and keep if asked to."""
    others = [language for language in COMMANDS if language != "python"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=others, choices=others)
    parser.add_argument("--keep", action="store_true", help="keep the figures for the page")
    arguments = parser.parse_args()
    rows = measure(arguments.only, arguments.pairs)
    print(table_of(rows))
    if arguments.keep:
        print(f"\nkept in {write_results('clients', rows)}")


if __name__ == "__main__":
    main()
