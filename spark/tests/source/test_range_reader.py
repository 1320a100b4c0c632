"""Reading ranges in a task: order, repetition, loss."""

import logging

import pytest

from ariane_record.decoding import columns
from ariane_sdk.errors import RecordDamaged, RouteNotFound, ServiceUnavailable, TopicRefused
from ariane_spark.calls.cluster import Fetch, RangeChunk
from ariane_spark.calls.repetition import Repetition
from ariane_spark.errors import DataLost, MessageDamaged
from ariane_spark.options.option_table import Use
from ariane_spark.options.options import RequestPolicy, read_options
from ariane_spark.positions.ranges import QueueRange
from ariane_spark.records.columns import Detail, Projection, message_schema
from ariane_spark.source.range_reader import AHEAD_RECORDS_MAX, AHEAD_STREAMS_MAX, RangeReader

PROJECTION = Projection.of(message_schema(["queueId", "queueOffset"]))


class Sleeps(list):
    def __call__(self, seconds):
        self.append(seconds)


def read(cluster, *ranges, sleeps=None, **given):
    options = read_options({"endpoints": "n:1", "topic": "orders", **given}, Use.BATCH_READ)
    reader = RangeReader(cluster, options, sleep=Sleeps() if sleeps is None else sleeps)
    return [
        (row["queueId"], row["queueOffset"])
        for batch in reader.batches(ranges, PROJECTION)
        for row in batch.to_pylist()
    ]


def test_ranges_are_read_one_after_the_other_in_order(cluster):
    queue_0 = cluster.add("orders", "broker-a", 0, 9)
    queue_1 = cluster.add("orders", "broker-a", 1, 9)

    rows = read(cluster, QueueRange(queue_0, 2, 5), QueueRange(queue_1, 7, 9))

    assert rows == [(0, 2), (0, 3), (0, 4), (1, 7), (1, 8)]
    assert cluster.reads == [
        (QueueRange(queue_0, 2, 5), Detail.POSITIONS),
        (QueueRange(queue_1, 7, 9), Detail.POSITIONS),
    ]


def test_a_broken_stream_goes_on_behind_the_last_record(cluster):
    queue = cluster.add("orders", "broker-a", 0, 6)
    sleeps = Sleeps()
    # At the start, after the first chunk, and at the end of the range.
    cluster.failures = [ServiceUnavailable("down", retriable=True) for _ in range(2)]

    rows = read(cluster, QueueRange(queue, 0, 6), sleeps=sleeps)

    assert rows == [(0, at) for at in range(6)]
    assert [part.begin for part, _ in cluster.reads] == [0, 0, 0]
    assert sleeps == [0.1, 0.2]


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_topic_whose_broker_is_away_is_asked_for_again_and_is_not_lost(cluster, fails):
    queue = cluster.add("orders", "broker-a", 0, 4)
    away = RouteNotFound("away", retriable=True, metadata={"away_brokers": "broker-a"})
    cluster.failures = [away]
    rows = read(cluster, QueueRange(queue, 0, 4), failOnDataLoss=fails)
    assert rows == [(0, at) for at in range(4)]
    cluster.failures = [away] * 9
    with pytest.raises(RouteNotFound):
        read(cluster, QueueRange(queue, 0, 4), failOnDataLoss=fails)


@pytest.mark.parametrize("back", [4, 3, 0])
def test_a_broker_that_leads_back_ends_the_read(cluster, back):
    queue = cluster.add("orders", "broker-a", 0, 9)
    cluster.chunk_records = 2
    chunks = cluster.read_range

    def leading_back(part, fetch):
        for chunk in chunks(part, fetch):
            at = chunk.next_queue_offset
            yield chunk._replace(next_queue_offset=back if at == 6 else at)

    cluster.read_range = leading_back
    with pytest.raises(
        RecordDamaged, match=rf"orders@broker-a#0 \[4, 9\): .* leads back to {back}"
    ):
        read(cluster, QueueRange(queue, 0, 9))
    assert len(cluster.reads) == 1


def test_progress_starts_the_count_of_failures_anew(cluster):
    queue = cluster.add("orders", "broker-a", 0, 4)
    down = ServiceUnavailable("down", retriable=True)
    chunks = cluster.read_range

    def one_chunk_a_stream(*arguments):
        stream = chunks(*arguments)
        yield next(stream)
        raise down

    cluster.read_range = one_chunk_a_stream
    cluster.chunk_records = 1

    assert read(cluster, QueueRange(queue, 0, 4), numRetries="1") == [(0, at) for at in range(4)]


