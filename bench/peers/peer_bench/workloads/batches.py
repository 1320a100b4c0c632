"""Bursts of explicit batches of objects, 1 MB each or 128 KB, and the backlog that they leave."""

from __future__ import annotations

from typing import Final

from peer_bench.loads import Load
from peer_bench.workloads.workload import Workload

WORKLOADS: Final = (
    Workload(
        key="batches",
        title="burst: explicit batches of 1,000 objects, 1 KiB",
        load=Load("batches", "", 400_000, 1024, in_flight=8, batch=1000),
        try_count=50_000,
        consuming={
            "each": "catch-up consuming, a listener call per message, 1 KiB",
            "listener": "catch-up consuming, a listener call per batch of up to 32, 1 KiB",
            "chunks": "catch-up consuming, columns, 1 KiB",
        },
    ),
    Workload(
        key="batches-4k",
        title="burst: explicit batches of 250 objects, 4 KiB",
        load=Load("batches", "", 120_000, 4096, in_flight=8, batch=250),
        try_count=12_000,
        consuming={
            "listener": "catch-up consuming, a listener call per batch of up to 32, 4 KiB",
            "chunks": "catch-up consuming, columns, 4 KiB",
        },
    ),
    Workload(
        key="batches-128",
        title="burst: explicit batches of 1,000 objects, 128 B",
        load=Load("batches", "", 600_000, 128, in_flight=8, batch=1000),
        try_count=50_000,
        consuming={
            "each": "catch-up consuming, a listener call per message, 128 B",
            "listener": "catch-up consuming, a listener call per batch of up to 32, 128 B",
        },
    ),
)
