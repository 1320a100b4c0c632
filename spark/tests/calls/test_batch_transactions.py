"""Batches of sinks against real brokers, without Spark."""

import contextlib
import time
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pyarrow as pa
import pytest

from ariane.broker.v1.sink_service_pb2 import NoteSinkHomeRequest, SinkHome
from ariane.broker.v1.sink_service_pb2_grpc import SinkServiceStub
from ariane.broker.v1.topic_service_pb2 import CreateTopicRequest, Topic
from ariane.broker.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane_sdk import Message
from ariane_sdk.errors import (
    ArianeError,
    BatchDiffers,
    CallError,
    RouteNotFound,
    ServiceUnavailable,
    TransactionDecided,
)
from ariane_spark.calls.batch_transactions import BatchTransactions
from ariane_spark.calls.sink_batches import Sink, SinkBatch
from ariane_spark.errors import FeatureNotAvailable, QueueNotFound, RowIllegal
from ariane_spark.options.options import RequestPolicy
from ariane_spark.records.bad_rows import BODY_BYTES_MAX
from ariane_spark.records.contents import Contents
from ariane_spark.records.rows import IdentitySeed, RowPlan
from ariane_spark.sink.staging import StagedAttempt
from ariane_wire import blocking

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

    def stage(batch, numbers, partition_id=0):
        staged = StagedAttempt(calls, batch, partition_id, name="test", block_bytes_max=1024)
        rows = pa.record_batch({"body": pa.array(map(str, numbers))})
        for part in plan.tables(rows, IdentitySeed("test"), 0):
            staged.add(part)
        return staged.finish()

    return stage


def test_a_home_stays_whoever_asks(calls, sink, local_cluster):
    home = calls.home_of(sink)
    others = BatchTransactions(local_cluster.name_servers, IMPATIENT)
    assert others.home_of(sink) == calls.home_of(sink) == home


def test_the_largest_body_is_written_with_either_guarantee(calls, sink, ddl, topic, producer):
    plan = RowPlan.of(ddl("body binary"), topic)

    def write(batch_id, body_bytes):
        rows = pa.record_batch({"body": pa.array([bytes(body_bytes)])})
        [share] = plan.tables(rows, IdentitySeed("test"), 0)
        batch = SinkBatch(sink, batch_id)
        staged = StagedAttempt(calls, batch, 0, name="test", block_bytes_max=1024)
        staged.add(share)
        calls.commit(batch, staged.finish(), Contents(1, 1))
        producer.send_columns(topic, share.table)

    for batch_id, missing in enumerate((0, 1, 200, 4000)):
        write(batch_id, BODY_BYTES_MAX - missing)
    with pytest.raises(RowIllegal, match=f"{BODY_BYTES_MAX + 1} bytes; {BODY_BYTES_MAX} are"):
        write(4, BODY_BYTES_MAX + 1)


def test_sinks_are_shared_among_brokers(calls, topic):
    homes = {calls.home_of(Sink(f"{uuid4()}", topic)) for _ in range(24)}
    assert homes == {"broker-a", "broker-b"}


def test_sinks_whose_rows_name_topics_have_a_home_too(calls):
    sink = Sink(str(uuid4()), None)
    assert calls.home_of(sink) == calls.home_of(sink)


def test_a_sink_without_a_topic_to_write_to(calls):
    with pytest.raises(RouteNotFound):
        calls.home_of(Sink(str(uuid4()), "nowhere"))


def test_rows_for_a_topic_that_is_not_there_name_it(calls, ddl):
    plan = RowPlan.of(ddl("body string, topic string"), None)
    batch = SinkBatch(Sink(str(uuid4()), None), 0)
    staged = StagedAttempt(calls, batch, 0, name="test", block_bytes_max=1024)
    [part] = plan.tables(
        pa.record_batch({"body": ["x"], "topic": ["nowhere"]}), IdentitySeed("test"), 0
    )

    with pytest.raises(ArianeError, match="nowhere"):
        staged.add(part)


def test_a_home_that_is_away_is_waited_for(calls, sink, client):
    calls.home_of(sink)
    for broker in client.list_brokers():
        with blocking.insecure_channel(broker.address) as channel:
            note = SinkHome(broker_name="broker-z", move_count=1)
            request = NoteSinkHomeRequest(query_id=sink.name, topic=sink.topic, home=note)
            SinkServiceStub(channel).NoteSinkHome(request)
    with pytest.raises(ServiceUnavailable, match="broker broker-z, which decides for"):
        calls.is_committed(SinkBatch(sink, 0))


