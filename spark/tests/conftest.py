"""A cluster in memory, for the unit tests of the readers; and Spark's own, of processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyspark
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

from ariane_record import RecordFields, SystemFlag, encode_record
from ariane_record.decoding.columns import decode_columns
from ariane_sdk import MessageQueue
from ariane_sdk.errors import CallError, QueueOffsetOutOfRange, RouteNotFound
from ariane_spark.calls.cluster import Fetch, RangeChunk
from ariane_spark.options.options import ReadOptions
from ariane_spark.positions.offsets import Bounds
from ariane_spark.positions.ranges import QueueRange
from ariane_spark.records.columns import Detail


@dataclass
class MemoryCluster:
    """Queues as lists of records; what is below `earliest` is kept no more."""

    queues: dict[MessageQueue, list[RecordFields]] = field(default_factory=dict)
    groups: dict[str, dict[MessageQueue, int]] = field(default_factory=dict)
    uncertain: frozenset[str] = frozenset()
    away: dict[str, frozenset[str]] = field(default_factory=dict)
    earliest: dict[MessageQueue, int] = field(default_factory=dict)
    closed: set[MessageQueue] = field(default_factory=set)
    chunk_records: int = 2
    failures: list[Exception | None] = field(default_factory=list)
    reads: list[tuple[QueueRange, Detail]] = field(default_factory=list)
    questions: int = 0
    waits: int = 0
    open_streams: int = 0
    sent_bytes: int = 0
    lost: list[tuple[int, int]] = field(default_factory=list)
    log_epoch: int = 0
    kept_ends: dict[MessageQueue, int] = field(default_factory=dict)
    # Ends that a new primary tells until somebody waits for what lies behind.
    told_ends: dict[MessageQueue, int] = field(default_factory=dict)

    def add(
        self, topic: str, broker_name: str, queue_id: int, count: int, tags=("even", "odd")
    ) -> MessageQueue:
        queue = MessageQueue(topic, broker_name, queue_id)
        records = self.queues.setdefault(queue, [])
        for queue_offset in range(len(records), len(records) + count):
            records.append(
                RecordFields(
                    topic=topic,
                    body=f"{queue_id}:{queue_offset}".encode(),
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
                        "TAGS": tags[queue_offset % len(tags)],
                    },
                )
            )
        return queue

    def compress(self, queue: MessageQueue, damaged: Container[int]) -> None:
        """Make all bodies compressed; those of some messages are not what their flag says."""
        self.queues[queue] = [
            replace(
                record,
                system_flag=int(SystemFlag.COMPRESSED | SystemFlag.COMPRESSION_ZLIB),
                body=b"damaged" if place in damaged else zlib.compress(b"%d" % place),
            )
            for place, record in enumerate(self.queues[queue])
        ]

    def bounds(self, topics, *, lenient=False, waits=True) -> dict[MessageQueue, Bounds]:
        self.questions += 1
        self.waits += waits and not lenient
        self._fail()
        found = {}
        for topic in topics:
            queues = {queue: records for queue, records in self.queues.items() if queue[0] == topic}
            if not queues and not lenient:
                raise RouteNotFound(f"no broker carries {topic}")
            for queue, records in queues.items():
                earliest = self.earliest.get(queue, 0)
                size_bytes = 100 * (len(records) - earliest)
                latest = self.told_ends.get(queue, len(records))
                is_closed = queue in self.closed
                found[queue] = Bounds(earliest, latest, size_bytes, self.log_epoch, is_closed)
        return found

    def topics(self) -> list[str]:
        return sorted({queue.topic for queue in self.queues})

    def uncertain_topics(self) -> frozenset[str]:
        return self.uncertain

    def away_brokers(self, topic: str) -> frozenset[str]:
        if topic not in self.topics():
            raise RouteNotFound(f"no broker carries {topic}")
        return self.away.get(topic, frozenset())

    def group_offsets(self, group: str, queues) -> dict[MessageQueue, int]:
        stored = self.groups.get(group, {})
        return {queue: stored[queue] for queue in queues if queue in stored}

    def store_group_offsets(self, group: str, positions) -> None:
        self._fail()
        self.groups.setdefault(group, {}).update(positions)

    def offsets_at(self, topics, timestamp_ms: int) -> dict[MessageQueue, int]:
        return {
            queue: sum(1 for record in records if record.store_timestamp_ms < timestamp_ms)
            for queue, records in self.queues.items()
            if queue.topic in topics
        }

    def read_range(self, part: QueueRange, fetch: Fetch) -> Iterator[RangeChunk]:
        self.reads.append((part, fetch.detail))
        self.open_streams += 1
        try:
            self._fail()
            records = self.queues[part.queue]
            kept_end = self.kept_ends.get(part.queue, len(records))
            if part.log_epoch not in {0, self.log_epoch} and part.end > kept_end:
                raise CallError("cut", reason="QUEUE_CUT", metadata={"end": str(kept_end)})
            if part.end > self.told_ends.get(part.queue, part.end):
                del self.told_ends[part.queue]
            kept = Bounds(self.earliest.get(part.queue, 0), len(records))
            if not kept.earliest <= part.begin <= kept.latest:
                raise QueueOffsetOutOfRange(
                    "out of range", metadata={"min": str(kept.earliest), "max": str(kept.latest)}
                )
            for begin in range(part.begin, min(part.end, kept.latest), self.chunk_records):
                end = min(begin + self.chunk_records, part.end)
                chunk = [record for record in records[begin:end] if self._passes(record, fetch)]
                encoded = [encode_record(record) for record in chunk]
                sizes = np.array([len(record) for record in encoded], np.int32)
                columns = decode_columns(b"".join(encoded), sizes) if chunk else None
                lost = [run for run in self.lost if begin <= run[0] < end]
                self.sent_bytes += int(sizes.sum())
                yield RangeChunk(columns, end, lost, int(sizes.sum()))
                self._fail()
        finally:
            self.open_streams -= 1

    def _passes(self, record: RecordFields, fetch: Fetch) -> bool:
        return not fetch.tags or record.properties.get("TAGS", "") in fetch.tags

    def _fail(self) -> None:
        if self.failures and (failure := self.failures.pop(0)) is not None:
            raise failure


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


SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Processes are gone before optimised code would pay."""

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"


