"""A primary is killed, and its client sends on: how long until a message is acknowledged again."""

from __future__ import annotations

from typing import Final

from peer_bench.loads import Load
from peer_bench.readings import SECONDS
from peer_bench.workloads.workload import Workload

WORKLOAD: Final = Workload(
    key="failover",
    title="kill of a primary to the first acknowledged send",
    # A schedule of one message: each leg is one kill.
    load=Load("singles", "", 0, 1024, rate=1),
    sent=(SECONDS,),
)
