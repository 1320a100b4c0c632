"""Excludes loaded modules from garbage collections.

A worker of Spark collects all garbage after every task. With this client, gRPC and Arrow loaded,
this scans 100,000 objects, none of which is ever freed: 40 ms of a core for each task of each
micro-batch, more than reading a small one costs.
"""

from __future__ import annotations

import gc
import sys
from typing import Final

_MODULES_PER_COLLECTION: Final = 16
"""The number of new modules that is worth another full collection; fewer are still scanned."""

_seen_count = 0


def spare_modules() -> bool:
    """Exclude all present objects from collections, if many modules are new.

    Cheap without new modules. Garbage is collected first, so that none is kept.

    Returns:
        Whether there were many new modules.
    """
    global _seen_count  # noqa: PLW0603 - modules and garbage belong to the process.
    count = len(sys.modules)
    if count < _seen_count + _MODULES_PER_COLLECTION:
        return False
    _seen_count = count
    gc.collect()
    gc.freeze()
    return True
