"""The command: plays seeds, each in a process of its own, and keeps what came of them."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from played_world.one_process import freeze_addresses, play_apart
from played_world.shrinking import shrink

LEDGER: Final = Path("out/world.jsonl")


def main(arguments: Sequence[str]) -> int:
    """Play; return 1 if a seed found something, or shows nothing."""
    given = _parser().parse_args(arguments)
    freeze_addresses()
    if given.plan is not None:
        given.seeds = str(json.loads(given.plan.read_text())["seed"])
    seeds = _seeds(given.seeds)
    ledger = _Ledger(given.ledger, _commit())
    if given.shrink:
        for seed in seeds:
            print(shrink(seed, given.scale))
        return 0
    end_s = time.monotonic() + given.seconds if given.seconds else None
    failed = 0
    jobs: dict[int, tuple[int, Any]] = {}
    left = [seed for seed in seeds if given.again or not ledger.knows(seed)]
    played: list[dict[str, Any]] = []
    while left or jobs:
        while left and len(jobs) < given.jobs and not (end_s and time.monotonic() > end_s):
            seed = left.pop(0)
            jobs[seed] = play_apart(seed, given.plan, given.trace, given.scale)
        if not jobs:
            break
        done, _ = os.wait()
        for seed, (process_id, pipe) in list(jobs.items()):
            if process_id == done:
                del jobs[seed]
                with pipe:
                    verdict = json.loads(pipe.read() or json.dumps(_died(seed)))
                ledger.keep(verdict)
                played.append(verdict)
                failed += verdict["outcome"] != "ok"
                _tell(verdict)
    _summarize(played)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="world", description=__doc__)
    parser.add_argument("--seeds", default="", help='such as "7" or "1-2000"; default: the day\'s')
    parser.add_argument("--seconds", type=float, default=0.0, help="begin no seed after this time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--scale", type=float, default=1.0, help="1: as long as a seed that counts")
    parser.add_argument("--again", action="store_true", help="also what this commit has played")
    parser.add_argument("--plan", type=Path, help="faults to play in place of those of the seed")
    parser.add_argument("--trace", type=Path, help="where each line of the trace goes")
    parser.add_argument("--shrink", action="store_true", help="which faults does a finding need?")
    parser.add_argument("--ledger", type=Path, default=LEDGER)
    return parser


def _seeds(text: str) -> list[int]:
    if not text:
        begin = int(time.time() // 86400) * 1000
        return list(range(begin, begin + 1000))
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


def _commit() -> str:
    done = subprocess.run(
        ("git", "describe", "--always", "--dirty"), capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


class _Ledger:
    """What each seed came to, by commit: a line of JSON each."""

    def __init__(self, path: Path, commit: str) -> None:
        self._path = path
        self._commit = commit
        lines = path.read_text().splitlines() if path.exists() else []
        rows = [json.loads(line) for line in lines]
        self._known = {row["seed"] for row in rows if row["commit"] == commit}

    def knows(self, seed: int) -> bool:
        """Whether this commit has played a seed; what is changed and not committed never has."""
        return seed in self._known and not self._commit.endswith("-dirty")

    def keep(self, verdict: dict[str, Any]) -> None:
        """Add a line."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps({"commit": self._commit, **verdict}) + "\n")


def _died(seed: int) -> dict[str, Any]:
    return {"seed": seed, "outcome": "anomaly", "words": ["the world itself has died"], "met": {}}


def _tell(verdict: dict[str, Any]) -> None:
    seed, outcome = verdict["seed"], verdict["outcome"]
    if "virtual_s" in verdict:
        pace = verdict["virtual_s"] / max(verdict["cpu_s"], 0.01)
        counts = (
            f"{verdict['acknowledged']} acknowledged, {verdict['virtual_s']:.0f} s at {pace:.0f}"
        )
    else:
        counts = ""
    print(f"seed {seed}: {outcome}, {counts} times real time", flush=True)
    for word in verdict["words"]:
        print(f"    {word}")
    if outcome == "anomaly":
        for fault in verdict.get("plan", ()):
            print("    ", *fault)


def _summarize(played: list[dict[str, Any]]) -> None:
    outcomes = Counter(verdict["outcome"] for verdict in played)
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())))
    met: Counter[str] = Counter()
    for verdict in played:
        met.update(verdict["met"])
    for kind, count in sorted(met.items()):
        print(f"  {kind:<28} {count}")


def as_json(verdict: object) -> str:
    """A verdict as a line."""
    return json.dumps(asdict(verdict))  # type: ignore[call-overload]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
