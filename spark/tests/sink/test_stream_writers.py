"""Writers of streams on Spark 4.0, which passes rows."""

import subprocess
import sys
from datetime import UTC, datetime

from pyspark.sql import Row

from ariane_spark.records.rows import IdentitySeed, RowPlan
from ariane_spark.sink.stream_writers import BATCH_ROWS, RowStreamWriter, batches_of_rows

COLUMNS = (
    "body binary, tag string, keys array<string>, properties map<string,string>,"
    " deliveryTimestamp timestamp"
)


def test_rows_become_batches_of_the_same(ddl):
    schema = ddl(COLUMNS)
    due = datetime(2030, 10, 27, 1, 30, tzinfo=UTC)
    # As Spark makes them: in the time of the process, without saying so.
    local = due.astimezone().replace(tzinfo=None)
    rows = [
        Row(body=b"%d" % n, tag=None, keys=["a", "b"], properties={"k": "v"}, deliveryTimestamp=t)
        for n, t in enumerate([local, None] * BATCH_ROWS)
    ]

    batches = list(batches_of_rows(iter(rows), schema))

    assert [len(batch) for batch in batches] == [BATCH_ROWS, BATCH_ROWS]
    first = batches[0].slice(0, 2).to_pylist()
    assert first == [
        {"body": b"0", "tag": None, "keys": ["a", "b"], "properties": [("k", "v")]}
        | {"deliveryTimestamp": due},
        {"body": b"1", "tag": None, "keys": ["a", "b"], "properties": [("k", "v")]}
        | {"deliveryTimestamp": None},
    ]
    plan = RowPlan.of(schema, "orders")
    ((topic, table, numbers),) = plan.tables(batches[1], IdentitySeed("q/1/0"), BATCH_ROWS)
    assert (topic, table.num_rows) == ("orders", BATCH_ROWS)
    assert numbers[0] == BATCH_ROWS


def test_a_writer_of_rows_does_what_its_writer_of_batches_does(ddl):
    class Writer:
        def __init__(self):
            self.done = []

        def write(self, iterator):
            self.done.append([batch.to_pylist() for batch in iterator])
            return "receipt"

        def commit(self, messages, batch_id):
            self.done.append(("commit", messages, batch_id))

        def abort(self, messages, batch_id):
            self.done.append(("abort", messages, batch_id))

    inner = Writer()
    writer = RowStreamWriter(inner, ddl("body string"))

    assert writer.write(iter([Row(body="a"), Row(body="b")])) == "receipt"
    writer.commit(["receipt"], 3)
    writer.abort([None], 4)

    rows = [[{"body": "a"}, {"body": "b"}]]
    assert inner.done == [rows, ("commit", ["receipt"], 3), ("abort", [None], 4)]


SPARK_40 = """
import pyspark.sql.datasource as datasource

del datasource.DataSourceStreamArrowWriter  # Spark 4.0 has none.
from pyspark.sql.types import StringType, StructField, StructType
from ariane_spark.sink.batch_writer import stream_writer
from ariane_spark.sink.stream_writers import RowStreamWriter

for guarantee in ("at-least-once", "exactly-once"):
    given = {"endpoints": "n:1", "topic": "t", "deliveryGuarantee": guarantee}
    schema = StructType([StructField("body", StringType())])
    assert type(stream_writer(given, schema, overwrite=False)) is RowStreamWriter
"""


def test_spark_40_is_given_a_writer_of_rows():
    subprocess.run([sys.executable, "-c", SPARK_40], check=True, timeout=60)
