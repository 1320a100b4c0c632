"""Many topics: the same messages to 256 topics in turn, beside one topic, or 256 of a peer's.

Beside peers the topics of all legs are the same ones, as they would be for an application: else
what a server does for a queue's first message would be all that is measured of 1,024 new ones.
"""

from __future__ import annotations

from typing import Final

from peer_bench.loads import Load
from peer_bench.workloads.workload import Workload

TOPICS: Final = 256

WORKLOADS: Final = (
    Workload(
        key="topics-batches",
        title="256 topics over 1, explicit batches of 1,000 objects, 1 KiB",
        load=Load("batches", "", 400_000, 1024, in_flight=8, batch=1000, topics=TOPICS),
        try_count=50_000,
    ),
    Workload(
        key="topics-singles",
        title="256 topics over 1, single sends, 1,024 in flight, 1 KiB",
        load=Load("singles", "", 300_000, 1024, in_flight=1024, topics=TOPICS),
        try_count=30_000,
    ),
    Workload(
        key="topics-peers",
        title="256 topics, single sends, 1,024 in flight, 1 KiB",
        load=Load(
            "singles", "", 300_000, 1024, in_flight=1024, topics=TOPICS, group="bench-lasting"
        ),
        try_count=30_000,
    ),
)
