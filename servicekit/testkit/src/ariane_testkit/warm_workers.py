"""The daemon from which Spark forks its Python workers, with their modules loaded beforehand.

In tests most workers live for one task or one plan, and would spend half a second of a core on
imports. Spark starts this with ``spark.python.daemon.module``; as with its own daemon, the first
argument is the module of the workers.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

from pyspark import daemon

MODULES: Final = (
    *("pyarrow.compute", "pyspark.sql.pandas.types", "pyspark.worker"),
    *("ariane_record.decoding.arrow", "ariane_record.encoding.columns.arrow_texts"),
    *("ariane_sdk.message_tables", "pyspark_ariane.default_source"),
    *("ariane_spark.options.early_checks", "ariane_spark.records.rows"),
    *("ariane_spark.sink.batch_writer", "ariane_spark.source.batch_reader"),
    "ariane_spark.source.stream_reader",
)


def main() -> None:
    """Load the modules, and serve Spark until it ends."""
    os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
    for module in (*MODULES, *sys.argv[1:2]):
        import_module(module)
    threads = list(Path("/proc/self/task").iterdir())
    assert len(threads) == 1, "forked workers would lack threads"  # noqa: S101 - a tool of tests
    daemon.manager()


if __name__ == "__main__":
    main()
