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

from peer_bench.errors import BenchError, PeerUnavailable
from peer_bench.peers import Peer
from peer_bench.places import ROOT
from peer_bench.plan import Bout, Forecast, bouts_of
from peer_bench.processes.memory import use_all_memory
from peer_bench.registry import PEERS
from peer_bench.results import (
    ROWS_PATH,
    Row,
    keep_rows,
    keep_runs,
    machine,
    now,
    read_rows,
    read_runs,
    table_of,
)
from peer_bench.run import QUICK, TINY, WHOLE, Duel, Extent
from peer_bench.workloads import WORKLOADS

QUICK_S_MAX = 270.0
"""A quick run begins with nothing that would end later."""
WHOLE_S_MAX = 74 * 60.0
"""Of a run that would take longer, the legs are shorter."""
LEG_SHARE_MIN = 0.4
FREE_BYTES_MIN = 15 << 30
SUSTAINED_FREE_BYTES_MIN = 60 << 30
_STOPPED = 130


@dataclass(slots=True)
class Session:
    """One run of the command."""

    extent: Extent
    """How much of everything."""
    quick: bool
    """Whether there is little time."""
    dry: bool
    """Whether nothing is kept."""
    rows: list[Row] = field(default_factory=list)
    """What was measured."""
    failed: bool = False
    """Whether something failed."""
    omitted: list[str] = field(default_factory=list)
    """What was skipped or failed, with a word on each."""
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
                self._skip(bout, "no time was left in a quick run", whole=False)
                continue
            if self._lasts(bout) and _free_bytes() < SUSTAINED_FREE_BYTES_MIN:
                word = f"less than {SUSTAINED_FREE_BYTES_MIN >> 30} GiB are free for long legs"
                self._skip(bout, word, whole=False)
                continue
            begin = time.monotonic()
            try:
                rows, run = run_bout(bout, self._extent_in_time(forecast))
            except PeerUnavailable as error:
                self._skip(bout, _in_a_line(error), whole=True)
                gone.add(bout.peer.key)
                forecast.drop(bout.peer)
                continue
            except Exception as error:  # noqa: BLE001 - one fault must not cost all the others.
                traceback.print_exc()
                self._fail(bout, _in_a_line(error))
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

    def _skip(self, bout: Bout, word: str, *, whole: bool) -> None:
        """Pass by one work of a peer, or the whole peer."""
        print(f"  skipped: {word}", flush=True)
        what = bout.peer.key if whole else ", ".join(bout.key)
        self.omitted.append(f"{what}: skipped: {word}")
        self._keep([], bout.peer, {"skipped": word})

    def _lasts(self, bout: Bout) -> bool:
        return bout.workload.sustained and self.extent.lasts

    def _fail(self, bout: Bout, word: str) -> None:
        self.failed = True
        self.omitted.append(f"{', '.join(bout.key)}: failed: {word}")
        self._keep([], bout.peer, {"failed": {bout.workload.key: word}})

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
        # Sides of other works of the peer stay: each says for itself whether there was little time.
        sides = [{**side, "quick": self.quick} for side in run.get("sides", ())]
        kept = {**run, **({"sides": sides} if sides else {})}
        keep_runs({peer.key: {"when": now(), "machine": machine(), **kept}})
        written = subprocess.run(
            [sys.executable, "-m", "bench.pages.benchmarks"],
            cwd=ROOT,
            check=False,
            capture_output=True,
            text=True,
        )
        if written.returncode != 0:
            word = (written.stderr.strip().splitlines() or ["no word"])[-1]
            print(f"  the page was not written: {word}", flush=True)
            self.failed = True