def test_what_is_named_becomes_visible_once(calls, sink, stage):
    batch = SinkBatch(sink, 5)
    first, second = stage(batch, range(300)), stage(batch, range(40), 1)
    assert {part.broker_name for part in first} == {"broker-a", "broker-b"}
    stage(batch, range(300))  # The twin of the first, which lost.
    assert not calls.is_committed(batch)
    rows = Contents(340, 77)
    assert not calls.commit(batch, [*first, *second], rows)
    assert calls.commit(batch, [*first, *second], rows)
    assert calls.commit(batch, [], rows)
    assert calls.is_committed(SinkBatch(sink, 4))
    assert not calls.is_committed(SinkBatch(sink, 6))
    assert calls.abort(batch)
    with pytest.raises(TransactionDecided):
        stage(batch, range(3))
    for other in (Contents(300, 77), Contents(340, 78)):
        with pytest.raises(BatchDiffers) as refusal:
            calls.commit(batch, [], other)
        assert refusal.value.committed_count == 340
    with pytest.raises(BatchDiffers, match="too long ago to tell") as refusal:
        calls.commit(SinkBatch(sink, 4), [], rows)
    assert refusal.value.committed_count is None


def test_what_was_aborted_is_staged_anew(calls, sink, stage):
    batch = SinkBatch(sink, 0)
    stage(batch, range(10))
    assert not calls.abort(batch)
    assert not calls.commit(batch, stage(batch, range(7)), Contents(7, 1))


def test_a_sink_may_leave_brokers_out(calls, topic, stage, client):
    sink = Sink(f"{uuid4()}/{topic}", topic, ("broker-b",))
    assert calls.home_of(sink) == "broker-b"
    parts = stage(SinkBatch(sink, 0), range(300))
    assert [part.broker_name for part in parts] == ["broker-b"]
    assert not calls.commit(SinkBatch(sink, 0), parts, Contents(300, 1))
    with pytest.raises(QueueNotFound, match="none of broker-x is a broker of"):
        calls.home_of(Sink(f"{uuid4()}/{topic}", topic, ("broker-x",)))


def test_bad_rows_go_to_brokers_of_the_sink_only(calls, topic, client, stage_on):
    for broker in client.list_brokers():
        with blocking.insecure_channel(broker.address) as channel:
            own = Topic(topic=f"{topic}-{broker.broker_name}")
            TopicServiceStub(channel).CreateTopic(CreateTopicRequest(topic=own), timeout=60)
    here, elsewhere = f"{topic}-broker-b", f"{topic}-broker-a"
    for name in (here, elsewhere):
        until_s = time.monotonic() + 60
        while not is_routed(client, name):
            assert time.monotonic() < until_s
            time.sleep(0.02)
    sink = Sink(f"{uuid4()}/{here}", here)

    parts = stage_on(sink, topic)

    assert [part.broker_name for part in parts] == ["broker-b"]
    assert not calls.commit(SinkBatch(sink, 0), parts, Contents(300, 1))
    with pytest.raises(QueueNotFound, match=f"{elsewhere} has no queue .* broker of topic {here}"):
        stage_on(sink, elsewhere)


def is_routed(client, topic):
    with contextlib.suppress(RouteNotFound):
        return bool(client.route(topic).brokers)


@pytest.fixture
def stage_on(calls, ddl):
    """Stage 300 rows of a sink in a topic that need not be its own."""

    def stage(sink, topic):
        staged = StagedAttempt(calls, SinkBatch(sink, 0), 0, name="test", block_bytes_max=1024)
        rows = pa.record_batch({"body": pa.array(map(str, range(300)))})
        for part in RowPlan.of(ddl("body string"), topic).tables(rows, IdentitySeed("test"), 0):
            staged.add(part)
        return staged.finish()

    return stage


@pytest.fixture
def grouped(calls, ddl):
    """Stage and commit rows of 20 message groups; the groups by broker and queue."""

    def grouped(topic, brokers=()):
        plan = RowPlan.of(ddl("body string, messageGroup string"), topic)
        batch = SinkBatch(Sink(f"{uuid4()}/{topic}", topic, brokers), 0)
        staged = StagedAttempt(calls, batch, 0, name="test", block_bytes_max=1024)
        names = [f"group-{number % 20}" for number in range(400)]
        rows = pa.record_batch({"body": [str(row) for row in range(400)], "messageGroup": names})
        for share in plan.tables(rows, IdentitySeed("test"), 0):
            staged.add(share)
        parts = staged.finish()
        calls.commit(batch, parts, Contents(400, 1))
        return parts

    return grouped


