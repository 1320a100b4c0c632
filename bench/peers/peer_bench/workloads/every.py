"""All workloads, in the order in which they are run and shown."""

from __future__ import annotations

from typing import Final

from peer_bench.workloads import (
    batches,
    broker_cpu,
    columns,
    delay,
    failover,
    fan_out,
    gateway,
    latency,
    receive,
    singles,
    sustained,
    topics,
    transactions,
)
from peer_bench.workloads.workload import Workload

WORKLOADS: Final[tuple[Workload, ...]] = (
    *sustained.WORKLOADS,
    *batches.WORKLOADS,
    *columns.WORKLOADS,
    *singles.WORKLOADS,
    *topics.WORKLOADS,
    fan_out.WORKLOAD,
    receive.WORKLOAD,
    *gateway.WORKLOADS,
    latency.WORKLOAD,
    delay.WORKLOAD,
    transactions.WORKLOAD,
    broker_cpu.WORKLOAD,
    failover.WORKLOAD,
)
