"""The process that forks Spark's Python workers, with what they import.

Spark ends a worker whose rows nobody wants any more, as after ``first`` or ``show``, and one that
had nothing to do for a minute. The next one is a fork of this process: what is imported here need
not be imported again, which takes longer than reading a few messages, and its memory is shared. No
module here may start a thread, which a fork lacks; those of numpy and Arrow begin theirs anew.

Spark runs one such process for tasks, and one for each kind of planner; see
``spark.python.daemon.module``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final

from pyspark.daemon import manager

from ariane_spark.calls.spared_modules import spare_modules

_OF_WRITERS: Final = (
    "pyspark_ariane.default_source",
    "ariane_spark.options.early_checks",
    "ariane_spark.sink.batch_writer",
)

IMPORTS: Final[Mapping[str, Sequence[str]]] = {
    "pyspark.worker": (
        "pyspark.sql.worker.plan_data_source_read",
        "ariane_record.decoding.arrow",
        "ariane_record.encoding.columns.column_encoder",
        "ariane_sdk.message_tables",
        "ariane_sdk.sync",
        "ariane_spark.calls.connection",
        "ariane_spark.sink.batch_writer",
        "ariane_spark.source.batch_reader",
        "ariane_spark.source.stream_reader",
    ),
    "pyspark.sql.worker.create_data_source": (
        "pyspark_ariane.default_source",
        "ariane_spark.options.early_checks",
        "ariane_spark.records.columns",
    ),
    "pyspark.sql.worker.plan_data_source_read": (
        "pyspark_ariane.default_source",
        "ariane_spark.options.early_checks",
        "ariane_spark.source.batch_reader",
        "ariane_spark.source.stream_reader",
    ),
    "pyspark.sql.worker.write_into_data_source": _OF_WRITERS,
    "pyspark.sql.worker.commit_data_source_write": _OF_WRITERS,
    "pyspark.sql.worker.python_streaming_sink_runner": _OF_WRITERS,
}
"""What Spark has tasks run, and planners: modules that bring along all that each of them needs."""


def import_all(worker: str) -> None:
    """Import a worker and what it needs; nothing for workers that do nothing for queues."""
    for name in (worker, *IMPORTS[worker]) if worker in IMPORTS else ():
        import_module(name)
    if worker == "pyspark.worker":
        # Arrow imports pandas, where it is installed, with its first array of Python's values.
        import_module("pyarrow").array([0])
    spare_modules()


if __name__ == "__main__":
    import_all(sys.argv[1])
    manager()
