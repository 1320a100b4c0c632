"""Excludes loaded modules from garbage collections.

A worker of Spark collects all garbage behind every task, whatever the task was. With this client,
gRPC and Arrow loaded that is 100,000 objects to look at, none of which ever goes: 40 ms of a core
for each task of each micro-batch, more than reading a small one costs.
"""

from __future__ import annotations

import gc
import sys
from typing import Final

_MODULES_PER_COLLECTION: Final = 16
"""So many new modules are worth another look at everything; fewer are left to be looked at."""

_seen_count = 0


def spare_modules() -> bool:
    """Leave all objects there are to reference counting alone, if many modules are new.

    Cheap when there is nothing new. Garbage is collected first, so that none is kept.

    Returns:
        Whether there was something new.
    """
    global _seen_count  # noqa: PLW0603 - modules and garbage are the process's, not an object's.
    count = len(sys.modules)
    if count < _seen_count + _MODULES_PER_COLLECTION:
        return False
    _seen_count = count
    gc.collect()
    gc.freeze()
    return True
