"""Processes as Spark's Python workers are: forks of one that has imported what tasks need.

Each reads a topic and writes to another one for some micro-batches, says that it is done, and waits
with its connections open until the input of this process ends.
"""

from __future__ import annotations

import os
import sys

from ariane_spark.worker_daemon import import_all
from pyspark_ariane import DefaultSource

MICRO_BATCHES = 3


def work(number, endpoints, source, target, delivery):
    """What Spark has a worker do, in each micro-batch for a new plan."""
    for batch_id in range(MICRO_BATCHES):
        topic = DefaultSource({"endpoints": endpoints, "topic": source, "columns": "body"})
        schema = topic.schema()
        reader = topic.reader(schema)
        (partition,) = reader.partitions()
        batches = list(reader.read(partition))
        where = {"endpoints": endpoints, "topic": target, "deliveryGuarantee": delivery}
        running = {"query": f"query-{number}", "batchId": str(batch_id)}
        given = where | (running if delivery == "exactly-once" else {})
        schema = DefaultSource(
            {"endpoints": endpoints, "topic": source, "columns": "body"}
        ).schema()
        writer = DefaultSource(given).writer(schema, overwrite=False)
        writer.commit([writer.write(iter(batches))])


def main(count, *arguments):
    """Fork so many, and end with the input."""
    import_all()
    reports, report = os.pipe()
    goes_on, go_on = os.pipe()
    for number in range(int(count)):
        if os.fork() == 0:
            os.close(go_on)
            status = 1
            try:
                work(number, *arguments)
                os.write(report, b".")
                os.read(goes_on, 1)  # Ends when the first process does.
                status = 0
            finally:
                os._exit(status)
    os.close(report)
    done = 0
    while done < int(count) and (some := os.read(reports, int(count))):
        done += len(some)
    sys.stdout.write(f"{done}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
