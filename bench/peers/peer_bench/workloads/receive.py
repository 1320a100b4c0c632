"""Receiving: one consumer that owns no queues gets all messages, and acknowledges them."""

from __future__ import annotations

from typing import Final

from peer_bench.loads import Load
from peer_bench.workloads.workload import Workload

WORKLOAD: Final = Workload(
    key="receive",
    title="receiving",
    load=Load("batches", "", 400_000, 1024, in_flight=8, batch=1000),
    try_count=100_000,
    sent=(),
    consuming={"receive": "receiving and acknowledging without owning queues, 1 KiB"},
)
