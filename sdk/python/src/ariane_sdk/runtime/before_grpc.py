"""Settings that grpcio reads when it is imported. A setting that the environment has is left alone.

This package calls by a transport of its own. These are for Spark's connector, which imports it and
calls by grpcio.

*Leave children of this process alone.* grpcio's own fork handlers wake its threads in every child,
also in one that is only about to become another program, as ``subprocess`` makes it with
``preexec_fn``. Closing its files under those threads then ends the child now and then. PySpark
starts its Java process that way.

*Let the thread that waits also read.* By default grpcio uses one thread that waits for sockets,
others that read them, and one that tells the event loop. Two experiments, on by default, do this;
without them one thread does all three. Measured for lone round trips: half of the context switches,
and a seventh less CPU.
"""

from __future__ import annotations

import os
import re
from importlib import metadata
from typing import Final

EXPERIMENTS: Final = "-event_engine_client,-event_engine_listener"
"""The choice, in the syntax of the environment variable GRPC_EXPERIMENTS."""

KNOWN_UNTIL: Final = (1, 86)
"""The first version of gRPC that was not tried: one that knows no such experiments complains."""


def prepare() -> None:
    """Set what the environment has not set."""
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    numbers = re.findall(r"\d+", metadata.version("grpcio"))[:2]
    if tuple(map(int, numbers)) < KNOWN_UNTIL:
        os.environ.setdefault("GRPC_EXPERIMENTS", EXPERIMENTS)


prepare()
