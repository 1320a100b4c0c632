"""What a streaming query is told, call by call."""

import inspect
import json

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ariane_sdk.errors import RouteNotFound, ServiceUnavailable
from ariane_spark.errors import DataLost, OptionIllegal

ALL = ReadAllAvailable()


def offsets(**by_broker):
    return {"orders": {name.replace("_", "-"): {"0": at} for name, at in by_broker.items()}}


def through_spark(positions):
    """Positions as they come back from the checkpoint."""
    return json.loads(json.dumps(positions))


def ranges(reader, start, end):
    partitions = reader.partitions(through_spark(start), through_spark(end))
    return sorted(
        (part.queue.broker_name, part.begin, part.end) for p in partitions for part in p.ranges
    )


def test_spark_sees_admission_control_and_available_now(reader_with):
    reader = reader_with()

    assert isinstance(reader, SupportsTriggerAvailableNow)
    assert list(inspect.signature(reader.latestOffset).parameters) == ["start", "limit"]
    assert reader.getDefaultReadLimit() == ReadAllAvailable()
    assert reader_with(maxOffsetsPerTrigger="7").getDefaultReadLimit() == ReadMaxRows(7)


def test_a_new_query_starts_at_the_latest_and_hears_so_twice(cluster, reader_with):
    cluster.add("orders", "broker-a", 0, 10)
    reader = reader_with()
    first = reader.initialOffset()
    cluster.add("orders", "broker-a", 0, 5)

    assert first == reader.initialOffset() == offsets(broker_a=10)
    assert reader.latestOffset(through_spark(first), ALL) == offsets(broker_a=15)


def test_a_new_query_may_start_elsewhere(cluster, reader_with):
    queue = cluster.add("orders", "broker-a", 0, 10)
    cluster.add("orders", "broker-b", 0, 10)
    cluster.earliest[queue] = 2
    own = json.dumps(offsets(broker_a=4))

    assert reader_with(startingOffsets="earliest").initialOffset() == offsets(
        broker_a=2, broker_b=0
    )
    assert reader_with(startingOffsets=own).initialOffset() == offsets(broker_a=4, broker_b=0)
    assert reader_with(startingTimestamp="65").initialOffset() == offsets(broker_a=7, broker_b=7)


def test_a_report_says_where_a_query_began_until_that_is_read(cluster, reader_with):
    cluster.add("orders", "broker-a", 0, 10)
    reader = reader_with(startingOffsets="earliest")
    start = through_spark(reader.initialOffset())
    end = through_spark(reader.latestOffset(start, ReadMaxRows(4)))

    assert reader.reportLatestOffset() == {"orders": {"broker-a": {"0": 10, "begins": {"0": 0}}}}
    reader.latestOffset(end, ReadMaxRows(4))
    assert reader.reportLatestOffset() == offsets(broker_a=10)


def test_nothing_new_is_the_start_itself(cluster, reader_with):
    cluster.add("orders", "broker-b", 0, 3)
    cluster.add("orders", "broker-a", 0, 3)
    reader = reader_with(startingOffsets="earliest")
    end = through_spark(reader.latestOffset(reader.initialOffset(), ALL))

    assert reader.latestOffset(end, ALL) is end
    assert json.dumps(end) == json.dumps(offsets(broker_a=3, broker_b=3))


def test_a_limit_is_shared_by_backlog_and_reaches_the_end(cluster, reader_with):
    cluster.add("orders", "broker-a", 0, 90)
    cluster.add("orders", "broker-b", 0, 10)
    reader = reader_with(startingOffsets="earliest")
    start = through_spark(reader.initialOffset())

    first = reader.latestOffset(start, ReadMaxRows(20))
    seen = []
    while start != (end := through_spark(reader.latestOffset(start, ReadMaxRows(20)))):
        seen += ranges(reader, start, end)
        start = end

    assert first == offsets(broker_a=18, broker_b=2)
    assert start == offsets(broker_a=90, broker_b=10)
    assert sum(end - begin for _, begin, end in seen) == 100


def test_a_trigger_may_ask_for_everything_in_spite_of_the_limit(cluster, reader_with):
    cluster.add("orders", "broker-a", 0, 90)
    reader = reader_with(startingOffsets="earliest", maxOffsetsPerTrigger="5")

    assert reader.latestOffset(reader.initialOffset(), ALL) == offsets(broker_a=90)


