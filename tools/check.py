"""Everything that can be judged without running the project: ``make check``.

    python -m tools.check            # all steps
    python -m tools.check types tidy # some of them

Each step prints one line with its time. The first failure's output follows in full at the end; one
thing to mend at a time reads better than nine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools import slow
from tools.workspace import ROOT, hand_written_packages

BIN: Final = Path(sys.executable).parent


@dataclass(frozen=True, slots=True)
class Step:
    """One judge: its name, what it looks at, and the command that asks it."""

    name: str
    what: str
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one judge said."""

    step: Step
    failed: bool
    seconds: float
    output: str


PROGRAMS: Final = (
    "flight_demo",
    "flight_year",
    "message_soak",
    "partition_soak",
    "peer_bench",
    "played_world",
)
"""Packages below integration/ and bench/, which nobody installs."""


def steps() -> list[Step]:
    """All steps, in the order in which failures are told."""
    names = (*hand_written_packages(), *PROGRAMS, "tools")
    packages = [word for name in names for word in ("-p", name)]
    ruff, mypy, lint_imports = (str(BIN / name) for name in ("ruff", "mypy", "lint-imports"))
    return [
        Step("format", "ruff's formatter", (ruff, "format", "--check", ".")),
        Step("lint", "ruff's rules", (ruff, "check", "--quiet", ".")),
        Step("types", "mypy, strict", (mypy, *packages)),
        Step("imports", "who may import whom", (lint_imports, "--no-logo")),
        Step("proto-format", "buf's formatter", module("tools.protos", "format")),
        Step("proto-lint", "buf's rules and comments", module("tools.protos", "lint")),
        Step("proto-breaking", "contract against baseline", module("tools.protos", "breaking")),
        Step("proto-stale", "generated code up to date", module("tools.protos", "stale")),
        Step("docs", "pages made from the code", module("tools.reference", "stale")),
        Step("tidy", "our own rules", module("tools.tidy")),
    ]


def module(name: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs a module with this Python."""
    return (sys.executable, "-m", name, *arguments)


def main(names: Sequence[str]) -> int:
    """Run the named steps, or all; return the exit status."""
    known = steps()
    unknown = set(names) - {step.name for step in known}
    if unknown:
        print(f"no such step: {', '.join(sorted(unknown))}; {', '.join(s.name for s in known)}")
        return 2
    chosen = [step for step in known if not names or step.name in names]
    begin = time.monotonic()
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        # Printed as they come, told in order: mypy takes as long as all others together.
        verdicts = list(pool.map(judge, chosen))
    failures = [verdict for verdict in verdicts if verdict.failed]
    if failures:
        first = failures[0]
        print(f"\n{first.step.name} ({first.step.what}) says:\n\n{first.output.rstrip()}\n")
        print(f"check: {len(failures)} of {len(chosen)} failed: ", end="")
        print(", ".join(verdict.step.name for verdict in failures))
        return 1
    for notice in slow.told():
        print(f"  note  {notice}")
    print(f"check: {len(chosen)} of {len(chosen)} passed in {time.monotonic() - begin:.1f} s")
    return 0


def judge(step: Step) -> Verdict:
    """Run one step and print its line."""
    begin = time.monotonic()
    done = subprocess.run(
        step.command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - begin
    mark = "FAIL" if done.returncode else "ok"
    print(f"  {mark:<5} {step.name:<15} {seconds:6.1f} s   {step.what}", flush=True)
    return Verdict(step, bool(done.returncode), seconds, done.stdout)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
