"""The command line of the runs."""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from unplugged_disk import why_not as why_no_power_losses

from ariane_record.counted import counted
from ariane_servicekit.errors import ProcessFailed
from ariane_testkit.postgresql import PostgresqlUnavailable
from partition_soak.group import NotHealed
from partition_soak.network import why_not
from partition_soak.run import RunReport, soak

EPILOG = """\
example:
  python integration/partitions --seeds 20 --seed 7 --keep out/partitions
exit status: 0 nothing was found, 1 something was, 130 interrupted
"""


def main() -> int:
    """Run seeds; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="partitions",
        description="Three brokers of one name in network namespaces. Each seed kills and pauses"
        " them, cuts them apart and takes their power; then the log is looked through for what"
        " Jepsen names.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=int, default=10, help="how many runs (default: 10)")
    parser.add_argument("--seed", type=int, help="the first one; those that follow are next to it")
    parser.add_argument(
        "--no-power-losses",
        action="store_true",
        help="no broker loses power; they flush asynchronously",
    )
    parser.add_argument("--keep", type=Path, help="keep stores and logs in this folder")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    asked = parser.parse_args()
    if asked.keep is not None and asked.keep.exists():
        parser.error(f"{asked.keep} exists; name a folder that does not")
    reason = why_not() or ("" if asked.no_power_losses else why_no_power_losses())
    if reason:
        parser.error(reason)
    first = secrets.randbits(30) if asked.seed is None else asked.seed
    folder = asked.keep or Path(tempfile.mkdtemp(prefix="ariane-partitions-"))
    began = time.monotonic()

    def say(words: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {words}", file=sys.stderr, flush=True)

    say(f"seeds {first} to {first + asked.seeds - 1}, everything in {folder}")
    seeds = range(first, first + asked.seeds)
    try:
        reports = asyncio.run(soak(folder, seeds, power_losses=not asked.no_power_losses, say=say))
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    except (NotHealed, ProcessFailed, PostgresqlUnavailable) as failure:
        say(f"failed: {failure}")
        say(f"logs are in {folder}")
        return 1
    holds = all(report.holds for report in reports)
    print(as_json(reports) if asked.output == "json" else "\n".join(text(reports)))
    if holds and asked.keep is None:
        shutil.rmtree(folder)
    elif not holds:
        say(f"something was found; seed {reports[-1].seed}; logs and stores are in {folder}")
    return 0 if holds else 1


def as_json(reports: list[RunReport]) -> str:
    """The reports for machines."""
    return json.dumps(
        [
            {
                "seed": one.seed,
                "faults": one.faults,
                "counts": dict(one.counts),
                "stored": one.stored,
                "unknown": one.unknown,
                "refused": one.refused,
                "polled": one.polled,
                "elections": one.epochs,
                "found": [str(each) for each in one.found],
            }
            for one in reports
        ],
        indent=2,
    )


def text(reports: list[RunReport]) -> list[str]:
    """The reports for people."""
    counts: Counter[str] = Counter()
    for report in reports:
        counts.update(report.counts)
    faults = ", ".join(f"{count} x {what}" for what, count in sorted(counts.items()))
    lines = [
        (
            f"{counted(len(reports), 'run')},"
            f" {counted(sum(one.epochs for one in reports), 'election')}"
        ),
        faults,
        (
            f"messages: {sum(one.stored for one in reports):,} acknowledged,"
            f" {sum(one.unknown for one in reports):,} without an outcome,"
            f" {sum(one.refused for one in reports):,} refused;"
            f" {sum(one.polled for one in reports):,} read meanwhile"
        ),
    ]
    lines += [f"seed {one.seed}: {each}" for one in reports for each in one.found]
    found = any(one.found for one in reports)
    lines.append("Something was found." if found else "Nothing was lost, changed or seen twice.")
    return lines
