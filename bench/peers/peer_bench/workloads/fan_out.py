"""Fan-out: four groups consume the same messages at the same time, each all of them."""

from __future__ import annotations

from typing import Final

from peer_bench.loads import Load
from peer_bench.workloads.workload import Workload

WORKLOAD: Final = Workload(
    key="fan-out",
    title="fan-out",
    load=Load("batches", "", 100_000, 1024, in_flight=8, batch=1000, groups=4),
    try_count=20_000,
    sent=(),
    consuming={"listener": "fan-out to 4 groups, a listener call per batch of up to 32, 1 KiB"},
)
