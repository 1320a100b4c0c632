"""What a process of Spark imports before its first row: meanwhile it does nothing else."""

import subprocess
import sys

import pytest

PROGRAM = """
import os, sys

GIVEN = dict(endpoints="127.0.0.1:1", topic="orders")
OURS = {"ariane", "ariane_ordering", "ariane_record", "ariane_sdk", "ariane_spark", "ariane_wire"}
THEIRS = {"google", "grpc", "hpack", "isal", "numpy", "py4j", "pyarrow", "pyspark"}
THEIRS |= {"cython_runtime", "typing_extensions"}  # gRPC's and numpy's.
THEIRS |= {"grpc_health", "grpc_reflection", "grpc_tools"}  # Where they are installed.
SDK = ("ariane_sdk.sync", "ariane_sdk.consumer", "ariane_sdk.producer", "ariane_sdk.cluster")


def read():
    from pyspark_ariane import DefaultSource
    from ariane_spark.calls.connection import connect_once

    source = DefaultSource(GIVEN)
    for reader in (source.reader(source.schema()), source.streamReader(source.schema())):
        connect_once(reader._options)


def stage():
    from ariane_spark.calls.connection import connect_transactions_once
    from ariane_spark.options.write_options import write_options
    from ariane_spark.sink import exactly_once

    exact = GIVEN | {"deliveryGuarantee": "exactly-once", "writeId": "w"}
    connect_transactions_once(write_options(exact))


def decode():
    from ariane_record.testing.block_encoder import BlockEncoder
    from ariane_record.decoding.columns import decode_columns
    from ariane_sdk import MessageQueue
    from ariane_spark.records.columns import Projection, message_schema
    from ariane_spark.records.joined_records import QueueRecords

    encoder = BlockEncoder("orders", size_bytes_max=1 << 20)
    for number in range(3):
        encoder.add(
            b"body",
            tag="b" * (number % 2),
            keys=["a"][number:],
            unique_id=f"{number:032d}",
            properties={"colour": "red"} if number else None,
            born_timestamp_ms=1,
        )
    block = encoder.finish()
    queue = MessageQueue("orders", "broker-a", 0)
    records = QueueRecords(queue, decode_columns(block.records, block.sizes))
    schema = message_schema([*message_schema().fieldNames(), "brokerName"])
    batch = Projection.of(schema).batch([records, records])
    assert batch.column("tag").to_pylist() == [None, "b", None] * 2
    assert batch.column("keys").to_pylist() == [["a"], [], []] * 2


for use in (read, stage, decode):
    if not os.fork():
        use()
        heavy = SDK if use is not decode else ("pandas",)
        print(use.__name__, [name for name in sys.modules if name.startswith(heavy)], flush=True)
        packages = {name.partition(".")[0] for name in sys.modules if name[0] != "_"}
        known = OURS | THEIRS | sys.stdlib_module_names | {"pyspark_ariane"}
        print(*sorted(packages - known), flush=True)
        os._exit(0)
    os.wait()
"""


def test_producers_are_left_to_tasks_that_send_and_pandas_to_who_uses_it():
    """Arrow imports pandas, where it is installed, to look at a value of Python or numpy."""
    pytest.importorskip("pandas")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[::2] == ["read []", "stage []", "decode []"], done.stderr
    # Each package more is memory of each worker, and time before its first row.
    assert done.stdout.splitlines()[1::2] == ["", "", ""]