def test_a_broker_that_stays_away_ends_the_read(cluster):
    queue = cluster.add("orders", "broker-a", 0, 4)
    sleeps = Sleeps()
    cluster.failures = [ServiceUnavailable(f"down {n}", retriable=True) for n in range(9)]

    with pytest.raises(ServiceUnavailable, match="down 2"):
        read(cluster, QueueRange(queue, 0, 4), sleeps=sleeps, numRetries="2")

    assert sleeps == [0.1, 0.2]


def test_the_broker_may_ask_for_a_longer_wait(cluster):
    queue = cluster.add("orders", "broker-a", 0, 1)
    sleeps = Sleeps()
    cluster.failures = [ServiceUnavailable("full", retriable=True, retry_after_s=3.0)]

    read(cluster, QueueRange(queue, 0, 1), sleeps=sleeps)

    assert sleeps == [3.0]


def test_a_refusal_is_not_repeated(cluster):
    queue = cluster.add("orders", "broker-a", 0, 4)
    cluster.failures = [TopicRefused("no")]

    with pytest.raises(TopicRefused):
        read(cluster, QueueRange(queue, 0, 4))


def test_messages_that_are_gone_fail_the_read_and_say_everything(cluster):
    queue = cluster.add("orders", "broker-a", 0, 10)
    cluster.earliest[queue] = 4

    with pytest.raises(DataLost) as loss:
        read(cluster, QueueRange(queue, 1, 8))

    assert str(loss.value) == (
        "orders@broker-a#0: [1, 8) was to be read, [4, 10) is kept; 3 messages are lost. To skip"
        " what is lost and go on, set the option 'failOnDataLoss' to 'false'; what is skipped is"
        " then counted in the log."
    )


def test_damaged_messages_are_a_loss(cluster, caplog):
    queue = cluster.add("orders", "broker-a", 0, 10)
    cluster.lost = [(3, 2)]
    with pytest.raises(DataLost, match="2 messages from 3 on are lost: damaged in the broker"):
        read(cluster, QueueRange(queue, 1, 8))

    with caplog.at_level(logging.WARNING):
        assert read(cluster, QueueRange(queue, 1, 8), failOnDataLoss="false")
    (said,) = [record.getMessage() for record in caplog.records]
    assert "2 messages from 3 on are lost" in said


def test_messages_that_are_gone_are_skipped_and_counted_where_that_is_wanted(cluster, caplog):
    queue = cluster.add("orders", "broker-a", 0, 10)
    cluster.earliest[queue] = 4

    with caplog.at_level(logging.WARNING):
        rows = read(cluster, QueueRange(queue, 1, 8), failOnDataLoss="false")

    assert rows == [(0, 4), (0, 5), (0, 6), (0, 7)]
    assert [record.getMessage() for record in caplog.records] == [
        "orders@broker-a#0: [1, 8) was to be read, [4, 10) is kept; 3 messages are lost"
    ]


@pytest.mark.parametrize("begin", [5, 12])
def test_a_queue_that_lost_its_end(cluster, caplog, begin):
    queue = cluster.add("orders", "broker-a", 0, 7)
    lost = QueueRange(queue, begin, 14)

    with pytest.raises(DataLost, match=f"{14 - max(begin, 7)} messages are lost"):
        read(cluster, lost, numRetries="1")

    assert read(cluster, lost, numRetries="1", failOnDataLoss="false") == [
        (0, at) for at in range(begin, 7)
    ]
    assert "messages are lost" in caplog.text


def test_a_reader_that_stops_early_ends_the_stream(cluster):
    count = AHEAD_RECORDS_MAX + 1
    queue = cluster.add("orders", "broker-a", 0, count)
    options = read_options({"endpoints": "n:1", "topic": "orders"}, Use.BATCH_READ)
    batches = RangeReader(cluster, options).batches([QueueRange(queue, 0, count)], PROJECTION)
    assert len(next(batches)) == cluster.chunk_records
    assert cluster.open_streams == 1

    batches.close()

    assert cluster.open_streams == 0


