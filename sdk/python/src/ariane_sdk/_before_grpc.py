"""What must be said to gRPC before it is imported: leave children of this process alone.

gRPC's own fork handlers wake its threads in every child, also in one that is only about to become
another program, as ``subprocess`` makes it with ``preexec_fn``. Closing its files under those
threads then ends the child now and then. PySpark starts its Java process that way, so that a
program which had sent a message could fail to start Spark. Children that want to be clients are
looked after by ``_fork``.
"""

from __future__ import annotations

import os

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