def run_bout(bout: Bout, extent: Extent) -> tuple[list[Row], dict[str, Any]]:
    """Run us beside one peer at one work, on empty stores; rows, and what they were made from.

    Raises:
        PeerUnavailable: The peer cannot be had or started.
        BenchError: Something else failed.
    """
    peer = bout.peer
    extent = extent._replace(leg_s=min(extent.leg_s, peer.leg_s_max))
    with (
        tempfile.TemporaryDirectory(prefix="ariane-peers-", ignore_cleanup_errors=True) as folder,
        peer.running(Path(folder) / peer.key) as theirs,
        peer.ours(Path(folder) / "ours") as us,
    ):
        if bout.workload.sustained and extent.lasts:
            print(f"  {use_all_memory(Path(folder)) >> 20} MiB of memory taken", flush=True)
        duel = Duel(us, theirs, bout.part, bout.workload, extent)
        duel.warm_up(peer.warm_up_s, peer.our_warm_up_s)
        measured = duel.measure()
        disk_bytes = _bytes_in(Path(folder))
        print(f"  {disk_bytes / 2**30:.1f} GiB on the disk", flush=True)
        run: dict[str, Any] = {
            "contenders": {
                side.name: {"settings": side.settings, "versions": side.versions}
                for side in (us, theirs)
            },
            "sides": [side for each in measured for side in each.sides()],
        }
        return [each.row(us, theirs) for each in measured], run


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and keep; returns the exit status."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    bouts = bouts_of(PEERS, quick=asked.quick, only=asked.only)
    word = _check_asked(asked, bouts) or _check_room() or _check_kept()
    if word:
        parser.error(word)
    # Whoever ends this process ends the servers of peers too: contexts are left in order.
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Under nohup a closed terminal is nothing.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda sent, _: sys.exit(128 + sent))
    extent = TINY if asked.tiny else QUICK if asked.quick else WHOLE
    extent = extent._replace(pairs=asked.pairs or extent.pairs)
    session = Session(extent, quick=asked.quick, dry=asked.dry or asked.tiny)
    try:
        session.run(bouts)
    except KeyboardInterrupt:
        print("\nstopped; what was measured is kept")
        return _STOPPED
    print(table_of(session.rows))
    for word in session.omitted:
        print(word)
    print(f"\n{session.taken_s:.0f} s{'' if session.dry else f'; kept in {ROWS_PATH}'}")
    return session.status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench/peers",
        usage="%(prog)s [--quick] [--pairs PAIRS] [--only KEY]... [--dry]",
        description="Measure ourselves and other message queues in turn, on this machine.",
        epilog="example: python bench/peers --quick --only kafka --only latency --dry",
    )
    peers = ", ".join(peer.key for peer in PEERS)
    works = ", ".join(workload.key for workload in WORKLOADS)
    parser.add_argument(
        "--quick", action="store_true", help="fewer pairs, works and messages, short warm-ups"
    )
    parser.add_argument(
        "--pairs", type=_pairs, metavar="PAIRS", help=f"pairs (default {WHOLE.pairs})"
    )
    parser.add_argument(
        "--only",
        action="append",
        type=_key,
        default=[],
        metavar="KEY",
        help="this peer or work, repeatable; others stay as they are."
        f" Peers: {peers}. Works: {works}",
    )
    parser.add_argument("--dry", action="store_true", help="keep nothing")
    # Whether everything runs at all: one pair of a few messages, of which nothing is kept.
    parser.add_argument("--tiny", action="store_true", help=argparse.SUPPRESS)
    return parser


def _pairs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return int(text)


def _key(text: str) -> str:
    if text not in {*(peer.key for peer in PEERS), *(workload.key for workload in WORKLOADS)}:
        raise argparse.ArgumentTypeError(f"{text} is no peer and no work; --help lists them")
    return text


def _check_asked(asked: argparse.Namespace, bouts: Sequence[Bout]) -> str | None:
    """A word, where nothing would be run."""
    if bouts:
        return None
    words = ", ".join(asked.only)
    if bouts_of(PEERS, only=asked.only):
        return f"{words}: none of it is part of a quick run"
    return f"{words}: no such peer does such a work"


def _check_room() -> str | None:
    """A word, where there is no room for the stores of both sides."""
    if _free_bytes() >= FREE_BYTES_MIN:
        return None
    folder = tempfile.gettempdir()
    return f"less than {FREE_BYTES_MIN >> 30} GiB are free in {folder} (TMPDIR chooses another)"


def _free_bytes() -> int:
    return shutil.disk_usage(tempfile.gettempdir()).free


def _check_kept() -> str | None:
    """A word, where what is kept of earlier runs cannot be read, and would stay as it is."""
    try:
        read_rows(ROWS_PATH)
        read_runs()
    except (BenchError, OSError, TypeError, ValueError) as error:
        return f"{ROWS_PATH} or what lies beside it cannot be read: {_in_a_line(error)}"
    return None


def _in_a_line(error: Exception) -> str:
    """What an error says, or what it is; tools say it in many lines."""
    return " ".join(str(error).split()) or type(error).__name__


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
