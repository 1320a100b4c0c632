"""The command: which peers, how many pairs, and what is kept."""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peer_bench.errors import BenchError, PeerUnavailable
from peer_bench.peers import Peer
from peer_bench.places import ROOT
from peer_bench.registry import PEERS
from peer_bench.results import ROWS_PATH, Row, keep_rows, keep_runs, machine, now, table_of
from peer_bench.run import Duel
from peer_bench.workloads import WORKLOADS

PAIRS = 5
PAIRS_QUICK = 2
WARM_UP_S_QUICK = 2.0
QUICK_S_MAX = 240.0
"""After so long a quick run begins with no other peer."""
PAGE_PATH = ROOT / "bench" / "page.py"
FREE_BYTES_MIN = 20 << 30


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and keep; returns the exit status."""
    asked = _parser().parse_args(arguments)
    # Whoever ends this process ends the servers of peers too: contexts are left in order.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    chosen = [peer for peer in PEERS if not asked.only or peer.key in asked.only]
    if shutil.disk_usage(tempfile.gettempdir()).free < FREE_BYTES_MIN:
        print(f"less than {FREE_BYTES_MIN >> 30} GiB are free in {tempfile.gettempdir()}")
        return 2
    pairs = asked.pairs or (PAIRS_QUICK if asked.quick else PAIRS)
    rows: list[Row] = []
    failed = False
    begin = time.monotonic()
    for peer in chosen:
        if asked.quick and time.monotonic() - begin > QUICK_S_MAX:
            runs = {"when": now(), "skipped": "no time was left in a quick run"}
            new_rows: list[Row] = []
            print(f"{peer.key} ...\n  skipped: {runs['skipped']}")
        else:
            new_rows, runs = run_peer(peer, asked.work, pairs=pairs, quick=asked.quick)
        failed = failed or "failed" in runs
        rows.extend(new_rows)
        if not asked.dry:
            # After each peer: what was measured is kept, whatever becomes of the next.
            keep_rows(new_rows)
            keep_runs({peer.key: runs})
            subprocess.run([sys.executable, str(PAGE_PATH)], check=True)
    print(table_of(rows))
    print(f"\n{time.monotonic() - begin:.0f} s", "" if asked.dry else f"; kept in {ROWS_PATH}")
    return 1 if failed or any(row.lost for row in rows) else 0


def run_peer(
    peer: Peer, works: Sequence[str], *, pairs: int, quick: bool
) -> tuple[list[Row], dict[str, Any]]:
    """Run us beside one peer; the rows, and what they were made from."""
    runs: dict[str, Any] = {"when": now(), "machine": machine(), "quick": quick}
    rows: list[Row] = []
    print(f"{peer.key} ...", flush=True)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="ariane-peers-") as folder,
            peer.running(Path(folder) / peer.key) as theirs,
            peer.ours(Path(folder) / "ours") as us,
        ):
            runs["contenders"] = {
                side.name: {"settings": side.settings, "versions": side.versions}
                for side in (us, theirs)
            }
            runs["legs"] = []
            duel = Duel(us, theirs, peer, pairs=pairs, quick=quick)
            warm_up_s = WARM_UP_S_QUICK if quick else peer.warm_up_s
            for workload in WORKLOADS:
                if workload.key not in peer.parts or (works and workload.key not in works):
                    continue
                if quick and not workload.in_quick:
                    continue
                duel.warm_up(workload, warm_up_s)
                for measured in duel.measure(workload):
                    rows.append(measured.row(us, theirs))
                    runs["legs"].extend(measured.legs())
                    print(f"  {rows[-1].work}: {rows[-1].ratio:.2f}", flush=True)
    except PeerUnavailable as error:
        runs["skipped"] = str(error)
        print(f"  skipped: {error}")
    except BenchError as error:
        traceback.print_exc()
        runs["failed"] = str(error)
    return rows, runs


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/peers", description=__doc__.splitlines()[0])
    keys = [peer.key for peer in PEERS]
    work_keys = [workload.key for workload in WORKLOADS]
    parser.add_argument("--quick", action="store_true", help="fewer pairs, fewer messages")
    parser.add_argument("--pairs", type=int, default=0, help=f"pairs (default {PAIRS})")
    parser.add_argument("--only", action="append", choices=keys, help="this peer; repeatable")
    parser.add_argument(
        "--work", action="append", default=[], choices=work_keys, help="this work; repeatable"
    )
    parser.add_argument("--dry", action="store_true", help="keep nothing")
    return parser
