"""Finds tests that are missing: ``make mutants``.

    python -m tools.mutants                               # 40 of the core, a new choice each day
    python -m tools.mutants --count 200 --seed 7
    python -m tools.mutants --only ariane_storage/recovery

Each mutant is the program with one small wrong change, in a copy of its member's sources that
Python finds first; the checkout is not touched. The tests that are named after the changed module
run first, then all fast tests of the member. A mutant that no test notices is printed at the end:
a test is missing, or the changed code is not needed, or the change changes nothing.

The exit status is 0 when every mutant was noticed, and 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tools.mutants.mutations import Mutation, mutations
from tools.workspace import ROOT, Member, members

CORE: Final = ("ariane_storage", "ariane_broker", "ariane_sdk")
"""The packages in which a mistake costs messages."""
LEFT_OUT: Final = ("testing", "commands", "errors.py", "__init__.py", "__main__.py")
PATIENCE_S: Final = 600.0
"""A mutant that hangs its tests is noticed, too."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mutation of one module."""

    member: Member
    module: Path
    """Below the member's ``src``."""
    mutation: Mutation

    @property
    def place(self) -> str:
        """File and line, as editors open it."""
        folder = self.member.folder.relative_to(ROOT)
        return f"{folder / 'src' / self.module}:{self.mutation.line}"


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a mutant."""

    place: str
    change: str
    noticed: bool
    seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the mutants; return the exit status."""
    asked = _parser().parse_args(arguments)
    every = [mutant for name in CORE for mutant in mutants_of(name) if asked.only in mutant.place]
    if not every:
        print(f"No module of {', '.join(CORE)} has {asked.only!r} in its path.", file=sys.stderr)
        return 2
    chosen = random.Random(asked.seed).sample(every, min(asked.count, len(every)))  # noqa: S311 - a seed to repeat it.
    print(f"mutants: {len(chosen)} of {len(every)}, seed {asked.seed}", file=sys.stderr)
    fates = []
    with ThreadPoolExecutor(asked.workers) as pool:
        futures = [pool.submit(tried, mutant) for mutant in chosen]
        for number, future in enumerate(as_completed(futures), 1):
            fate = future.result()
            fates.append(fate)
            word = "noticed" if fate.noticed else "SURVIVED"
            said = f"{number:4} {word:8} {fate.seconds:5.0f} s  {fate.place}  {fate.change}"
            print(said, file=sys.stderr)
    survivors = sorted((fate for fate in fates if not fate.noticed), key=lambda fate: fate.place)
    if asked.output == "json":
        print(json.dumps([asdict(fate) for fate in fates], indent=2))
    else:
        print(f"Mutants that were noticed: {len(fates) - len(survivors)} of {len(fates)}.")
        for fate in survivors:
            print(f"  {fate.place}: {fate.change}")
    return 1 if survivors else 0


def mutants_of(package: str) -> list[Mutant]:
    """All mutants of a package, in the order of its files and lines."""
    member = next(each for each in members() if package in each.packages)
    source = member.folder / "src"
    modules = sorted(path.relative_to(source) for path in (source / package).rglob("*.py"))
    return [
        Mutant(member, module, mutation)
        for module in modules
        if not any(part in LEFT_OUT for part in module.parts)
        for mutation in mutations((source / module).read_text())
    ]


def tried(mutant: Mutant) -> Fate:
    """Run the tests over one mutant: those of its module, then those of its member."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder) / "src"
        shutil.copytree(
            mutant.member.folder / "src", copy, ignore=shutil.ignore_patterns("__pycache__")
        )
        changed = copy / mutant.module
        changed.write_text(mutant.mutation.applied(changed.read_text()))
        noticed = any(not _pass(tests, copy, Path(folder)) for tests in tests_of(mutant) if tests)
    return Fate(mutant.place, mutant.mutation.said, noticed, time.monotonic() - begin)


def tests_of(mutant: Mutant) -> list[list[Path]]:
    """The tests that are named after the module, then all of the member."""
    tests = mutant.member.folder / "tests"
    return [sorted(tests.rglob(f"test_{mutant.module.stem.removeprefix('_')}*.py")), [tests]]


def _pass(tests: list[Path], source: Path, folder: Path) -> bool:
    command = (
        *(sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow and not spark"),
        *("-p", "no:cacheprovider", "--basetemp", str(folder / "tests"), *map(str, tests)),
    )
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, timeout=PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutants",
        description="Find tests that are missing, by small wrong changes to the core.",
        epilog="example: python -m tools.mutants --count 200 --only ariane_storage/recovery",
    )
    parser.add_argument("--count", type=int, default=40, help="how many mutants; 40")
    parser.add_argument("--seed", type=int, default=int(time.time() // 86400), help="today's day")
    parser.add_argument("--only", default="", help="a part of the path of the modules to change")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="one per core")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    return parser


if __name__ == "__main__":
    sys.exit(main())
