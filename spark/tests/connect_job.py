"""Copies a topic exactly once under Spark Connect, and fails once. Run by a test, as a process."""

import os
import sys
from pathlib import Path

os.environ["PYSPARK_PYTHON"] = sys.executable

from pyspark.sql import SparkSession

from ariane_spark import foreach_batch_writer


def started(start_query):
    """Start a query; Spark waits ten seconds for its worker, and a busy machine needs more."""
    for _ in range(9):
        try:
            return start_query()
        except Exception as error:
            if "failed to connect back" not in str(error):
                raise
    return start_query()


def main(endpoints: str, source: str, target: str, folder: str) -> None:
    """Start the query three times: without a name, with one to fail after its write, and again."""
    spark = (
        SparkSession.builder.remote("local[2]")
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    failed = Path(folder) / "failed"

    def start(**given: str) -> str | None:
        write = foreach_batch_writer(endpoints, target, delivery="exactly-once", **given)

        def write_and_fail(rows, batch_id):
            write(rows, batch_id)
            if not failed.exists():
                failed.touch()
                raise RuntimeError("after the write")

        def start_query():
            return (
                spark.readStream.format("ariane")
                .options(endpoints=endpoints, topic=source, startingOffsets="earliest")
                .option("maxOffsetsPerTrigger", "300")
                .load()
                .select("body")
                .writeStream.foreachBatch(write_and_fail)
                .option("checkpointLocation", f"{folder}/checkpoint")
                .trigger(availableNow=True)
                .start()
            )

        query = started(start_query)
        try:
            if not query.awaitTermination(120):
                return "not over in time"
        except Exception as error:  # noqa: BLE001 - its text is what counts.
            return str(error)
        return None

    if "'query': is required" in (start() or ""):
        sys.stdout.write("refused\n")
    if "after the write" in (start(query="copies") or ""):
        sys.stdout.write("failed after its write\n")
    if start(query="copies") is None:
        sys.stdout.write("done\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
