"""The command line of the soak."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import shutil
import sys
import tempfile
import time
from pathlib import Path

from unplugged_disk import why_not

from ariane_record.counted import counted
from ariane_servicekit.errors import ProcessFailed
from ariane_testkit.closed_clusters import close_all_clusters
from message_soak.clocks import why_no_jumps
from message_soak.crew import MemberFailed
from message_soak.run import Plan, Report, Soak

EPILOG = """\
example:
  python integration/soak --minutes 5 --seed 7 --keep out/soak
exit status: 0 every promise was kept, 1 one was not, 130 interrupted
"""


def main() -> int:
    """Run one soak; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="soak",
        description="Two name servers, three brokers, ten producers and twenty-four consumers in"
        " six groups, one of which receives, restarted and killed for minutes; then every message"
        " is accounted for.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="how long (default: 5)")
    parser.add_argument("--seed", type=int, help="repeat the disturbances of an earlier run")
    parser.add_argument("--rate", type=float, default=100.0, help="messages a second by producer")
    parser.add_argument(
        "--power-cuts",
        action="store_true",
        help="brokers lose power, too, on disks of their own, and flush synchronously; needs root",
    )
    parser.add_argument(
        "--clock-jumps",
        action="store_true",
        help="the clock of brokers jumps by seconds, hours or days, too, and is right again",
    )
    parser.add_argument(
        "--closed", action="store_true", help="all speak TLS, and serve whom they know"
    )
    parser.add_argument("--keep", type=Path, help="keep stores, ledgers and logs in this folder")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    asked = parser.parse_args()
    if asked.keep is not None and asked.keep.exists():
        parser.error(f"{asked.keep} exists; name a folder that does not")
    if asked.power_cuts and why_not():
        parser.error(f"--power-cuts: {why_not()}")
    if asked.clock_jumps and why_no_jumps():
        parser.error(f"--clock-jumps: {why_no_jumps()}")
    seed = secrets.randbits(32) if asked.seed is None else asked.seed
    folder = asked.keep or Path(tempfile.mkdtemp(prefix="ariane-soak-"))
    if asked.closed:
        certificates = folder / "certificates"
        certificates.mkdir(parents=True)
        close_all_clusters(certificates)
    plan = Plan(
        folder=folder,
        duration_s=asked.minutes * 60,
        seed=seed,
        rate=asked.rate,
        power_cuts=asked.power_cuts,
        clock_jumps=asked.clock_jumps,
    )
    began = time.monotonic()

    def say(words: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {words}", file=sys.stderr, flush=True)

    say(f"seed {seed}, {asked.minutes:g} min, everything in {folder}")
    try:
        report = asyncio.run(Soak(plan, say).run())
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    except (MemberFailed, ProcessFailed) as failure:
        say(f"failed: {failure}")
        say(f"seed {seed}; logs and ledgers are in {folder}")
        return 1
    print(report.to_json() if asked.output == "json" else "\n".join(text(report)))
    if report.holds and asked.keep is None:
        shutil.rmtree(folder)
    elif not report.holds:
        say(f"not every promise was kept; seed {seed}; logs and ledgers are in {folder}")
    return 0 if report.holds else 1


def text(report: Report) -> list[str]:
    """The report for people."""
    stopped = ", ".join(f"{count} x {what}" for what, count in report.disturbances.items())
    lines = [
        f"seed {report.seed}, {report.duration_s:.0f} s; {stopped}",
        f"{report.acknowledged:,} of {report.intended:,} messages acknowledged",
        f"{report.unknown:,} without an outcome, {report.refused:,} refused",
        f"consumers stood still for {report.late_s:.1f} s at most",
    ]
    lines += [
        f"{group.group:18} {group.received:>9,} received, {counted(group.repeated, 'repeat')}"
        f" (at most {group.repeats_max:,})"
        for group in report.groups
    ]
    lines += [sentence for group in report.groups for sentence in group.sentences()]
    lines += report.faults
    lines.append("Every promise was kept." if report.holds else "NOT every promise was kept.")
    return lines