class SparkProcesses:
    """Processes of a standalone cluster, each with a log that says when it is there."""

    def __init__(self, folder):
        self._folder = folder
        self._started = []
        (folder / "tmp").mkdir()
        self.java_options = f"{SHORT_LIVED} -Djava.io.tmpdir={folder / 'tmp'}"
        self.environment = {
            **os.environ,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOG_DIR": str(folder),
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "SPARK_WORKER_DIR": str(folder / "work"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": self.java_options,
        }

    def start(self, class_name, *arguments, ready):
        """Start one; what its log says when it is ready, once that is asked for."""
        path = self._folder / f"{class_name.rpartition('.')[2]}-{len(self._started)}.log"
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        with path.open("wb") as log:
            # spark-class becomes the JVM, so the process is the one to end.
            process = subprocess.Popen(
                [str(program), class_name, *arguments],
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
            )
        self._started.append(process)

        def wait():
            until = time.monotonic() + 120
            while not (found := re.search(ready, path.read_text())):
                assert process.poll() is None, path.read_text()
                assert time.monotonic() < until, path.read_text()
                time.sleep(0.05)
            return found[1]

        return wait

    def run(self, *arguments):
        done = subprocess.run(
            [sys.executable, *arguments],
            env=self.environment,
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def stop(self):
        for process in reversed(self._started):
            process.terminate()
        for process in self._started:
            process.wait(timeout=30)


@pytest.fixture
def processes(tmp_path):
    processes = SparkProcesses(tmp_path)
    yield processes
    processes.stop()


@pytest.fixture
def worker_count():
    return 2


@pytest.fixture
def master(processes, worker_count):
    master = processes.start(
        MASTER,
        *("--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
        ready=r"Starting Spark master at (spark://\S+)",
    )()
    workers = [
        processes.start(
            WORKER,
            master,
            *("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0"),
            ready=r"(Successfully registered) with master",
        )
        for _ in range(worker_count)
    ]
    for registered in workers:
        registered()
    return master