def test_tags_need_no_properties_here_since_brokers_compare_them(cluster):
    queue = cluster.add("orders", "broker-a", 0, 8, tags=("Aa", "BB", "C", "D"))

    assert read(cluster, QueueRange(queue, 0, 8), tag="Aa") == [(0, 0), (0, 4)]
    assert read(cluster, QueueRange(queue, 0, 8), tag="BB || D") == [(0, 1), (0, 3), (0, 5), (0, 7)]
    assert {detail for _, detail in cluster.reads} == {Detail.POSITIONS}


def bodies(cluster, queue, **given):
    options = read_options({"endpoints": "n:1", "topic": "orders", **given}, Use.BATCH_READ)
    schema = Projection.of(message_schema(["body", "topic", "queueOffset"]))
    ranges = [QueueRange(queue, 0, len(cluster.queues[queue]))]
    batches = list(RangeReader(cluster, options).batches(ranges, schema))
    assert all(batch.schema == schema.arrow_schema for batch in batches)
    return [(r["queueOffset"], r["body"]) for batch in batches for r in batch.to_pylist()]


@pytest.mark.parametrize("damaged", [{0}, {3, 4}, {8}, set(range(9))])
def test_a_damaged_body_ends_a_query_by_name_or_is_null(cluster, damaged):
    queue = cluster.add("orders", "broker-a", 0, 9)
    cluster.compress(queue, damaged)

    with pytest.raises(MessageDamaged, match=rf"0 at {min(damaged)}: .*'onDamagedBody' to 'null'"):
        bodies(cluster, queue)
    assert bodies(cluster, queue, onDamagedBody="null") == [
        (place, None if place in damaged else b"%d" % place) for place in range(9)
    ]
    # Where bodies are not read, nothing is wrong with them.
    assert len(read(cluster, QueueRange(queue, 0, 9))) == 9


def test_bodies_that_are_too_large_together_come_in_several_batches(cluster, monkeypatch):
    monkeypatch.setattr(columns, "DECOMPRESSED_TOTAL_BYTES_MAX", 2)
    queue = cluster.add("orders", "broker-a", 0, 9)
    cluster.compress(queue, ())

    assert bodies(cluster, queue) == [(place, b"%d" % place) for place in range(9)]


def test_a_filter_that_leaves_nothing_is_no_loss(cluster):
    queue = cluster.add("orders", "broker-a", 0, 8)

    assert read(cluster, QueueRange(queue, 0, 8), tag="neither") == []
    assert len(cluster.reads) == 1


def test_waits_do_not_grow_beyond_what_a_number_holds():
    waits = []
    repetition = Repetition(RequestPolicy(retries_max=10_000), sleep=waits.append)

    repetition.wait(5_000)

    assert waits == [5.0]


@pytest.mark.parametrize(
    ("given", "detail", "found"),
    [
        ({}, Detail.RECORDS, Fetch(Detail.RECORDS, 2 << 20)),
        ({}, Detail.PROPERTIES, Fetch(Detail.PROPERTIES, 4 << 20)),
        ({"fetchMaxBytes": "65536"}, Detail.RECORDS, Fetch(Detail.RECORDS, 65536)),
        ({"fetchMaxBytes": "65536"}, Detail.POSITIONS, Fetch(Detail.POSITIONS, 4 * 65536)),
        ({"tag": "t"}, Detail.POSITIONS, Fetch(Detail.POSITIONS, 4 << 20, frozenset({"t"}))),
    ],
)
def test_chunks_without_bodies_cover_more_records(given, detail, found):
    options = read_options({"endpoints": "n:1", "topic": "orders", **given}, Use.BATCH_READ)

    assert Fetch.of(detail, options) == found


