"""Columns of small messages: Arrow tables go in, and record batches come out."""

from __future__ import annotations

from typing import Final

from peer_bench.loads import Load
from peer_bench.workloads.workload import Workload

WORKLOAD: Final = Workload(
    key="columns",
    title="columns of 128 B",
    load=Load("columns", "", 2_000_000, 128, in_flight=4, batch=1000),
    try_count=200_000,
    consuming={"chunks": "catch-up consuming, columns, 128 B"},
)
