"""Batches of sinks against real brokers, without Spark."""

from uuid import uuid4

import pyarrow as pa
import pytest

from ariane_sdk.errors import RouteNotFound, ServiceUnavailable, TransactionDecided
from ariane_spark.batch_transactions import BatchTransactions
from ariane_spark.options import RequestPolicy
from ariane_spark.rows import IdentitySeed, RowPlan
from ariane_spark.sink_batches import Sink, SinkBatch
from ariane_spark.staging import StagedAttempt

IMPATIENT = RequestPolicy(timeout_ms=2000, retries_max=1, backoff_ms=1)


@pytest.fixture
def calls(local_cluster):
    return BatchTransactions(local_cluster.name_servers, IMPATIENT)


@pytest.fixture
def sink(topic):
    return Sink(f"{uuid4()}/{topic}", topic)


@pytest.fixture
def plan(ddl, topic):
    return RowPlan.of(ddl("body string"), topic)


@pytest.fixture
def stage(calls, plan):
    """Stage numbers as an attempt of a task; what a commit has to name."""

    def stage(batch, numbers, partition_id=0, home=None):
        home = home or calls.home_of(batch.sink)
        staged = StagedAttempt(calls, batch, home, partition_id, block_bytes_max=1024)
        rows = pa.record_batch({"body": pa.array(map(str, numbers))})
        for topic, table, _ in plan.tables(rows, IdentitySeed("test"), 0):
            staged.add(topic, table)
        return staged.finish()

    return stage


def test_a_home_stays_whoever_asks(calls, sink, local_cluster):
    assert calls.noted_home_of(sink) is None
    home = calls.home_of(sink)
    others = BatchTransactions(local_cluster.name_servers, IMPATIENT)
    assert others.noted_home_of(sink) == others.home_of(sink) == calls.home_of(sink) == home


def test_sinks_are_shared_among_brokers(calls, topic):
    homes = {calls.home_of(Sink(f"{uuid4()}", topic)) for _ in range(24)}
    assert homes == {"broker-a", "broker-b"}


def test_sinks_whose_rows_name_topics_have_a_home_too(calls):
    sink = Sink(str(uuid4()), None)
    assert calls.home_of(sink) == calls.home_of(sink)


def test_a_sink_without_a_topic_to_write_to(calls):
    with pytest.raises(RouteNotFound):
        calls.home_of(Sink(str(uuid4()), "nowhere"))


def test_a_home_that_is_away_is_waited_for(calls, sink):
    with pytest.raises(ServiceUnavailable, match="no address of broker broker-z is known"):
        calls.is_committed("broker-z", SinkBatch(sink, 0))


def test_what_is_named_becomes_visible_once(calls, sink, stage):
    home = calls.home_of(sink)
    batch = SinkBatch(sink, 5)
    first, second = stage(batch, range(300)), stage(batch, range(40), 1)
    stage(batch, range(300))  # The twin of the first, which lost.
    assert not calls.is_committed(home, batch)
    for _ in range(2):
        assert calls.commit(home, batch, [first, second]) == 340
    assert calls.is_committed(home, SinkBatch(sink, 4))
    assert not calls.is_committed(home, SinkBatch(sink, 6))
    assert calls.abort(home, batch)
    with pytest.raises(TransactionDecided):
        stage(batch, range(3), home=home)
    with pytest.raises(TransactionDecided):
        calls.commit(home, batch, [first])


def test_what_was_aborted_is_staged_anew(calls, sink, stage):
    home = calls.home_of(sink)
    batch = SinkBatch(sink, 0)
    stage(batch, range(10))
    assert not calls.abort(home, batch)
    assert calls.commit(home, batch, [stage(batch, range(7))]) == 7
