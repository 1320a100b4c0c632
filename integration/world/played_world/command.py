"""The command: plays seeds, each in a process of its own, and keeps what came of them."""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from played_world import patterns
from played_world.faults import KINDS
from played_world.one_process import freeze_addresses, play_apart
from played_world.planted.planted_faults import PLANTED
from played_world.planted.planted_runs import play_planted
from played_world.programs import operators
from played_world.shrinking import shrink
from played_world.steps import table

PLANTED_S: Final = 600.0
"""For how long seeds are begun with each planted fault."""

PLANTED_SCALE: Final = 0.3
"""How long those are disturbed, unless it is said: many short ones meet more than a long one."""

LEDGER: Final = Path("out/world.jsonl")


def main(arguments: Sequence[str]) -> int:
    """Play; return 1 if a seed found something, or shows nothing."""
    given = _parser().parse_args(arguments)
    freeze_addresses()
    operators.ONLY.update(given.acts)
    patterns.ONLY.update(given.patterns)
    if given.plan is not None:
        given.seeds = str(json.loads(given.plan.read_text())["seed"])
    seeds = _seeds(given.seeds)
    if given.scale is None:
        given.scale = 1.0 if given.planted is None else PLANTED_SCALE
    if given.planted is not None:
        options = ["--seeds", given.seeds or "1-1000", "--scale", str(given.scale)]
        options += ["--jobs", str(given.jobs)]
        options += ["--acts", *given.acts] if given.acts else []
        options += ["--patterns", *given.patterns] if given.patterns else []
        return 1 if play_planted(given.planted, options, given.seconds or PLANTED_S) else 0
    if given.shrink:
        for seed in seeds:
            print(shrink(seed, given.scale))
        return 0
    played = _play(given, seeds)
    _summarize(played)
    return 1 if any(verdict["outcome"] != "ok" for verdict in played) else 0


def _play(given: argparse.Namespace, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Play seeds, some at a time; return their verdicts."""
    ledger = _Ledger(given.ledger, _commit())
    end_s = time.monotonic() + given.seconds if given.seconds else None
    running: dict[int, tuple[int, Any]] = {}
    left = [seed for seed in seeds if given.again or not ledger.knows(seed)]
    played: list[dict[str, Any]] = []
    while left or running:
        while left and len(running) < given.jobs and not (end_s and time.monotonic() > end_s):
            seed = left.pop(0)
            running[seed] = play_apart(seed, given.plan, given.trace, given.scale)
        if not running:
            break
        # Read before they are waited for: a long verdict is written only while it is read.
        told, _, _ = select.select([pipe for _, pipe in running.values()], [], [])
        for seed, (process_id, pipe) in list(running.items()):
            if pipe in told:
                del running[seed]
                with pipe:
                    verdict = json.loads(pipe.read() or json.dumps(_died(seed)))
                os.waitpid(process_id, 0)
                ledger.keep(verdict)
                played.append(verdict)
                _tell(verdict)
                if given.until_found and verdict["outcome"] == "anomaly":
                    left.clear()
    return played


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="world", description=__doc__)
    parser.add_argument("--seeds", default="", help='such as "7" or "1-2000"; default: the day\'s')
    parser.add_argument("--seconds", type=float, default=0.0, help="begin no seed after this time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--scale", type=float, help="1, the default: as long as one that counts")
    parser.add_argument("--again", action="store_true", help="also what this commit has played")
    parser.add_argument("--plan", type=Path, help="faults to play in place of those of the seed")
    parser.add_argument("--trace", type=Path, help="where each line of the trace goes")
    parser.add_argument("--shrink", action="store_true", help="which faults does a finding need?")
    parser.add_argument("--acts", nargs="*", default=(), help="all that operators do, by name")
    parser.add_argument(
        "--patterns",
        nargs="*",
        default=(),
        choices=patterns.PATTERNS,
        metavar="PATTERN",
        help="all that befalls a world, by name",
    )
    parser.add_argument("--plant", choices=PLANTED, help="a fault to plant into the house")
    parser.add_argument("--until-found", action="store_true", help="end with the first finding")
    parser.add_argument(
        "--planted",
        nargs="*",
        choices=PLANTED,
        metavar="FAULT",
        help="plant each fault, or all, and tell which seed finds it",
    )
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
    return {
        "seed": seed,
        "outcome": "anomaly",
        "words": ["the world itself has died"],
        "met": {},
        "changes": {},
        "repeats": {},
    }


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
    changes: Counter[str] = Counter()
    repeats: Counter[str] = Counter()
    for verdict in played:
        met.update(verdict["met"])
        changes.update(verdict["changes"])
        repeats.update(verdict["repeats"])
    for line in table(met, ((fault, kinds) for fault, (_, kinds) in KINDS.items())):
        print(line)
    for what, counts in (("operators", changes), ("repeats", repeats)):
        print(f"{what}:", ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))


def as_json(verdict: object) -> str:
    """A verdict as a line."""
    return json.dumps(asdict(verdict))  # type: ignore[call-overload]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
