"""Explicit batches of 1,000 objects, and the backlog that they leave."""

from __future__ import annotations

from typing import Final

from peer_bench.loads import Load
from peer_bench.workloads.workload import Workload

WORKLOAD: Final = Workload(
    key="batches",
    title="explicit batches of 1,000 objects, 1 KiB",
    load=Load("batches", "", 400_000, 1024, in_flight=8, batch=1000),
    count_quick=50_000,
    consuming={
        "listener": "catch-up consuming, a listener call per batch of up to 32, 1 KiB",
        "chunks": "catch-up consuming, columns, 1 KiB",
    },
)
