"""What a process of Spark imports before its first row: meanwhile it does nothing else."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from pyspark_ariane import DefaultSource
from pyspark.sql.types import StructType

given = dict(endpoints="127.0.0.1:1", topic="orders")
{use}
heavy = ("ariane_sdk.sync", "ariane_sdk.consumer", "ariane_sdk.producer", "ariane_sdk.cluster")
print([name for name in sys.modules if name.startswith(heavy)])
"""

READ = """
from ariane_spark.calls.connection import connect_once

source = DefaultSource(given)
for reader in (source.reader(source.schema()), source.streamReader(source.schema())):
    connect_once(reader._options)
"""

STAGE = """
from ariane_spark.calls.connection import connect_transactions_once
from ariane_spark.options.write_options import write_options
from ariane_spark.sink import exactly_once

exact = given | {"deliveryGuarantee": "exactly-once", "writeId": "w"}
connect_transactions_once(write_options(exact))
"""


@pytest.mark.parametrize("use", [READ, STAGE], ids=["read", "exactly once"])
def test_consumers_and_producers_are_left_to_tasks_that_send(use):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(use=use)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.strip() == "[]", done.stderr