def test_available_now_ends_where_it_was_prepared(cluster, reader_with):
    cluster.add("orders", "broker-a", 0, 10)
    reader = reader_with(startingOffsets="earliest")
    reader.prepareForTriggerAvailableNow()
    cluster.add("orders", "broker-a", 0, 10)
    cluster.add("orders", "broker-b", 0, 10)

    end = reader.latestOffset(through_spark(offsets(broker_a=0)), ALL)

    assert end == offsets(broker_a=10)
    assert reader.latestOffset(through_spark(end), ALL) == end
    assert reader.reportLatestOffset() == offsets(broker_a=20, broker_b=10)


@pytest.mark.parametrize(("limit", "reached"), [(ALL, 8), (ReadMaxRows(4), 6)])
def test_a_new_queue_is_read_from_its_earliest_at_once(cluster, reader_with, limit, reached):
    """A trigger of one micro-batch has no second one."""
    cluster.add("orders", "broker-a", 0, 3)
    reader = reader_with(startingOffsets="latest")
    start = through_spark(reader.initialOffset())
    queue = cluster.add("orders", "broker-b", 0, 8)
    cluster.earliest[queue] = 2

    second = through_spark(reader.latestOffset(start, limit))

    first_of_new = offsets(broker_a=3, broker_b=reached)
    first_of_new["orders"]["broker-b"]["begins"] = {"0": 2}
    assert second == first_of_new
    assert ranges(reader, start, second) == [("broker-b", 2, reached)]
    # A replay reads the same, or is told the loss.
    cluster.earliest[queue] = 5
    assert ranges(reader_with(), start, second) == [("broker-b", 2, reached)]
    third = through_spark(reader.latestOffset(second, ALL))
    if reached < 8:
        assert third == offsets(broker_a=3, broker_b=8)
        assert ranges(reader, second, third) == [("broker-b", 6, 8)]
    else:
        assert third == second


def test_a_replayed_batch_is_planned_from_the_log_alone(cluster, reader_with):
    cluster.add("orders", "broker-a", 0, 10)
    reader = reader_with()

    assert ranges(reader, offsets(broker_a=2), offsets(broker_a=7)) == [("broker-a", 2, 7)]
    assert cluster.questions == 0


def test_ends_are_remembered_for_a_while(cluster, clock, reader_with):
    cluster.add("orders", "broker-a", 0, 1)
    reader = reader_with(offsetCacheMs="500")
    start = through_spark(reader.initialOffset())
    cluster.add("orders", "broker-a", 0, 1)

    for _ in range(100):
        assert reader.latestOffset(start, ALL) is start
        reader.reportLatestOffset()
    assert cluster.questions == 1
    clock.now += 0.5

    assert reader.latestOffset(start, ALL) == offsets(broker_a=2)
    assert cluster.questions == 2


def test_a_queue_whose_broker_is_away_fails_the_query_or_stands_still(cluster, reader_with, caplog):
    cluster.add("orders", "broker-a", 0, 5)
    start = offsets(broker_a=1, broker_b=7)

    with pytest.raises(DataLost, match="orders@broker-b#0: no live broker offers this queue"):
        reader_with().latestOffset(start, ALL)

    reader = reader_with(failOnDataLoss="false")
    end = through_spark(reader.latestOffset(start, ALL))
    assert reader.latestOffset(end, ALL) is end
    assert end == {"orders": {"broker-a": {"0": 5}, "broker-b": {"0": 7, "done": [0]}}}
    assert caplog.text.count("no live broker offers this queue") == 1

    cluster.add("orders", "broker-b", 0, 9)
    assert reader.latestOffset(end, ALL) == offsets(broker_a=5, broker_b=9)


def test_a_queue_that_was_made_anew_fails_the_query_or_is_read_from_its_earliest(
    cluster, reader_with
):
    cluster.add("orders", "broker-a", 0, 5)
    start = offsets(broker_a=90)

    with pytest.raises(DataLost, match="read from 90 on, but ends at 5") as loss:
        reader_with().latestOffset(start, ALL)
    assert "read again" not in str(loss.value)

    reader = reader_with(failOnDataLoss="false")
    end = through_spark(reader.latestOffset(start, ReadMaxRows(100)))
    assert end == offsets(broker_a=5)
    assert ranges(reader, start, end) == [("broker-a", 0, 5)]


