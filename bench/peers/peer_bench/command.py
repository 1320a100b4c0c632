"""The command: which peers, how many pairs, and what is kept."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peer_bench.errors import PeerUnavailable
from peer_bench.peers import Peer
from peer_bench.places import ROOT
from peer_bench.plan import Bout, Forecast, bouts_of
from peer_bench.registry import PEERS
from peer_bench.results import (
    ROWS_PATH,
    Row,
    keep_rows,
    keep_runs,
    machine,
    now,
    read_runs,
    table_of,
)
from peer_bench.run import QUICK, TINY, WHOLE, Duel, Extent
from peer_bench.workloads import WORKLOADS

QUICK_S_MAX = 270.0
"""A quick run begins with nothing that would end later."""
WHOLE_S_MAX = 40 * 60.0
"""Of a run that would take longer, the legs are shorter."""
LEG_SHARE_MIN = 0.4
PAGE_PATH = ROOT / "bench" / "page.py"
FREE_BYTES_MIN = 15 << 30
_STOPPED = 130


@dataclass(slots=True)
class Session:
    """One run of the command.

    Attributes:
        extent: How much of everything.
        quick: Whether there is little time.
        dry: Whether nothing is kept.
        rows: What was measured.
        failed: Whether something failed.
    """

    extent: Extent
    quick: bool
    dry: bool
    rows: list[Row] = field(default_factory=list)
    failed: bool = False
    _begin: float = field(default_factory=time.monotonic)

    def run(self, bouts: Sequence[Bout]) -> None:
        """Run bouts in turn; each is kept when it is done, whatever becomes of the next."""
        forecast = Forecast(bouts, self.extent, read_runs())
        gone: set[str] = set()
        for number, bout in enumerate(bouts, start=1):
            if bout.peer.key in gone:
                continue
            left = f"about {max(forecast.left_s, 0) / 60:.0f} min left"
            where = f"[{number}/{len(bouts)}] {bout.peer.key}: {bout.workload.key}"
            print(f"{where} ... ({self.taken_s / 60:.1f} min gone, {left})", flush=True)
            if self.quick and self.taken_s + bout.expected_s(self.extent) > QUICK_S_MAX:
                print("  skipped: no time was left in a quick run")
                self._keep([], bout.peer, {"skipped": "no time was left in a quick run"})
                continue
            begin = time.monotonic()
            try:
                rows, run = run_bout(bout, self._extent_in_time(forecast))
            except PeerUnavailable as error:
                print(f"  skipped: {error}")
                self._keep([], bout.peer, {"skipped": str(error)})
                gone.add(bout.peer.key)
                forecast.drop(bout.peer)
                continue
            except Exception as error:  # noqa: BLE001 - one fault must not cost all the others.
                traceback.print_exc()
                self.failed = True
                self._keep([], bout.peer, {"failed": {bout.workload.key: str(error)}})
                rows, run = [], {}
            seconds = time.monotonic() - begin
            forecast.took(bout, seconds)
            if rows:
                run["took_s"] = {bout.workload.key: {str(self.extent.pairs): round(seconds, 1)}}
                self._keep(rows, bout.peer, run)
            for row in rows:
                print(f"  {row.work}: {row.ratio:.2f}{' LOST' if row.lost else ''}", flush=True)

    @property
    def taken_s(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._begin

    @property
    def status(self) -> int:
        """How the process ends: 1 after a failure or a loss of ours."""
        return 1 if self.failed or any(row.lost for row in self.rows) else 0

    def _extent_in_time(self, forecast: Forecast) -> Extent:
        """As much as fits, no fewer pairs, and no shorter warm-up."""
        fitting = (WHOLE_S_MAX - self.taken_s) / max(forecast.left_s, 1.0)
        share = min(max(fitting, LEG_SHARE_MIN), 1.0)
        return self.extent._replace(leg_s=self.extent.leg_s * share)

    def _keep(self, rows: Sequence[Row], peer: Peer, run: dict[str, Any]) -> None:
        self.rows.extend(rows)
        if self.dry:
            return
        keep_rows(rows)
        head = {"when": now(), "machine": machine(), "quick": self.quick}
        keep_runs({peer.key: {**head, **run}})
        subprocess.run([sys.executable, str(PAGE_PATH)], check=True, stdout=subprocess.DEVNULL)


def run_bout(bout: Bout, extent: Extent) -> tuple[list[Row], dict[str, Any]]:
    """Run us beside one peer at one work, on empty stores; rows, and what they were made from.

    Raises:
        PeerUnavailable: The peer cannot be had or started.
        BenchError: Something else failed.
    """
    peer = bout.peer
    with (
        tempfile.TemporaryDirectory(prefix="ariane-peers-", ignore_cleanup_errors=True) as folder,
        peer.running(Path(folder) / peer.key) as theirs,
        peer.ours(Path(folder) / "ours") as us,
    ):
        duel = Duel(us, theirs, bout.part, bout.workload, extent)
        duel.warm_up(peer.warm_up_s)
        measured = duel.measure()
        disk_bytes = _bytes_in(Path(folder))
        print(f"  {disk_bytes / 2**30:.1f} GiB on the disk", flush=True)
        run: dict[str, Any] = {
            "contenders": {
                side.name: {"settings": side.settings, "versions": side.versions}
                for side in (us, theirs)
            },
            "legs": [leg for each in measured for leg in each.legs()],
        }
        return [each.row(us, theirs) for each in measured], run


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and keep; returns the exit status."""
    asked = _parser().parse_args(arguments)
    # Whoever ends this process ends the servers of peers too: contexts are left in order.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if shutil.disk_usage(tempfile.gettempdir()).free < FREE_BYTES_MIN:
        print(f"less than {FREE_BYTES_MIN >> 30} GiB are free in {tempfile.gettempdir()}")
        return 2
    extent = TINY if asked.tiny else QUICK if asked.quick else WHOLE
    extent = extent._replace(pairs=asked.pairs or extent.pairs)
    session = Session(extent, quick=asked.quick, dry=asked.dry or asked.tiny)
    try:
        session.run(bouts_of(PEERS, quick=asked.quick, only=asked.only))
    except KeyboardInterrupt:
        print("\nstopped; what was measured is kept")
        return _STOPPED
    print(table_of(session.rows))
    print(f"\n{session.taken_s:.0f} s{'' if session.dry else f'; kept in {ROWS_PATH}'}")
    return session.status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench/peers", description=(__doc__ or "").splitlines()[0]
    )
    keys = [peer.key for peer in PEERS] + [workload.key for workload in WORKLOADS]
    parser.add_argument("--quick", action="store_true", help="fewer pairs, fewer messages")
    parser.add_argument("--pairs", type=int, default=0, help=f"pairs (default {WHOLE.pairs})")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        choices=keys,
        metavar="KEY",
        help=f"this peer or work, others stay as they are; repeatable: {', '.join(keys)}",
    )
    parser.add_argument("--dry", action="store_true", help="keep nothing")
    # Whether everything runs at all: one pair of a few messages, of which nothing is kept.
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)
    return parser


def _bytes_in(folder: Path) -> int:
    """What files take on the disk."""
    taken = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                taken += (Path(place) / name).stat().st_blocks * 512
            except OSError:
                continue  # Servers remove files meanwhile.
    return taken
