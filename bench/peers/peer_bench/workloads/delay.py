"""Delayed messages at a fixed rate: how long after its delivery time each reaches the listener."""

from __future__ import annotations

from typing import Final

from peer_bench.loads import Load
from peer_bench.readings import PERCENTILES
from peer_bench.workloads.workload import Workload

WORKLOAD: Final = Workload(
    key="delay",
    title="lateness of delayed messages at 2,000 a second, 1 KiB",
    load=Load("singles", "", 0, 1024, rate=2000, delay_ms=1500),
    sent=PERCENTILES,
)
