"""RocketMQ 5's own client: single sends, and receiving with an acknowledgement for each message.

Topic and group are the same in all legs: a client that is told of a new one asks for its route.
"""

from __future__ import annotations

from typing import Final

from peer_bench.loads import Load
from peer_bench.readings import RATE, SERVERS_BESIDE
from peer_bench.workloads.workload import Workload

_READ: Final = (RATE, SERVERS_BESIDE)

WORKLOADS: Final = (
    Workload(
        key="gateway-1",
        title="RocketMQ 5's client: single sends, one at a time, 1 KiB",
        load=Load("singles", "", 10_000, 1024, group="bench-lasting"),
        try_count=1000,
        sent=_READ,
    ),
    Workload(
        key="gateway-64",
        title="RocketMQ 5's client: single sends, 64 in flight, 1 KiB",
        load=Load("singles", "", 50_000, 1024, in_flight=64, group="bench-lasting"),
        try_count=5000,
        sent=_READ,
        consuming={"receive": "receiving by RocketMQ 5's client, acknowledging each, 1 KiB"},
        received=_READ,
    ),
)