class Asked:
    """A cluster that notes when it is asked for a range, and not only when one is read."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.begun = []
        self.read_before = []

    def read_range(self, part, fetch):
        self.begun.append(part)
        self.read_before.append(len(self.cluster.reads))
        return self.cluster.read_range(part, fetch)


def small_ranges(cluster, count, messages=3):
    queues = [cluster.add("orders", "broker-a", number, messages) for number in range(count)]
    return [QueueRange(queue, 0, messages) for queue in queues]


def reader_of(source, **given):
    options = read_options({"endpoints": "n:1", "topic": "orders", **given}, Use.BATCH_READ)
    return RangeReader(source, options, sleep=Sleeps())


def test_small_ranges_are_asked_for_ahead_of_their_turn(cluster):
    ranges = small_ranges(cluster, 20)
    asked = Asked(cluster)

    batches = reader_of(asked).batches(ranges, PROJECTION)

    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [(row["queueId"], row["queueOffset"]) for row in rows] == [
        (part.queue.queue_id, at) for part in ranges for at in range(3)
    ]
    assert asked.begun == ranges
    ahead = AHEAD_STREAMS_MAX + 1
    assert asked.read_before[: ahead + 2] == [0] * ahead + [1, 2]


def test_large_ranges_are_asked_for_when_it_is_their_turn(cluster):
    cluster.chunk_records = 1000
    ranges = small_ranges(cluster, 2, messages=AHEAD_RECORDS_MAX + 1)
    asked = Asked(cluster)

    next(reader_of(asked).batches(ranges, PROJECTION))

    assert asked.begun == ranges[:1]


def test_what_was_asked_for_ahead_and_fails_is_asked_for_again(cluster):
    cluster.chunk_records = 3
    ranges = small_ranges(cluster, 3)
    asked = Asked(cluster)
    # The first range is read at once, and the second one at the fourth request.
    down = [ServiceUnavailable("down", retriable=True) for _ in range(3)]
    cluster.failures = [None, None, *down]

    batches = reader_of(asked).batches(ranges, PROJECTION)

    rows = [row for batch in batches for row in batch.to_pylist()]

    assert [(row["queueId"], row["queueOffset"]) for row in rows] == [
        (number, at) for number in range(3) for at in range(3)
    ]
    assert asked.begun[3:] == 3 * ranges[1:2]


def test_stopping_early_ends_what_was_asked_for(cluster):
    closed = []

    class Streams(Asked):
        def read_range(self, part, fetch):
            stream = self.cluster.read_range(part, fetch)

            class Noted:
                def __iter__(self):
                    return stream

                def close(self):
                    closed.append(part)
                    stream.close()

            return Noted()

    ranges = small_ranges(cluster, 12)
    batches = reader_of(Streams(cluster)).batches(ranges, PROJECTION)
    next(batches)
    batches.close()

    assert sorted(closed) == ranges
    assert cluster.open_streams == 0


def test_a_range_whose_queue_lost_its_end_since_it_was_planned_is_a_loss(cluster, caplog):
    queue = cluster.add("orders", "broker-a", 0, 10)
    cluster.log_epoch, cluster.kept_ends[queue] = 2, 6
    planned = QueueRange(queue, 4, 8, log_epoch=1)
    with pytest.raises(DataLost, match="up to 6 only"):
        read(cluster, planned)
    assert read(cluster, planned, failOnDataLoss="false") == [(0, at) for at in range(4, 8)]
    assert "up to 6 only" in caplog.text
    assert len(read(cluster, QueueRange(queue, 4, 6, log_epoch=1))) == 2


@pytest.mark.parametrize("cut", [False, True])
def test_a_loss_that_is_skipped_is_no_failure_to_repeat(cluster, cut):
    """The broker has answered: nothing is waited for, however few repeats are allowed."""
    queue = cluster.add("orders", "broker-a", 0, 6)
    part = QueueRange(queue, 0, 6)
    if cut:
        part = QueueRange(queue, 0, 6, log_epoch=1)
        cluster.log_epoch, cluster.kept_ends[queue] = 2, 4
    else:
        cluster.earliest[queue] = 2
    sleeps = Sleeps()

    rows = read(cluster, part, sleeps=sleeps, failOnDataLoss="false", numRetries="0")

    assert rows == [(0, at) for at in range(0 if cut else 2, 6)]
    assert sleeps == []


def test_chunks_that_lead_nowhere_are_failures(cluster):
    queue = cluster.add("orders", "broker-a", 0, 3)
    sleeps = Sleeps()

    def nowhere(part, fetch):
        del fetch
        assert len(sleeps) < 5, "this never ends"
        yield RangeChunk(None, part.begin)

    cluster.read_range = nowhere

    with pytest.raises(DataLost, match=r"\[0, 3\) was to be read, but the queue ends at 0"):
        read(cluster, QueueRange(queue, 0, 3), sleeps=sleeps, numRetries="2")

    assert sleeps == [0.1, 0.2]
