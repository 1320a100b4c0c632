"""Workers are forks of processes that have imported what they need."""

import subprocess
import sys

import pytest
from pyspark.sql import functions as f

from ariane_spark.worker_daemon import IMPORTS

FIRST_USES = """
import sys, threading
from ariane_spark.worker_daemon import import_all


class Broker:
    def is_committed(self, batch):
        return False

    def write_queues(self, sink, topic):
        from ariane_sdk import MessageQueue

        return [MessageQueue(topic, "broker-a", 0)]

    def stage(self, broker_name, sink, request):
        self.request = request
        return lambda: None


def run_tasks():
    import numpy as np
    import pyarrow as pa
    from ariane_record.decoding.columns import decode_columns
    from ariane_spark.calls.sink_batches import Sink, SinkBatch
    from ariane_spark.options.write_options import WriteOptions
    from ariane_spark.records.columns import Projection, message_schema
    from ariane_spark.records.joined_records import QueueRecords
    from ariane_spark.records.rows import RowPlan
    from ariane_spark.sink.exactly_once import ExactlyOnceWrite

    broker = Broker()
    options = WriteOptions("n:1", topic="orders", exactly_once=True)
    batch = SinkBatch(Sink("query/orders", "orders"), 0)
    write = ExactlyOnceWrite(options, RowPlan({"body": 0}, "orders"), batch, lambda _: broker)
    rows = pa.record_batch([pa.array(["a", "b"])], names=["body"])
    assert write.stage(iter([rows])).attempts
    sizes = np.frombuffer(broker.request.record_sizes, "<i4")
    records = decode_columns(broker.request.records, sizes)
    (queue,) = broker.write_queues(None, "orders")
    found = Projection.of(message_schema()).batch([QueueRecords(queue, records)])
    assert found.column("body").to_pylist() == [b"a", b"b"]



import_all()
threads, before = threading.active_count(), set(sys.modules)
run_tasks()
print(threads, *sorted(set(sys.modules) - before), flush=True)
"""


def test_what_is_imported_before_the_fork_starts_no_threads_and_suffices():
    done = subprocess.run(
        [sys.executable, "-c", FIRST_USES], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "1\n", done.stderr


@pytest.mark.spark
def test_workers_of_a_local_session_are_its_forks(spark):
    @f.udf("array<string>", useArrow=False)
    def look(number):
        import os  # noqa: PLC0415 - runs in a task.
        import sys  # noqa: PLC0415 - the same.
        from pathlib import Path  # noqa: PLC0415 - the same.

        parent = Path(f"/proc/{os.getppid()}/cmdline").read_text()
        return [parent, *(name for name in IMPORTS if name not in sys.modules)]

    [[parent, *missing]] = spark.range(1).select(look("id")).first()
    assert "ariane_spark.worker_daemon" in parent
    assert not missing


@pytest.mark.spark
def test_a_session_talks_to_its_workers_over_unix_sockets(spark):
    """Over TCP each task of a source would wait 40 ms for an acknowledgement."""

    @f.udf("boolean", useArrow=False)
    def has_unix_sockets(_):
        import os  # noqa: PLC0415 - runs in a task.

        return os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED") == "True"

    assert spark.range(1).select(has_unix_sockets("id")).first() == (True,)
