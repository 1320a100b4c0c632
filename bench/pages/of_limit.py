"""How near a row beside a peer comes to its limit: what the machine does with the same bytes.

The limit of a row is the fastest that was measured without a queue for the same work in the same
run: bare gRPC calls or a bare gRPC stream, of which there is always one; writing and flushing where
that is asked for. Of times it is what a lone bare call takes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "peers"))

from peer_bench.contenders.limits import LIMIT_NAMES
from peer_bench.workloads import WORKLOADS

LIMITS = tuple(LIMIT_NAMES.values())
_NEAREST = tuple(LIMIT_NAMES[kind] for kind in ("grpc", "stream", "flush"))
_TITLES = {workload.key: workload.title for workload in WORKLOADS}
_CONSUMED = {title: workload.key for workload in WORKLOADS for title in workload.consuming.values()}
_KINDRED = {
    _TITLES["topics-batches"]: _TITLES["batches"],
    _TITLES["topics-singles"]: _TITLES["singles-1024"],
    _TITLES["topics-peers"]: _TITLES["singles-1024"],
}
_LONE = _TITLES["singles-1"]
_SPARK = "Spark: "
_COLUMNS = next(title for title, key in _CONSUMED.items() if key == "batches" and "col" in title)


def fraction(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> float | None:
    """The fraction of its limit's speed that our side of a row reaches; none without a limit."""
    if row["unit"] == "ms":
        a_second = _fastest(_LONE, rows)
        return 1000 / a_second / row["ours"] if a_second else None
    if row["unit"] not in {"msg/s", "rows/s"}:
        return None
    work = _COLUMNS if row["work"].startswith(_SPARK) else _KINDRED.get(row["work"], row["work"])
    limit = _fastest(work, rows)
    return row["ours"] / limit if limit else None


def _fastest(work: str, rows: Sequence[Mapping[str, Any]]) -> float:
    """What the fastest of the nearest limits does at a work; 0 where none was measured."""
    return max(
        (row["theirs"] for row in rows if row["work"] == work and row["against"] in _NEAREST),
        default=0.0,
    )
