"""Slow tests, a group at a time: ``make slow``.

    python -m tools.slow                    # all groups, those first that were not played longest
    python -m tools.slow --only replicas    # groups with this in their names
    python -m tools.slow --one --seconds 90 # another one with each commit, as ``.ci/run`` asks
    python -m tools.slow --closed           # those over real processes, on clusters that are closed

A group is a file with slow tests. What became of each is kept beside this file, in
``slow_outcomes.txt``, and of closed ones in ``slow_closed_outcomes.txt``: whoever plays groups
commits it. Played again is only what has not passed at this commit, so that a run that was broken
off goes on where it was. ``make check`` tells which groups nobody has played for long.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.workspace import ROOT, repository_files

OUTCOMES: Final = ROOT / "tools" / "slow_outcomes.txt"
CLOSED_OUTCOMES: Final = OUTCOMES.with_name("slow_closed_outcomes.txt")
CLOSED: Final = re.compile(
    r"integration/(clients|commands|faults|gateway|interop|partitions|scenarios|soak)/"
)
"""Where groups are that start clusters of processes: they play on closed ones, too."""

HEADER: Final = "# group, its last commit and how many that had before it, outcome, seconds\n"
SLOW: Final = re.compile(r"mark\.slow\b")

GROUP_S_MAX: Final = 900
"""Seconds that a group may take."""

AGE_MAX: Final = 300
"""Commits after which a group has to be played again."""

UNKNOWN_S: Final = 30
"""Seconds that a group is taken to need which was never played."""

END_S_MAX: Final = 20
"""Seconds for one that is late to clear away what it has started."""

SHOWN_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a group when it was last played."""

    commit: str
    """The commit, abbreviated."""
    count: int
    """Which one it was, counted from the first: a rebase changes names, and hardly counts."""
    outcome: str
    """``passed``, ``failed``, ``skipped`` or ``late``."""
    seconds: int
    """How long it took."""


def groups(names: Iterable[str], root: Path = ROOT) -> list[str]:
    """Those of these files that hold slow tests."""
    tests = [name for name in names if re.search(r"(^|/)test_\w+\.py$", name)]
    return sorted(name for name in tests if SLOW.search((root / name).read_text(encoding="utf-8")))


def read(path: Path) -> dict[str, Outcome]:
    """The outcomes in a file, by group."""
    rows = [line.split() for line in path.read_text().splitlines() if line[:1] not in ("", "#")]
    return {
        name: Outcome(commit, int(count), outcome, int(seconds))
        for name, commit, count, outcome, seconds in rows
    }


def write(path: Path, outcomes: Mapping[str, Outcome]) -> None:
    """Write the outcomes into a file."""
    path.write_text(
        HEADER
        + "".join(
            f"{name} {each.commit} {each.count} {each.outcome} {each.seconds}\n"
            for name, each in sorted(outcomes.items())
        )
    )


def longest_ago(known: Iterable[str], outcomes: Mapping[str, Outcome]) -> list[str]:
    """The groups in the order in which they were played last; first those that never were."""
    return sorted(known, key=lambda name: outcomes[name].count if name in outcomes else -1)


def choose(
    known: Sequence[str], outcomes: Mapping[str, Outcome], count: int, seconds: float
) -> str | None:
    """The group of a commit, or the next one that lately took less time than there is.

    Args:
        known: All groups.
        outcomes: What became of them.
        count: Which commit it is.
        seconds: How much time there is.
    """
    first = count % max(1, len(known))
    turn = (*known[first:], *known[:first])
    takes = {name: outcomes[name].seconds if name in outcomes else UNKNOWN_S for name in turn}
    return next((name for name in turn if takes[name] < seconds), None)


