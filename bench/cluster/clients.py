"""How fast Go, Java and TypeScript send single messages, some in flight, beside Python.

    .venv/bin/python -m bench.cluster.clients [--pairs 5] [--only go] [--keep]

Each language and Python in turn send a message of 100 bytes again and again to one broker, by the
programs of ``integration/clients``. Clients and broker share the machine.
"""

from __future__ import annotations

import argparse
import base64
import sys
import tempfile
from contextlib import ExitStack
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
GOALS: Final = {"go": 1.0, "java": 0.5, "typescript": 0.5}
MESSAGE: Final[dict[str, Any]] = {
    **dict.fromkeys(("tag", "group", "id"), ""),
    "topic": "bench",
    "keys": [],
    "properties": {},
    "body": base64.b64encode(b"x" * 100).decode(),
}


def rows_of(language: str, ours: Worker, python: Worker, pairs: int) -> list[Row]:
    """One language beside Python, a row for each number in flight."""
    rows = []
    for in_flight, count in COUNTS.items():

        def pump(worker: Worker, in_flight: int = in_flight, count: int = count) -> float:
            seconds: float = worker.ask(
                "pump", messages=[MESSAGE], count=count, in_flight=in_flight
            )
            return seconds / count * 1e6

        measured = [(pump(ours), pump(python)) for _ in range(pairs + 1)][1:]
        found = pairs_of(measured)
        rows.append(
            Row(
                f"{language}, {in_flight:,} in flight",
                found.seconds,
                "us/message",
                "Python",
                found.limit_seconds,
                found.ratio,
                found.ratio_min,
                found.ratio_max,
                pairs,
                goal=GOALS[language] if in_flight == 64 else None,
                extra={"load": getloadavg()[0]},
            )
        )
    return rows


def measure(languages: list[str], pairs: int) -> list[Row]:
    """Measure the languages whose toolchains are here."""
    rows = []
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        cluster = stack.enter_context(LocalCluster(Path(folder)))
        with ClusterClient(cluster.name_servers.split(",")) as admin:
            admin.create_topic(MESSAGE["topic"], queue_count=4)

        def started(language: str) -> Worker:
            build(language)
            worker = stack.enter_context(Worker(language))
            worker.ask("connect", name_servers=cluster.name_servers.split(","))
            return worker

        python = started("python")
        for language in languages:
            if lacks := missing(language):
                print(f"{language} is left out: {lacks} is not on this machine")
            else:
                rows += rows_of(language, started(language), python, pairs)
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
