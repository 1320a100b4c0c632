"""Spark's limits for a micro-batch; for Spark 4.0 and 4.1 replacements with the same names.

These have no limits: with them, only the reader itself uses these classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "PASSES_LIMITS",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
]

PASSES_LIMITS = True
"""Whether Spark passes a limit, and the start, to ``latestOffset``."""

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
        from ariane_spark.source.limits_of_spark_41 import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxBytes,
            ReadMaxRows,
            ReadMinRows,
            SupportsTriggerAvailableNow,
        )

        PASSES_LIMITS = False
