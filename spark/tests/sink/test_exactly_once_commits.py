"""What the driver makes of the receipts of all tasks."""

from dataclasses import replace

import pyarrow as pa
import pytest

from ariane_sdk import errors as sdk_errors
from ariane_sdk.errors import ServiceUnavailable
from ariane_spark.calls.sink_batches import Attempt, Sink, SinkBatch, batch_of_options
from ariane_spark.errors import BatchDiffers, CommitRefused, OptionIllegal
from ariane_spark.options.write_options import WriteOptions, write_options
from ariane_spark.records.contents import Contents
from ariane_spark.records.rows import RowPlan
from ariane_spark.sink.batch_writer import batch_writer, stream_writer
from ariane_spark.sink.exactly_once import ExactlyOnceWrite, StageReceipt

SINK = Sink("query/orders", "orders")
BATCH = SinkBatch(SINK, 7)
ROWS = Contents(5, (1 << 63) + 7)
BOTH = Contents(10, 14)
"""Sums are numbers of 64 bits."""
STAGED = [
    StageReceipt(
        BATCH,
        tuple(Attempt(partition, f"token-{partition}", 5, 99, f"broker-{name}") for name in "ab"),
        ROWS,
    )
    for partition in range(2)
]
DONE_BEFORE = replace(STAGED[0], attempts=None)


class Broker:
    """Answers as the brokers of a sink, and remembers what it was asked to do."""

    def __init__(self):
        self.committed = False
        self.questions = 0
        self.commits, self.aborts = [], []
        self.failure = None
        self.standing = None

    def is_committed(self, batch):
        self.questions += 1
        return self.committed

    def commit(self, batch, attempts, contents):
        if self.standing is None:
            self.commits.append((batch, list(attempts), contents))
            return False
        if contents == self.standing:
            return True
        metadata = {"committed_count": str(self.standing.row_count)}
        raise sdk_errors.BatchDiffers("differs", metadata=metadata)

    def abort(self, batch):
        if self.failure is not None:
            raise self.failure
        self.aborts.append(batch)


@pytest.fixture
def broker():
    return Broker()


@pytest.fixture
def write(broker):
    options = WriteOptions("n:1", topic="orders", exactly_once=True)
    return ExactlyOnceWrite(options, RowPlan({"body": 0}, "orders"), None, lambda _options: broker)


def test_what_all_tasks_staged_is_committed_by_name(broker, write):
    write.commit(STAGED, 7)

    attempts = [attempt for each in STAGED for attempt in each.attempts]
    assert broker.commits == [(BATCH, attempts, BOTH)]


def test_a_task_without_rows_asks_nothing(broker, write):
    """Of 200 tasks behind a shuffle of a small micro-batch, most have none."""
    write = replace(write, batch=BATCH)
    schema = pa.schema({"body": pa.string()})
    nothing, one = (pa.record_batch([rows], schema=schema) for rows in ([], ["a"]))
    broker.committed = True

    for batches in ([], [nothing, nothing]):
        assert write.stage(iter(batches)) == StageReceipt(BATCH, (), Contents())
    assert broker.questions == 0

    receipt = write.stage(iter([nothing, one, one]))
    assert (receipt.attempts, receipt.contents.row_count) == (None, 2)
    assert broker.questions == 1


def test_nothing_at_all_is_nothing_to_commit(broker, write):
    write.commit([None, None], 7)

    assert broker.commits == []


def test_a_batch_that_was_committed_before_is_left_and_told(broker, write, caplog):
    broker.committed, broker.standing = True, BOTH

    write.commit([STAGED[0], DONE_BEFORE], 7)

    assert "micro-batch 7 of query/orders was committed before with the same rows" in caplog.text