def test_message_groups_of_a_fifo_topic_go_to_the_brokers_of_its_division(
    grouped, client, topic, producer
):
    fifo = f"{topic}-fifo"
    client.create_topic(fifo, queue_count=2, fifo=True)
    parts = grouped(fifo)
    assert {part.broker_name for part in parts} == {"broker-a", "broker-b"}
    # Where a producer sends them.
    sent = producer.send_batch(
        [Message(fifo, b"x", message_group=f"group-{number}") for number in range(20)]
    )
    assert sum(part.record_count for part in parts if part.broker_name == "broker-a") == (
        20 * sum(each.message_queue.broker_name == "broker-a" for each in sent)
    )
    with pytest.raises(FeatureNotAvailable, match="are divided among all of its brokers"):
        grouped(fifo, ("broker-a",))


@pytest.fixture
def stage_for_later(calls, ddl):
    """Stage rows of numbers and delivery times, three in a call or so."""

    def stage(topic, times, groups=None):
        columns = {"body": [str(row) for row in range(len(times))], "deliveryTimestamp": times}
        names = "body string, deliveryTimestamp timestamp"
        if groups is not None:
            columns["messageGroup"], names = groups, f"{names}, messageGroup string"
        plan = RowPlan.of(ddl(names), topic)
        batch = SinkBatch(Sink(str(uuid4()), topic), 0)
        staged = StagedAttempt(calls, batch, 0, name="a task", block_bytes_max=700)
        rows = pa.record_batch({name: pa.array(values) for name, values in columns.items()})
        for part in plan.tables(rows, IdentitySeed("test"), 100):
            staged.add(part)
        return staged.finish()

    return stage


def test_a_row_for_too_late_a_time_is_named(stage_for_later, topic):
    now = datetime.now(UTC)
    times = [None, now, now + timedelta(days=39)] * 4
    assert sum(part.record_count for part in stage_for_later(topic, times)) == 12
    times[7] = now + timedelta(days=41)
    with pytest.raises(RowIllegal, match=r"row 107 of a task: .* more than 40 days ahead"):
        stage_for_later(topic, times)


def test_message_groups_and_what_keeps_their_order_refuse_delays(stage_for_later, topic, client):
    soon = datetime.now(UTC) + timedelta(seconds=1)
    with pytest.raises(RowIllegal, match=r"row 101 of a task: .*it cannot be delayed"):
        stage_for_later(topic, [soon, soon], ["", "g"])
    fifo = f"{topic}-fifo"
    client.create_topic(fifo, queue_count=1, fifo=True)
    with pytest.raises(CallError, match="accepts FIFO messages, not"):
        stage_for_later(fifo, [soon, soon])


def others(home):
    """The broker that is not the home."""
    return {"broker-a": "broker-b", "broker-b": "broker-a"}[home]


def test_a_sink_that_is_moved_goes_on_elsewhere_and_repeats_nothing(calls, sink, stage, client):
    home = calls.home_of(sink)
    done, half = SinkBatch(sink, 0), SinkBatch(sink, 1)
    calls.commit(done, stage(done, range(30)), Contents(30, 7))
    attempts = stage(half, range(20))

    moved = client.move_sink(sink.name, others(home))

    assert (moved.home, moved.target, moved.batch_id) == (home, others(home), 0)
    assert calls.home_of(sink) == others(home)
    assert calls.is_committed(done)
    assert calls.commit(done, [], Contents(30, 7))
    # What was staged counts, whoever decides.
    assert not calls.commit(half, attempts, Contents(20, 8))
    [report] = client.list_sinks(sink.name)
    assert (report.home, report.batch_id, report.row_count) == (others(home), 1, 20)
    assert (report.topic, report.staged_row_count, report.failure) == (sink.topic, 0, "")


def test_whoever_meets_half_a_move_ends_it(calls, sink, stage, client):
    home = calls.home_of(sink)
    done = SinkBatch(sink, 0)
    calls.commit(done, stage(done, range(30)), Contents(30, 7))
    # The mover dies when only the home of before knows.
    address = next(b.address for b in client.list_brokers() if b.broker_name == home)
    with blocking.insecure_channel(address) as channel:
        note = SinkHome(broker_name=others(home), move_count=1)
        request = NoteSinkHomeRequest(query_id=sink.name, topic=sink.topic, home=note)
        SinkServiceStub(channel).NoteSinkHome(request)

    assert calls.home_of(sink) == others(home)

    assert calls.is_committed(done)
    assert calls.commit(done, [], Contents(30, 7))


def test_a_sink_that_was_deleted_begins_anew(calls, sink, stage, client):
    batch = SinkBatch(sink, 0)
    calls.commit(batch, stage(batch, range(30)), Contents(30, 7))
    stage(SinkBatch(sink, 1), range(5))

    deleted = client.delete_sink(sink.name)

    assert deleted.broker_names == ("broker-a", "broker-b")
    assert (deleted.dropped_row_count, deleted.lost_row_count) == (5, 0)
    assert client.list_sinks(sink.name) == []
    assert not calls.is_committed(batch)
