"""Bodies without their records make the batches that whole records make."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ariane.broker.v1.pull_service_pb2 import (
    PULL_PROJECTION_BODIES,
    PULL_PROJECTION_UNSPECIFIED,
    BodyRun,
    QueueRecords,
)
from ariane_record.decoding.body_runs import gather_bodies
from ariane_record.decoding.columns import decode_columns
from ariane_record.errors import RecordCorrupted
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_sdk import MessageQueue
from ariane_sdk.checks.tag_filter import TagFilter
from ariane_sdk.consumer.delivery.pulled_bodies import OF_BODIES, PulledBodies
from ariane_sdk.consumer.delivery.window import QueueWindow
from ariane_sdk.consumer.polling.column_window import ColumnWindow
from ariane_sdk.consumer.pulling.pull_wire import PulledRecords
from ariane_sdk.consumer.pulling.pulled import fill, projection_of
from ariane_sdk.reading.columns_out import record_batch

QUEUE = MessageQueue("orders", "broker-a", 3)
ALL = sorted(OF_BODIES)
EVERYTHING = TagFilter.parse("*")


class Owned:
    """A queue with a window."""

    def __init__(self, window):
        self.queue = QUEUE
        self.window = window
        self.woken = 0

    def wake(self):
        self.woken += 1


def stored(shapes, first_offset=40):
    """Records as a broker has them: so many of each number of bytes."""
    encoder = BlockEncoder("orders", size_bytes_max=1 << 20)
    for length, count in shapes:
        for number in range(count):
            encoder.add(bytes([number & 0xFF]) * length, born_timestamp_ms=0)
    block = encoder.finish()
    records = bytearray(block.records)
    for number, start in enumerate((np.cumsum(block.sizes) - block.sizes).tolist()):
        records[start + 12 : start + 16] = QUEUE.queue_id.to_bytes(4)
        records[start + 20 : start + 28] = (first_offset + number).to_bytes(8)
    return bytes(records), block.sizes


def pulled_bodies(records, sizes):
    gathered = gather_bodies([memoryview(records)], sizes)
    runs = [BodyRun(**run._asdict()) for run in gathered.runs]
    return runs, memoryview(gathered.octets.tobytes())


SHAPES = st.lists(st.tuples(st.integers(0, 40), st.integers(64, 200)), min_size=1, max_size=4)


@settings(max_examples=40)
@given(SHAPES, st.permutations(ALL))
def test_batches_are_those_of_whole_records(shapes, names):
    records, sizes = stored(shapes)
    of_records, of_bodies = ColumnWindow(QUEUE, 40, names), ColumnWindow(QUEUE, 40, names)

    of_records.put_records(records, sizes, 999, ())
    of_bodies.put_bodies(PulledBodies(*pulled_bodies(records, sizes)), 999)

    facts = ["message_count", "size_bytes", "next_pull_offset", "consumer_offset", "span"]
    for name in facts:
        assert getattr(of_bodies, name) == getattr(of_records, name)
    batch = of_bodies.take_batch()
    batch.validate(full=True)
    assert batch.equals(of_records.take_batch())
    assert batch.equals(record_batch(decode_columns(records, sizes), QUEUE, names))


def test_gaps_between_runs_are_kept():
    runs = [
        BodyRun(first_queue_offset=first, message_count=2, record_bytes=100, body_bytes=1)
        for first in (5, 90)
    ]
    bodies = PulledBodies(runs, memoryview(b"abcd"))
    assert (len(bodies), bodies.first_offset, bodies.last_offset) == (4, 5, 91)
    assert bodies.record_batch(QUEUE, ["queueOffset", "body"]).to_pydict() == {
        "queueOffset": [5, 6, 90, 91],
        "body": [b"a", b"b", b"c", b"d"],
    }


@pytest.mark.parametrize(
    "change",
    [
        {"message_count": 0},
        {"message_count": -1},
        {"message_count": 3},
        {"body_bytes": 3},
        {"body_bytes": -2},
        {"record_bytes": -1},
    ],
)
def test_parts_that_do_not_fit_are_refused(change):
    fields = {"first_queue_offset": 7, "message_count": 2, "record_bytes": 99, "body_bytes": 2}
    PulledBodies([BodyRun(**fields)], memoryview(b"abcd"))
    with pytest.raises(RecordCorrupted):
        PulledBodies([BodyRun(**fields | change)], memoryview(b"abcd"))


def test_a_few_bodies_do_not_keep_all_that_came_with_them():
    answer = bytes(10_000)
    run = BodyRun(first_queue_offset=0, message_count=10, record_bytes=400, body_bytes=300)
    few, most = memoryview(answer)[:3000], memoryview(answer)[:6000]
    kept = {}
    for name, bodies in {"few": few, "most": most}.items():
        run.body_bytes = len(bodies) // 10
        batch = PulledBodies([run], bodies).record_batch(QUEUE, ["body"])
        kept[name] = batch.column("body").buffers()[2]
    assert kept["few"].size == 3000
    address = pa.py_buffer(answer).address
    assert kept["most"].address == address
    assert kept["few"].address != address


@pytest.mark.parametrize(
    ("names", "expression", "suffice"),
    [
        (["queueOffset", "body"], "*", True),
        (ALL, "*", True),
        (["queueOffset"], "*", False),
        (["body", "tag"], "*", False),
        (["body", "bornTimestamp"], "*", False),
        (["body"], "a || b", False),
    ],
)
def test_bodies_are_asked_for_where_they_suffice(names, expression, suffice):
    works = [Owned(ColumnWindow(QUEUE, 0, names))]
    wanted = PULL_PROJECTION_BODIES if suffice else PULL_PROJECTION_UNSPECIFIED
    assert projection_of(works, {"orders": TagFilter.parse(expression)}) == wanted


def test_a_listener_gets_whole_records():
    assert projection_of([Owned(QueueWindow(0))], {}) == PULL_PROJECTION_UNSPECIFIED


@pytest.mark.parametrize("tags", ["*", "a"])
def test_bodies_that_nobody_asked_for_are_refused(tags):
    runs, bodies = pulled_bodies(*stored([(3, 64)]))
    head = QueueRecords(next_queue_offset=104, body_runs=runs)
    pulled = PulledRecords(head, bodies[:0], bodies)
    work = Owned(QueueWindow(40) if tags == "*" else ColumnWindow(QUEUE, 40, ["body"]))
    with pytest.raises(RecordCorrupted):
        fill(work, pulled, TagFilter.parse(tags))
    assert (work.woken, work.window.next_pull_offset) == (0, 40)


def test_pulled_bodies_count_as_the_records_they_stand_for():
    records, sizes = stored([(3, 64), (4, 100)])
    runs, bodies = pulled_bodies(records, sizes)
    alone = PulledRecords(QueueRecords(body_runs=runs), bodies[:0], bodies)
    whole = PulledRecords(
        QueueRecords(record_sizes=sizes.astype("<i4").tobytes()), memoryview(records), bodies[:0]
    )
    assert alone.message_count == whole.message_count == 164
    assert alone.record_bytes == whole.record_bytes == len(records)
