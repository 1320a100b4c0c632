"""The result file: one object for each work and each peer, from which tables and pictures are made.

``latest.json`` has the rows. ``peers.json`` has what stands behind them, by peer: CPU time and
memory of both sides, settings, versions, and who was skipped and why.
"""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from peer_bench.errors import ResultIllegal
from peer_bench.places import RESULTS_PATH

ROWS_PATH: Final = RESULTS_PATH / "latest.json"
RUNS_PATH: Final = RESULTS_PATH / "peers.json"


@dataclass(frozen=True, slots=True)
class Row:
    """One work beside one peer."""

    work: str
    """What was done."""
    ours: float
    """Median of our figures."""
    unit: str
    """Of both figures."""
    against: str
    """Whom, with version."""
    theirs: float
    """Median of their figures."""
    ratio: float
    """Median of the ratios, pair by pair; above 1 is better for us."""
    ratio_min: float
    """The smallest."""
    ratio_max: float
    """The largest."""
    pairs: int
    """How many pairs."""
    floor: float | None
    """Ratio that must be reached, or ``None``."""
    goal: float | None
    """Ratio that is aimed at, or ``None``."""
    lost: int
    """Messages that we lost, altered or did not get acknowledged, in all pairs."""
    when: str
    """UTC, ISO 8601."""
    machine: dict[str, str]
    """What it was measured on."""
    versions: dict[str, str]
    """Of both sides."""

    def check(self) -> None:
        """Refuse figures that cannot be.

        Raises:
            ResultIllegal: They cannot.
        """
        figures = (self.ours, self.theirs, self.ratio, self.ratio_min, self.ratio_max)
        if not all(math.isfinite(figure) and figure > 0 for figure in figures):
            raise ResultIllegal(f"{self.work}: figures are finite and above zero: {figures}")
        if not self.ratio_min <= self.ratio <= self.ratio_max:
            raise ResultIllegal(f"{self.work}: a median lies within its range")
        if self.pairs < 1 or self.lost < 0:
            raise ResultIllegal(f"{self.work}: {self.pairs} pairs, {self.lost} lost")


FIELDS: Final = tuple(field.name for field in fields(Row))
"""The fields of an object in ``latest.json``, in their order."""


def machine() -> dict[str, str]:
    """What figures are measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cores": str(os.cpu_count()),
        "memory": f"{memory:.0f} GiB",
        "kernel": platform.release(),
    }


def now() -> str:
    """The time as it stands in results."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def read_rows(path: Path = ROWS_PATH) -> list[Row]:
    """The rows that are kept; none without a file.

    Raises:
        ResultIllegal: The file is not of the agreed shape.
    """
    if not path.exists():
        return []
    rows = []
    for kept in json.loads(path.read_text()):
        if tuple(kept) != FIELDS:
            raise ResultIllegal(f"{path}: fields are {', '.join(FIELDS)}, not {', '.join(kept)}")
        row = Row(**kept)
        row.check()
        rows.append(row)
    return rows


def keep_rows(rows: Iterable[Row], path: Path = ROWS_PATH) -> list[Row]:
    """Keep rows: each takes the place of the one of the same work and peer; returns all."""
    new = {(row.work, _name_of(row.against)): row for row in rows}
    for row in new.values():
        row.check()
    kept = [new.pop((row.work, _name_of(row.against)), row) for row in read_rows(path)]
    kept.extend(new.values())
    _replace(path, [asdict(row) for row in kept])
    return kept


def side_of(work: str, side: str, legs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all legs of one side at one work say of it, for the record.

    Returns:
        Medians of the processor time in microseconds a message and of the cores that it kept busy,
        the largest memory in bytes, each of clients and of servers, and how many messages did not
        arrive in all legs.
    """

    def median(of: Callable[[Mapping[str, Any]], float]) -> float:
        return round(statistics.median(map(of, legs)), 3)

    return {
        "work": work,
        "side": side,
        "client_cpu_us": median(lambda leg: leg["client"]["cpu_s"] / leg["count"] * 1e6),
        "server_cpu_us": median(lambda leg: leg["server"]["cpu_s"] / leg["count"] * 1e6),
        "cores": median(
            lambda leg: (leg["client"]["cpu_s"] + leg["server"]["cpu_s"]) / leg["seconds"]
        ),
        "client_peak_bytes": max(leg["client"]["peak_bytes"] for leg in legs),
        "server_peak_bytes": max(leg["server"]["peak_bytes"] for leg in legs),
        "lost": sum(leg["lost"] + leg["failures"] for leg in legs),
    }


def keep_runs(runs: Mapping[str, Mapping[str, Any]], path: Path = RUNS_PATH) -> None:
    """Keep what rows were made from, by peer; what was run again takes its place.

    Sides of works that were not run again stay, as their rows do; so does everything of a peer that
    was skipped this time.
    """
    kept = read_runs(path)
    for key, run in runs.items():
        before = kept.get(key, {})
        if "sides" in run:
            kept[key] = _merged(before, run)
        elif "skipped" not in run or "sides" not in before:
            failed = {**before.get("failed", {}), **run.get("failed", {})}
            kept[key] = {**before, **run, **({"failed": failed} if failed else {})}
    _replace(path, kept)


def read_runs(path: Path = RUNS_PATH) -> dict[str, Any]:
    """What is kept of runs; nothing without a file."""
    kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return kept


def _merged(before: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    """A run of some works of a peer, with what is kept of its others."""
    works = {side["work"] for side in run["sides"]}
    merged = {**before, **run}
    merged.pop("skipped", None)
    merged["sides"] = [side for side in before.get("sides", []) if side["work"] not in works]
    merged["sides"] += run["sides"]
    for name in ("contenders", "took_s"):
        if name in run:
            merged[name] = {**before.get(name, {}), **run[name]}
    if "failed" in before:
        done = run.get("took_s", {})
        merged["failed"] = {w: word for w, word in before["failed"].items() if w not in done}
    return merged


def _replace(path: Path, kept: object) -> None:
    """Write a file whole or not at all: a run may be interrupted at any time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(kept, indent=1) + "\n")
    new.replace(path)


def table_of(rows: Sequence[Row]) -> str:
    """Rows as text for people."""
    head = ("work", "ours", "unit", "theirs", "ratio", "range", "floor", "goal", "lost", "against")
    return "\n".join(_line(*cells) for cells in (head, *map(_cells, rows)))


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.work,
        _figure(row.ours),
        row.unit,
        _figure(row.theirs),
        f"{row.ratio:.3g}",
        f"{row.ratio_min:.2g}-{row.ratio_max:.2g}",
        _ratio(row.floor),
        _ratio(row.goal),
        str(row.lost),
        row.against,
    )


def _line(work: str, ours: str, unit: str, theirs: str, *more: str) -> str:
    *ratios, against = more
    figures = "".join(
        f"{cell:>{width}}" for cell, width in zip(ratios, (9, 18, 6, 6, 6), strict=True)
    )
    return f"{work:<70}{ours:>10} {unit:<6}{theirs:>12}{figures}  {against}"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(target: float | None) -> str:
    return "" if target is None else f"{target:g}"


def _name_of(against: str) -> str:
    """A peer's name without its versions."""
    return " ".join(word for word in against.split() if not word[:1].isdigit())