def test_a_start_of_the_user_that_is_not_kept_is_told_at_once_or_moved(
    cluster, reader_with, caplog
):
    queue = cluster.add("orders", "broker-a", 0, 5)
    cluster.add("orders", "broker-b", 0, 5)
    cluster.earliest[queue] = 2
    before, behind = (json.dumps(offsets(**at)) for at in ({"broker_a": 1}, {"broker_b": 9}))

    for own, clause in (
        (before, r"orders@broker-a#0: .* 1 message is lost"),
        (behind, "orders@broker-b#0: was to be read from 9 on, but ends at 5"),
    ):
        with pytest.raises(DataLost, match=clause):
            reader_with(startingOffsets=own).initialOffset()

    lenient = reader_with(startingOffsets=before, failOnDataLoss="false")
    assert lenient.initialOffset() == offsets(broker_a=2, broker_b=0)
    lenient = reader_with(startingOffsets=behind, failOnDataLoss="false")
    assert lenient.initialOffset() == offsets(broker_a=2, broker_b=5)
    assert "was to be read from 9 on" in caplog.text


@pytest.mark.parametrize("foreign", [{"rate": 5}, {"orders": {"0": 23}}, 7])
def test_a_checkpoint_of_another_kind_of_source_is_told_as_such(cluster, reader_with, foreign):
    cluster.add("orders", "broker-a", 0, 5)

    for ask in (
        lambda: reader_with().latestOffset(foreign, ALL),
        lambda: reader_with().partitions(foreign, offsets(broker_a=5)),
    ):
        with pytest.raises(OptionIllegal, match="a checkpoint of its own") as refusal:
            ask()
        assert refusal.value.option == "checkpointLocation"


@pytest.mark.parametrize(
    "selection", [{"topic": "refunds"}, {"topic": None, "assign": '["refunds/broker-a/0"]'}]
)
def test_a_checkpoint_of_a_query_that_read_something_else_is_told_as_such(
    cluster, reader_with, selection
):
    cluster.add("orders", "broker-a", 0, 5)
    cluster.add("refunds", "broker-a", 0, 5)
    start = through_spark(offsets(broker_a=3))

    with pytest.raises(DataLost, match=r"orders@broker-a#0: .* does not read it any more"):
        reader_with(**selection).latestOffset(start, ALL)

    end = reader_with(**selection, failOnDataLoss="false").latestOffset(start, ALL)
    assert end == {**start, "refunds": {"broker-a": {"0": 5, "begins": {"0": 0}}}}


@pytest.mark.parametrize(
    "selection",
    [
        {"topic": None, "topics": "orders,refunds"},
        {"topic": None, "assign": '["orders/broker-a/0", "refunds/broker-a/0"]'},
    ],
)
def test_a_topic_that_is_deleted_stands_still_where_a_loss_is_no_error(
    cluster, reader_with, selection, caplog
):
    cluster.add("orders", "broker-a", 0, 5)
    start = through_spark({**offsets(broker_a=1), "refunds": {"broker-a": {"0": 3}}})

    with pytest.raises(DataLost, match=r"refunds@broker-a#0: .* to be read from 3 on"):
        reader_with(**selection).latestOffset(start, ALL)

    reader = reader_with(**selection, failOnDataLoss="false")
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset(start, ALL) == {**start, **offsets(broker_a=5)}
    assert "refunds@broker-a#0: no live broker offers this queue" in caplog.text
    assert cluster.waits == 0  # Its brokers may be away, and others are read meanwhile.
    with pytest.raises(RouteNotFound):  # A new query has nothing to wait for.
        reader.initialOffset()


def test_a_topic_that_is_gone_is_an_error(reader_with):
    with pytest.raises(RouteNotFound):
        reader_with().initialOffset()


def test_both_limits_hold_whichever_spark_hands_on(cluster, reader_with):
    cluster.add("orders", "broker-a", 0, 90)  # 100 bytes each
    by_bytes = reader_with(maxBytesPerTrigger="700")
    by_both = reader_with(maxBytesPerTrigger="700", maxOffsetsPerTrigger="5")
    start = through_spark(offsets(broker_a=0))

    assert by_bytes.getDefaultReadLimit() == ReadMaxBytes(700)
    assert by_bytes.latestOffset(start, ReadMaxBytes(700)) == offsets(broker_a=7)
    assert by_both.getDefaultReadLimit() == ReadMaxRows(5)
    assert by_both.latestOffset(start, ReadMaxRows(5)) == offsets(broker_a=5)
    assert by_both.latestOffset(start, ReadMaxRows(50)) == offsets(broker_a=7)
    assert by_both.latestOffset(start, ALL) == offsets(broker_a=90)


