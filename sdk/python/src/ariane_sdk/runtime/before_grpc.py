"""What must be said to gRPC before it is imported. What the environment says goes first.

*Leave children of this process alone.* gRPC's own fork handlers wake its threads in every child,
also in one that is only about to become another program, as ``subprocess`` makes it with
``preexec_fn``. Closing its files under those threads then ends the child now and then. PySpark
starts its Java process that way, so that a program which had sent a message could fail to start
Spark. Children that want to be clients are looked after by ``_fork``.

*Let the thread that waits also read.* By default one thread of gRPC waits for sockets, others read
them, and one more tells the event loop of it. Two experiments, on by default, make it so; without
them the last of these threads does it all, as it did in older versions. Measured for lone round
trips: half of the context switches, and a seventh less CPU. Services choose the same.
"""

from __future__ import annotations

import os
import re
from importlib import metadata
from typing import Final

EXPERIMENTS: Final = "-event_engine_client,-event_engine_listener"
"""The choice, as the environment variable GRPC_EXPERIMENTS says it."""

KNOWN_UNTIL: Final = (1, 86)
"""The first version of gRPC that was not tried: one that knows no such experiments complains."""


def prepare() -> None:
    """Say it."""
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    numbers = re.findall(r"\d+", metadata.version("grpcio"))[:2]
    if tuple(map(int, numbers)) < KNOWN_UNTIL:
        os.environ.setdefault("GRPC_EXPERIMENTS", EXPERIMENTS)


prepare()
