"""A cluster in memory for the readers' unit tests, and a real one for Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ariane_record import RecordFields, encode_record
from ariane_record.columns import RecordColumns, decode_columns
from ariane_sdk.errors import QueueOffsetOutOfRange, RouteNotFound
from ariane_spark.columns import Detail
from ariane_spark.offsets import Bounds, QueueName
from ariane_spark.options import ReadOptions
from ariane_spark.ranges import QueueRange


@dataclass
class MemoryCluster:
    """Queues as lists of records; what is below `earliest` is kept no more."""

    queues: dict[QueueName, list[RecordFields]] = field(default_factory=dict)
    earliest: dict[QueueName, int] = field(default_factory=dict)
    chunk_records: int = 2
    failures: list[Exception] = field(default_factory=list)
    reads: list[tuple[QueueRange, Detail]] = field(default_factory=list)
    questions: int = 0
    open_streams: int = 0

    def add(self, topic: str, broker_name: str, queue_id: int, count: int) -> QueueName:
        queue = QueueName(topic, broker_name, queue_id)
        records = self.queues.setdefault(queue, [])
        for queue_offset in range(len(records), len(records) + count):
            records.append(
                RecordFields(
                    topic=topic,
                    body=f"{queue}:{queue_offset}".encode(),
                    queue_id=queue_id,
                    queue_offset=queue_offset,
                    commit_log_offset=1000 * queue_offset,
                    born_timestamp_ms=queue_offset,
                    store_timestamp_ms=10 * queue_offset,
                    store_host=("127.0.0.1", 10911),
                    attempts=queue_offset % 3,
                    properties={
                        "colour": "red",
                        "KEYS": f"key-{queue_offset}",
                        "TAGS": "even" if queue_offset % 2 == 0 else "odd",
                    },
                )
            )
        return queue

    def bounds(self, topics) -> dict[QueueName, Bounds]:
        self.questions += 1
        self._fail()
        found = {}
        for topic in topics:
            queues = {queue: records for queue, records in self.queues.items() if queue[0] == topic}
            if not queues:
                raise RouteNotFound(f"no broker carries {topic}")
            for queue, records in queues.items():
                found[queue] = Bounds(self.earliest.get(queue, 0), len(records))
        return found

    def offsets_at(self, topics, timestamp_ms: int) -> dict[QueueName, int]:
        return {
            queue: sum(1 for record in records if record.store_timestamp_ms < timestamp_ms)
            for queue, records in self.queues.items()
            if queue.topic in topics
        }

    def read_range(
        self, part: QueueRange, detail: Detail, chunk_bytes: int
    ) -> Iterator[RecordColumns]:
        self.reads.append((part, detail))
        self.open_streams += 1
        try:
            self._fail()
            records = self.queues[part.queue]
            kept = Bounds(self.earliest.get(part.queue, 0), len(records))
            if not kept.earliest <= part.begin <= kept.latest:
                raise QueueOffsetOutOfRange(
                    "out of range", metadata={"min": str(kept.earliest), "max": str(kept.latest)}
                )
            for begin in range(part.begin, min(part.end, kept.latest), self.chunk_records):
                chunk = records[begin : min(begin + self.chunk_records, part.end)]
                encoded = [encode_record(record) for record in chunk]
                sizes = np.array([len(record) for record in encoded], np.int32)
                yield decode_columns(b"".join(encoded), sizes)
                self._fail()
        finally:
            self.open_streams -= 1

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)


SPARK_TYPES = {
    "int": IntegerType(),
    "long": LongType(),
    "string": StringType(),
    "binary": BinaryType(),
    "timestamp": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
    "array<string>": ArrayType(StringType()),
    "array<binary>": ArrayType(BinaryType()),
    "map<string,string>": MapType(StringType(), StringType()),
}


@pytest.fixture
def ddl() -> Callable[[str], StructType]:
    """A schema as users write it; Spark's own parser wants a JVM."""

    def parse(text: str) -> StructType:
        fields = []
        for column in text.split(", "):
            name, kind, *not_null = column.split(" ")
            fields.append(StructField(name, SPARK_TYPES[kind], nullable=not not_null))
        return StructType(fields)

    return parse


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


@pytest.fixture
def connect(cluster: MemoryCluster) -> Callable[[ReadOptions], MemoryCluster]:
    return lambda options: cluster