def test_a_batch_that_was_committed_with_other_rows_is_refused_or_skipped(broker, write, caplog):
    broker.committed, broker.standing = True, Contents(11, 4)

    with pytest.raises(BatchDiffers) as refusal:
        write.commit([STAGED[0], DONE_BEFORE], 7)
    said = "micro-batch 7 of query/orders, now 10 messages, was committed before, with other rows"
    assert str(refusal.value).startswith(f"{said}, 11 messages; nothing was written.")
    assert "new checkpoint" in str(refusal.value)

    options = replace(write.options, skips_changed_batch=True)
    replace(write, options=options).commit(STAGED, 7)
    assert "11 messages; what came now is skipped" in caplog.text


@pytest.mark.parametrize(
    ("receipts", "batch_id", "clause"),
    [
        ([STAGED[0], replace(STAGED[1], batch=SinkBatch(SINK, 6))], 7, "do not agree"),
        (STAGED, 8, "do not agree"),
        ([STAGED[0], DONE_BEFORE], 7, "micro-batch 7 of .* is committed, and .* sink move"),
    ],
)
def test_receipts_that_do_not_fit_together_commit_nothing(
    broker, write, receipts, batch_id, clause
):
    with pytest.raises(CommitRefused, match=clause):
        write.commit(receipts, batch_id)

    assert broker.commits == []


def test_a_home_that_has_forgotten_a_batch_is_to_be_moved(broker, write):
    def decided(*_):
        raise sdk_errors.TransactionDecided("was decided before: COMMIT")

    broker.commit = decided
    with pytest.raises(CommitRefused, match="ariane sink move 'query/orders' BROKER"):
        write.commit(STAGED, 7)


def test_an_abort_drops_what_receipts_name_and_never_fails(broker, write, caplog):
    write.abort([None, STAGED[0]])
    write.abort([None, None])
    assert broker.aborts == [BATCH]

    broker.failure = ServiceUnavailable("down", retriable=True)
    write.abort(STAGED)
    assert "stays until it grows old: down" in caplog.text


def test_a_write_that_its_options_name_is_aborted_without_receipts(broker, write):
    named = SinkBatch(Sink("write/job/orders", "orders"), 0)

    replace(write, batch=named).abort([None])

    assert broker.aborts == [named]


GIVEN = {"endpoints": "n:1", "topic": "orders", "deliveryGuarantee": "exactly-once"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "'writeId': is required: exactly once, a write must have a name"),
        ({"sinkId": "s"}, "a single write is named by 'writeId'"),
        ({"query": "q"}, "'batchId': goes together with 'query'"),
        ({"batchId": "1"}, "'batchId': goes together with 'query'"),
        ({"query": "q", "batchId": "-1"}, "'batchId'"),
        ({"query": "a/b", "batchId": "1"}, "contain a slash"),
        ({"query": "write", "batchId": "1"}, "neither 'write' nor"),
        ({"query": "q" * 101, "batchId": "1"}, "100 printable characters"),
        ({"query": "q", "batchId": "1", "writeId": "w"}, "not with 'query'"),
    ],
)
def test_a_write_whose_repetition_would_not_be_recognised_is_refused(ddl, options, said):
    with pytest.raises(OptionIllegal, match=said):
        batch_writer({**GIVEN, **options}, ddl("body string"), overwrite=False)


def test_options_name_the_batch_and_not_the_thread():
    given = {"query": "copies", "batchId": "7"}
    options = write_options(GIVEN | given)
    assert batch_of_options(options) == SinkBatch(Sink("copies/orders", "orders"), 7)
    apart = write_options(GIVEN | given | {"sinkId": "b"})
    assert batch_of_options(apart) == SinkBatch(Sink("copies/b", "orders"), 7)


def test_a_stream_takes_its_name_from_its_checkpoint(ddl):
    schema = ddl("body string")
    with pytest.raises(OptionIllegal, match="streams are told apart by 'sinkId'"):
        stream_writer({**GIVEN, "writeId": "w"}, schema, overwrite=False)
    with pytest.raises(OptionIllegal, match="a stream is named by its checkpoint"):
        stream_writer({**GIVEN, "query": "q", "batchId": "1"}, schema, overwrite=False)