def test_few_messages_wait_for_others_or_for_time(cluster, clock, reader_with):
    cluster.add("orders", "broker-a", 0, 3)
    reader = reader_with(minOffsetsPerTrigger="5", maxTriggerDelay="10s")
    limit = reader.getDefaultReadLimit()
    start = through_spark(offsets(broker_a=0))

    assert limit == ReadMinRows(1)
    assert reader.latestOffset(start, limit) is start
    cluster.add("orders", "broker-b", 0, 2)  # A queue that appears counts.
    second = through_spark(reader.latestOffset(start, limit))
    assert ranges(reader, start, second) == [("broker-a", 0, 3), ("broker-b", 0, 2)]
    cluster.add("orders", "broker-b", 0, 1)
    assert reader.latestOffset(second, limit) is second
    clock.now += 10
    assert reader.latestOffset(second, limit) == offsets(broker_a=3, broker_b=3)


def test_a_run_that_ends_does_not_wait(cluster, reader_with):
    cluster.add("orders", "broker-a", 0, 3)
    reader = reader_with(minOffsetsPerTrigger="5")
    reader.prepareForTriggerAvailableNow()

    end = reader.latestOffset(through_spark(offsets(broker_a=0)), reader.getDefaultReadLimit())

    assert end == offsets(broker_a=3)


def test_progress_is_told_to_a_group_when_a_micro_batch_is_done(cluster, reader_with, caplog):
    queue = cluster.add("orders", "broker-a", 0, 3)
    reader = reader_with(commitGroup="spark", startingOffsets="earliest")
    end = through_spark(reader.latestOffset(reader.initialOffset(), ALL))
    assert cluster.groups == {"spark": {queue: 0}}

    assert reader.latestOffset(end, ALL) is end
    assert cluster.groups == {"spark": {queue: 3}}

    cluster.add("orders", "broker-a", 0, 1)
    end = through_spark(reader.latestOffset(end, ALL))
    cluster.failures = [ServiceUnavailable("down", retriable=True)]
    reader.latestOffset(end, ALL)
    assert "progress of group spark was not stored: down" in caplog.text
    assert cluster.groups == {"spark": {queue: 3}}


def test_a_queue_stands_still_while_name_servers_do_not_know_all(cluster, reader_with):
    cluster.add("orders", "broker-a", 0, 5)
    cluster.uncertain = frozenset({"orders"})
    start = through_spark(offsets(broker_a=1, broker_b=7))

    assert reader_with().latestOffset(start, ALL) == offsets(broker_a=5, broker_b=7)

    cluster.uncertain = frozenset()
    with pytest.raises(DataLost):
        reader_with().latestOffset(start, ALL)


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ({"startingOffsets": "latest"}, offsets(broker_a=5, broker_b=7)),
        (
            {"startingOffsets": '{"orders": {"broker-a": {"0": 2}, "broker-b": {"0": 3}}}'},
            offsets(broker_a=2, broker_b=3),
        ),
    ],
)
def test_a_new_query_starts_where_it_should_also_at_brokers_that_are_heard_late(
    cluster, reader_with, start, expected
):
    cluster.add("orders", "broker-a", 0, 5)
    cluster.uncertain = frozenset({"orders"})
    waits = []

    def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 3:
            cluster.add("orders", "broker-b", 0, 7)
            cluster.uncertain = frozenset()

    assert reader_with(sleep=sleep, **start).initialOffset() == expected
    assert len(waits) == 3


def test_a_new_query_that_never_hears_of_all_brokers_says_so(cluster, reader_with):
    cluster.add("orders", "broker-a", 0, 5)
    cluster.uncertain = frozenset({"orders"})
    waits = []
    with pytest.raises(ServiceUnavailable, match="brokers of orders may be missing"):
        reader_with(sleep=waits.append, startingOffsets="latest").initialOffset()
    assert sum(waits) >= 45
    # From the earliest on nothing is read wrongly: queues that come later are read from there, too.
    waits.clear()
    assert reader_with(sleep=waits.append, startingOffsets="earliest").initialOffset() == offsets(
        broker_a=0
    )
    assert waits == []


def test_topics_by_pattern_come_while_the_query_runs(cluster, reader_with):
    cluster.add("orders-eu", "broker-a", 0, 3)
    reader = reader_with(topic=None, topicsPattern="orders-.*", startingOffsets="earliest")
    start = through_spark(reader.initialOffset())
    cluster.add("orders-us", "broker-a", 0, 2)

    second = through_spark(reader.latestOffset(start, ALL))

    assert set(start) == {"orders-eu"}
    parts = [part for each in reader.partitions(start, second) for part in each.ranges]
    read = {(part.queue.topic, part.begin, part.end) for part in parts}
    assert read == {("orders-eu", 0, 3), ("orders-us", 0, 2)}
    assert reader.latestOffset(second, ALL) is second
