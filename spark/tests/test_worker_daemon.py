"""Workers are forks of a process that has imported what tasks need."""

import subprocess
import sys

import pytest
from pyspark.sql import functions as f

from ariane_spark.worker_daemon import IMPORTS

THREADS = """
import threading
from ariane_spark.worker_daemon import IMPORTS, import_all
for worker in IMPORTS:
    import_all(worker)
print(threading.active_count())
"""

FIRST_TASKS = """
import sys
from ariane_spark.worker_daemon import import_all
import_all("pyspark.worker")
before = set(sys.modules)

import numpy as np
import pyarrow as pa
from ariane_record.decoding.columns import decode_columns
from ariane_sdk import MessageQueue
from ariane_spark.calls.sink_batches import Sink, SinkBatch
from ariane_spark.options.write_options import WriteOptions
from ariane_spark.records.columns import Projection, message_schema
from ariane_spark.records.joined_records import QueueRecords
from ariane_spark.records.rows import RowPlan
from ariane_spark.sink.exactly_once import ExactlyOnceWrite

QUEUE = MessageQueue("orders", "broker-a", 0)

class Broker:
    def is_committed(self, batch):
        return False

    def write_queues(self, sink, topic):
        return [QUEUE]

    def stage(self, broker_name, sink, request):
        self.request = request
        return lambda: None

broker = Broker()
write = ExactlyOnceWrite(
    WriteOptions("n:1", topic="orders", exactly_once=True),
    RowPlan({"body": 0}, "orders"),
    SinkBatch(Sink("query/orders", "orders"), 0),
    lambda options: broker,
)
rows = pa.record_batch([pa.array(["a", "b"])], names=["body"])
assert write.stage(iter([rows])).attempts
records = decode_columns(broker.request.records, np.frombuffer(broker.request.record_sizes, "<i4"))
batch = Projection.of(message_schema()).batch([QueueRecords(QUEUE, records)])
assert batch.column("body").to_pylist() == [b"a", b"b"]
print(*sorted(set(sys.modules) - before))
"""


def test_the_first_task_of_a_fork_imports_nothing():
    """Arrow imports pandas, where it is, with its first array: 0.2 s of each worker."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST_TASKS], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [], done.stderr


FIRST_PLANS = """
import os, sys
from pyspark.sql.types import BinaryType, StructField, StructType
from ariane_spark.worker_daemon import IMPORTS, import_all

GIVEN = dict(endpoints="127.0.0.1:1", topic="orders")
SCHEMA = StructType([StructField("body", BinaryType())])

def use(worker):
    from pyspark_ariane import DefaultSource

    source = DefaultSource(GIVEN)
    if "create" in worker:
        source.schema()
    elif "read" in worker:
        from ariane_spark.calls.connection import connect_once

        for reader in (source.reader(SCHEMA), source.streamReader(SCHEMA)):
            connect_once(reader._options)
    else:
        from ariane_spark.sink.batch_writer import batch_writer, stream_writer

        for writer in (batch_writer, stream_writer):
            writer(GIVEN, SCHEMA, overwrite=False)

for worker in IMPORTS.keys() - {"pyspark.worker"}:
    if not os.fork():
        import_all(worker)
        before = set(sys.modules)
        use(worker)
        print(worker, *sorted(set(sys.modules) - before), flush=True)
        os._exit(0)
    os.wait()
"""


def test_nor_does_the_first_plan():
    done = subprocess.run(
        [sys.executable, "-c", FIRST_PLANS], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.splitlines()) == IMPORTS.keys() - {"pyspark.worker"}, done.stderr


def test_what_is_imported_before_the_fork_starts_no_threads():
    done = subprocess.run(
        [sys.executable, "-c", THREADS], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1"], done.stderr


@pytest.mark.spark
def test_workers_of_a_local_session_are_its_forks(spark):
    tasks = IMPORTS["pyspark.worker"]

    @f.udf("array<string>", useArrow=False)
    def look(number):
        import os  # noqa: PLC0415 - runs in a task.
        import sys  # noqa: PLC0415 - the same.
        from pathlib import Path  # noqa: PLC0415 - the same.

        parent = Path(f"/proc/{os.getppid()}/cmdline").read_text()
        return [parent, *(name for name in tasks if name not in sys.modules)]

    [[parent, *missing]] = spark.range(1).select(look("id")).first()
    assert "ariane_spark.worker_daemon" in parent
    assert not missing
