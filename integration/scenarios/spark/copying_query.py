"""Copies a topic exactly once, and fails where a file says so. Run by a test, as a process.

Every third row is for some seconds later, and says in a property for when.

``faults/armed`` names a fault and how many commits to let pass before; whoever strikes renames it.
What fails within the process is started again by it; ``kill -9`` is up to the test.
``faults/order`` has it go on from another checkpoint, or wait for the next order, in the same JVM.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from pathlib import Path

import pyspark
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSourceStreamArrowWriter

from ariane_spark import session
from ariane_spark.sink.batch_writer import stream_writer
from pyspark_ariane import DefaultSource

FAULTS = Path(os.environ.get("FAULTS", "faults"))


def strikes(kind, count=True):
    """Whether a fault of this kind is due now; it is used up then."""
    armed = FAULTS / "armed"
    try:
        fault = json.loads(armed.read_text())
        if fault["kind"] != kind:
            return False
        if count and fault["passes"] > 0:
            fault["passes"] -= 1
            (FAULTS / "next").write_text(json.dumps(fault))
            (FAULTS / "next").rename(armed)
            return False
        armed.rename(FAULTS / "struck")
    except FileNotFoundError:
        return False  # None is armed, or a twin was faster.
    return True


def die():
    """Be killed: nothing is said, nothing is cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)


def parent_of(process):
    """The process that started another one."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def stumbling(batches):
    """The rows of a task that fails, or is killed, when it has written some of them."""
    for batch in batches:
        yield batch
        if strikes("in write"):
            raise RuntimeError("failed in write")
        if strikes("worker"):
            die()
        if strikes("executor"):
            # Its JVM started the process that forks workers.
            os.kill(parent_of(os.getppid()), signal.SIGKILL)


class StumblingWriter(DataSourceStreamArrowWriter):
    """The writer of `format("ariane")`, with deaths around what it does."""

    def __init__(self, writer):
        self._writer = writer

    def write(self, iterator):
        if TaskContext.get().attemptNumber():
            return self._writer.write(iterator)
        receipt = self._writer.write(stumbling(iterator))
        if strikes("staged"):
            die()
        return receipt

    def commit(self, messages, batchId):  # noqa: N803 - Spark's name.
        if strikes("before commit"):
            die()
        if strikes("replay"):
            raise RuntimeError(f"replay before {batchId}")
        self._writer.commit(messages, batchId)
        if strikes("after commit"):
            die()
        if strikes("commit without answer"):
            raise RuntimeError("committed, and nobody knows")

    def abort(self, messages, batchId):  # noqa: N803 - Spark's name.
        self._writer.abort(messages, batchId)


class StumblingSource(DefaultSource):
    """The same source under another name."""

    @classmethod
    def name(cls):
        return "stumbling"

    def streamWriter(self, schema, overwrite):  # noqa: N802 - Spark's name.
        return StumblingWriter(stream_writer(self.options, schema, overwrite=overwrite))


def forget_batch(checkpoint, batch_id):
    """Make Spark believe that a micro-batch was planned and not committed, and none after it."""
    for folder, name in (("offsets", batch_id + 1), ("commits", batch_id)):
        for path in (checkpoint / folder).glob(f"*{name}*"):
            if path.name in {str(name), f".{name}.crc"}:
                path.unlink()


def some_for_later(rows):
    """The rows as they are written: body and tag, and when to deliver those of every third."""
    due = f.current_timestamp() + f.expr("INTERVAL 3 SECONDS")
    timed = f.col("body").cast("string").cast("int") % 3 == 0
    says = f.create_map(f.lit("due"), f.unix_millis(due).cast("string"))
    return rows.select(
        "body",
        "tag",
        f.when(timed, due).alias("deliveryTimestamp"),
        f.when(timed, says).alias("properties"),
    )


def spark_of(folder):
    """A session with two executors, each a JVM; where they run is theirs alone."""
    home = folder / "home"
    if not home.exists():
        home.mkdir()
        for path in Path(pyspark.__file__).parent.iterdir():
            (home / path.name).symlink_to(path)
    os.environ["SPARK_HOME"] = str(home)
    short_lived = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    return session(
        "copying",
        master="local-cluster[2,1,768]",
        settings={
            "spark.executor.memory": "768m",
            "spark.local.dir": str(folder / "local"),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.adaptive.enabled": "true",
            "spark.speculation": "true",
            "spark.driver.extraJavaOptions": short_lived,
            "spark.executor.extraJavaOptions": short_lived,
        },
    )


def started(spark, endpoints, source, target, order):
    """The query that copies; None where it is to wait."""
    if order["checkpoint"] is None:
        return None
    rows = (
        spark.readStream.format("ariane")
        .options(endpoints=endpoints, topic=source)
        .options(startingOffsets="earliest", maxOffsetsPerTrigger=str(order["rows"]))
        .load()
        # Dealt out by a shuffle, which adaptive execution merges as it likes.
        .repartition(f.col("tag"))
    )
    return (
        some_for_later(rows)
        .writeStream.format("stumbling")
        .options(endpoints=endpoints, topic=target, deliveryGuarantee="exactly-once")
        .option("checkpointLocation", order["checkpoint"])
        .trigger(processingTime="100 milliseconds")
        .start()
    )


def next_order(query):
    """Wait until the query has failed, or another order is there: the order, or none."""
    while True:
        if query is None:
            time.sleep(0.1)
        elif query.awaitTermination(0.1):
            return None
        try:
            text = (FAULTS / "order").read_text()
        except FileNotFoundError:
            continue
        if query is not None:
            query.stop()
        return json.loads(text)


def main(endpoints, source, target, folder):
    folder = Path(folder)
    spark = spark_of(folder)
    spark.dataSource.register(StumblingSource)
    order = {"checkpoint": str(folder / "checkpoint"), "rows": 20, "name": "itself"}
    given = None
    while True:
        query = started(spark, endpoints, source, target, order)
        if given is not None:
            (FAULTS / "order").rename(FAULTS / "obeyed")
        try:
            given = next_order(query)
            order = given or order
        except StreamingQueryException as failure:
            text = str(failure)
            refusal = re.search(r"BatchDiffers: ([^\n]+)", text)
            said = refusal[1] if refusal else text.partition("Traceback")[0][:200]
            what = f"refused as {order['name']}:" if refusal else "again:"
            print(what, said.replace("\n", " "), flush=True)
            given = None
            replay = re.search(r"replay before (\d+)", text)
            if replay and int(replay[1]):
                forget_batch(folder / "checkpoint", int(replay[1]) - 1)


if __name__ == "__main__":
    # Workers unpickle the classes above, so they must find this module by its name.
    from copying_query import main as main_of_module

    main_of_module(*sys.argv[1:])
