"""How far a micro-batch may go, as Spark says it; stand-ins of the same names for Spark 4.1.

Spark 4.1 knows no limits of its own: there the reader asks itself, and nobody else uses these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "TELLS_LIMITS",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
]

TELLS_LIMITS = True
"""Whether Spark hands a limit, and the start, to ``latestOffset``."""

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxBytes,
            ReadMaxRows,
            ReadMinRows,
            SupportsTriggerAvailableNow,
        )
    except ImportError:
        from ariane_spark.limits_of_41 import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxBytes,
            ReadMaxRows,
            ReadMinRows,
            SupportsTriggerAvailableNow,
        )

        TELLS_LIMITS = False
