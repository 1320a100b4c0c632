"""What a task that writes at least once does; no Spark runs here."""

import pyarrow as pa
import pytest

from ariane_spark.options.write_options import WriteOptions
from ariane_spark.records.rows import RowPlan
from ariane_spark.sink.batch_writer import ArianeBatchWriter


class Connected(Exception):
    pass


def connect(options):
    raise Connected


def test_a_task_connects_with_its_first_row():
    """Of many tasks behind a shuffle, most may have none, each in a worker of its own."""
    writer = ArianeBatchWriter(WriteOptions("n:1"), RowPlan({"body": 0}, "orders"), connect)
    nothing, one = (pa.record_batch([pa.array(rows, pa.string())], ["body"]) for rows in ([], "a"))

    assert writer.write(iter([])).message_count == 0
    assert writer.write(iter([nothing])).message_count == 0
    with pytest.raises(Connected):
        writer.write(iter([nothing, one]))
