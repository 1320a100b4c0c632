"""Transactions: a half message each, committed at once, and visible to the consumer then."""

from __future__ import annotations

from typing import Final

from peer_bench.loads import Load
from peer_bench.workloads.workload import Workload

WORKLOAD: Final = Workload(
    key="transactions",
    title="transactions, 64 in flight, 1 KiB",
    load=Load("transactions", "", 60_000, 1024, in_flight=64),
    try_count=3_000,
)
