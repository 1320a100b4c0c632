"""The process that forks Spark's Python workers, with what they import.

Spark ends a worker whose rows nobody wants any more, as after ``first`` or ``show``, and one that
had nothing to do for a minute. The next one is a fork of this process: what is imported here need
not be imported again, which takes longer than reading a few messages, and its memory is shared. No
module here may start a thread, which a fork lacks; those of numpy and Arrow begin theirs anew.

Planners beside the driver are forks of Spark's own process, whatever the setting says, and import
what they need the first time.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

from pyspark.daemon import manager

from ariane_spark.calls.spared_modules import spare_modules

IMPORTS: Final = (
    "pyspark.worker",
    "pyspark.sql.worker.plan_data_source_read",
    "ariane_record.decoding.arrow",
    "ariane_record.encoding.columns.column_encoder",
    "ariane_sdk.message_tables",
    "ariane_sdk.sync",
    "ariane_spark.calls.connection",
    "ariane_spark.sink.batch_writer",
    "ariane_spark.source.batch_reader",
    "ariane_spark.source.stream_reader",
)
"""Modules that bring along all that tasks need."""


def import_all() -> None:
    """Import what tasks need."""
    for name in IMPORTS:
        import_module(name)
    # Arrow imports pandas, where it is installed, with its first array of Python's values.
    import_module("pyarrow").array([0])
    spare_modules()


if __name__ == "__main__":
    if sys.argv[1] == "pyspark.worker":  # Others of Spark's workers do nothing for queues.
        import_all()
    manager()
