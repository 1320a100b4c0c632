"""What the driver makes of the receipts of all tasks."""

from dataclasses import replace

import pytest

from ariane_sdk.errors import ServiceUnavailable
from ariane_spark.batch_transactions import Attempt
from ariane_spark.errors import CommitRefused
from ariane_spark.exactly_once import ExactlyOnceWrite, StageReceipt
from ariane_spark.options import WriteOptions
from ariane_spark.rows import RowPlan
from ariane_spark.sink_batches import Sink, SinkBatch

SINK = Sink("query/orders", "orders")
BATCH = SinkBatch(SINK, 7)
STAGED = [
    StageReceipt(BATCH, "broker-a", Attempt(partition, f"token-{partition}", 5, 99))
    for partition in range(2)
]
DONE_BEFORE = replace(STAGED[0], attempt=None)


class Broker:
    """Answers as the home of a sink, and remembers what it was asked to do."""

    def __init__(self):
        self.home = "broker-a"
        self.committed = False
        self.commits, self.aborts = [], []
        self.failure = None

    def home_of(self, sink):
        return self.home

    def noted_home_of(self, sink):
        return self.home

    def is_committed(self, home, batch):
        return self.committed

    def commit(self, home, batch, attempts):
        self.commits.append((home, batch, list(attempts)))

    def abort(self, home, batch):
        if self.failure is not None:
            raise self.failure
        self.aborts.append((home, batch))


@pytest.fixture
def broker():
    return Broker()


@pytest.fixture
def write(broker):
    options = WriteOptions("n:1", topic="orders", exactly_once=True)
    return ExactlyOnceWrite(options, RowPlan({"body": 0}, "orders"), None, lambda _options: broker)


def test_what_all_tasks_staged_is_committed_by_name(broker, write):
    write.commit(STAGED, 7)

    assert broker.commits == [("broker-a", BATCH, [each.attempt for each in STAGED])]


def test_nothing_at_all_is_nothing_to_commit(broker, write):
    write.commit([None, None], 7)

    assert broker.commits == []


def test_a_batch_that_was_committed_before_is_left_and_told(broker, write, caplog):
    broker.committed = True

    write.commit([STAGED[0], DONE_BEFORE], 7)

    assert broker.commits == []
    assert "batch 7 of query/orders was committed before" in caplog.text


@pytest.mark.parametrize(
    ("receipts", "batch_id", "clause"),
    [
        ([STAGED[0], replace(STAGED[1], home="broker-b")], 7, "do not agree"),
        ([STAGED[0], replace(STAGED[1], batch=SinkBatch(SINK, 6))], 7, "do not agree"),
        (STAGED, 8, "do not agree"),
        ([STAGED[0], DONE_BEFORE], 7, "has forgotten that batch 7"),
    ],
)
def test_receipts_that_do_not_fit_together_commit_nothing(
    broker, write, receipts, batch_id, clause
):
    with pytest.raises(CommitRefused, match=clause):
        write.commit(receipts, batch_id)

    assert broker.commits == []


def test_a_home_that_moved_commits_nothing(broker, write):
    broker.home = "broker-b"

    with pytest.raises(CommitRefused, match="writes to another broker than broker-a"):
        write.commit(STAGED, 7)

    assert broker.commits == []


def test_an_abort_drops_what_receipts_name_and_never_fails(broker, write, caplog):
    write.abort([None, STAGED[0]])
    write.abort([None, None])
    assert broker.aborts == [("broker-a", BATCH)]

    broker.failure = ServiceUnavailable("down", retriable=True)
    write.abort(STAGED)
    assert "stays until it grows old: down" in caplog.text


def test_a_write_that_was_named_at_random_is_aborted_without_receipts(broker, write):
    replace(write, drawn_id="drawn").abort([None])

    assert broker.aborts == [("broker-a", SinkBatch(Sink("write/drawn", "orders", fresh=True), 0))]