def notices(known: Iterable[str], outcomes: Mapping[str, Outcome], count: int) -> list[str]:
    """One line each about the groups that are to be played, and those that failed."""
    old = [
        name
        for name in longest_ago(known, outcomes)
        if name not in outcomes or count - outcomes[name].count > AGE_MAX
    ]
    failed = [name for name, each in outcomes.items() if each.outcome not in {"passed", "skipped"}]
    return [
        f"slow tests that {what}: {', '.join(names[:SHOWN_MAX])}"
        + (f" and {len(names) - SHOWN_MAX} more" if len(names) > SHOWN_MAX else "")
        for names, what in (
            (old, f"were not played for {AGE_MAX} commits (make slow)"),
            (failed, "did not pass when they were last played"),
        )
        if names
    ]


def play(
    name: str, seconds: float, root: Path = ROOT, flags: Sequence[str] = ()
) -> tuple[str, int]:
    """Play a group, and print what it says; return the outcome and the seconds that it took."""
    begin = time.monotonic()
    command = (sys.executable, "-m", "pytest", "-q", "--color=no", "-m", "slow", *flags, name)
    # Into a file and not through a pipe, which what outlives it would hold open.
    with tempfile.TemporaryFile("w+") as said:
        with subprocess.Popen(command, cwd=root, stdout=said, stderr=subprocess.STDOUT) as run:
            try:
                run.wait(seconds)
            except subprocess.TimeoutExpired:
                run.send_signal(signal.SIGINT)
                try:
                    run.wait(END_S_MAX)
                except subprocess.TimeoutExpired:
                    run.kill()
                outcome = "late"
            else:
                outcome = {0: "passed", 5: "skipped"}.get(run.returncode, "failed")
        said.seek(0)
        text = said.read()
    print(text, end="", flush=True)
    if outcome == "passed" and not re.search(r"\b\d+ passed\b", text):
        outcome = "skipped"
    return outcome, round(time.monotonic() - begin)


def now() -> tuple[str, int]:
    """The name of this commit, and which one it is."""
    git = ("git", "-C", str(ROOT))
    name = subprocess.check_output((*git, "rev-parse", "--short=10", "HEAD"), text=True).strip()
    count = subprocess.check_output((*git, "rev-list", "--count", "HEAD"), text=True)
    return name, int(count)


def told() -> list[str]:
    """What ``make check`` tells of this repository."""
    known, (_, count) = groups(repository_files()), now()
    closed = read(CLOSED_OUTCOMES)
    played = [name for name in known if name in closed]
    return [
        *notices(known, read(OUTCOMES), count),
        *(f"closed: {each}" for each in notices(played, closed, count)),
    ]


def main(words: Sequence[str]) -> int:
    """Play groups; return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.slow", description="Play slow tests.")
    parser.add_argument("--only", default="", help="groups with this in their names")
    parser.add_argument("--one", action="store_true", help="one, another with each commit")
    parser.add_argument("--closed", action="store_true", help="on clusters that are closed")
    parser.add_argument(
        "--seconds", type=float, default=GROUP_S_MAX, help="what a group may take (%(default)s)"
    )
    given = parser.parse_args(words)
    commit, count = now()
    path, flags = (CLOSED_OUTCOMES, ("--closed",)) if given.closed else (OUTCOMES, ())
    outcomes = read(path)
    known = [name for name in groups(repository_files()) if given.only in name]
    if given.closed:
        known = [name for name in known if CLOSED.match(name)]
    if given.one:
        one = choose(known, outcomes, count, given.seconds)
        if one is None:
            print(f"no group of slow tests takes less than the {given.seconds:.0f} s that are left")
            return 0
        turn = [one]
    else:
        done = {name for name, each in outcomes.items() if each.count == count}
        done -= {name for name in done if outcomes[name].outcome in {"failed", "late"}}
        turn = [name for name in longest_ago(known, outcomes) if name not in done]
        outcomes = {name: each for name, each in outcomes.items() if (ROOT / name).is_file()}
    failed = False
    for place, name in enumerate(turn, 1):
        print(f"\n{place} of {len(turn)}: {name}", flush=True)
        outcome, seconds = play(name, given.seconds, flags=flags)
        print(f"{name}: {outcome} after {seconds} s", flush=True)
        failed |= outcome == "failed"
        if not given.one:
            outcomes[name] = Outcome(commit, count, outcome, seconds)
            write(path, outcomes)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
