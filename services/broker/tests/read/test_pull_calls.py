"""PullRecords: budgets, filters, holds, per-queue errors; bounds and times."""

import asyncio
import time

import pytest
from grpc import StatusCode, aio

from ariane.broker.v1 import broker_service_pb2 as broker_pb
from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane.common.v1 import subscription_pb2 as subscription_pb


def tag_subscription(topic, text):
    return subscription_pb.Subscription(
        topic=topic,
        filter=subscription_pb.FilterExpression(kind=subscription_pb.FILTER_KIND_TAG, text=text),
    )


async def held_count(broker):
    state = await broker.broker.GetBrokerState(broker_pb.GetBrokerStateRequest())
    return state.statistics.held_pull_count


async def wait_held(broker, count):
    async with asyncio.timeout(60):
        while await held_count(broker) != count:  # noqa: ASYNC110 - the other side of a wire
            await asyncio.sleep(0.005)


async def test_an_empty_queue_answers_at_once_with_its_position(broker):
    await broker.create_topic("orders", 2)
    pulled = await broker.pull(("orders", 0, 0), ("orders", 1, 0))
    assert [(queue.queue_id, queue.next_queue_offset) for queue in pulled] == [(0, 0), (1, 0)]
    assert not any(queue.records for queue in pulled)


async def test_only_queues_with_news_are_named(broker):
    await broker.create_topic("orders", 3)
    await broker.store("orders", [b"a"], 1)
    pulled = await broker.pull(*(("orders", queue_id, 0) for queue_id in range(3)))
    assert [queue.queue_id for queue in pulled] == [1]


async def test_answers_come_in_the_order_of_the_positions(broker):
    await broker.create_topic("orders", 4)
    for queue_id in range(4):
        await broker.store("orders", [b"%d" % queue_id], queue_id)
    for order in ([3, 1, 0, 2], [0, 1, 2, 3]):
        pulled = await broker.pull(*(("orders", queue_id, 0) for queue_id in order))
        assert [queue.queue_id for queue in pulled] == order


async def test_the_count_budget_is_for_all_queues(broker):
    await broker.create_topic("orders", 2)
    for queue_id in range(2):
        await broker.store("orders", [b"x"] * 10, queue_id)
    pulled = await broker.pull(("orders", 0, 0), ("orders", 1, 0), record_count_max=12)
    assert sum(len(queue.record_sizes) // 4 for queue in pulled) == 12


async def test_the_byte_budget_still_gives_one_record(broker):
    await broker.store("orders", [b"x" * 5000, b"y"])
    (pulled,) = await broker.pull(("orders", 0, 0), size_bytes_max=10)
    assert len(pulled.record_sizes) == 4
    assert pulled.next_queue_offset == 1


async def test_what_little_is_left_of_the_byte_budget_brings_no_other_queue(broker):
    await broker.create_topic("orders", 2)
    for queue_id in range(2):
        await broker.store("orders", [b"x" * 1000] * 100, queue_id)
    for _ in range(20):  # Whichever of them is read first.
        (pulled,) = await broker.pull(("orders", 0, 0), ("orders", 1, 0), size_bytes_max=100_000)
        assert 94_000 < len(pulled.records) <= 100_000


async def test_the_rest_of_the_byte_budget_is_for_the_next_queue(broker):
    await broker.create_topic("orders", 2)
    for queue_id in range(2):
        await broker.store("orders", [b"x" * 1000] * 100, queue_id)
    pulled = await broker.pull(("orders", 0, 0), ("orders", 1, 0), size_bytes_max=150_000)
    assert [queue.queue_id for queue in pulled] == [0, 1]
    assert sum(len(queue.records) for queue in pulled) <= 150_000


async def test_no_queue_starves_behind_a_deep_one(broker):
    await broker.create_topic("orders", 2)
    for queue_id in range(2):
        await broker.store("orders", [b"x"] * 500, queue_id)
    positions = {0: 0, 1: 0}
    firsts = set()
    for _ in range(200):
        pulled = await broker.pull(
            *(("orders", queue_id, offset) for queue_id, offset in positions.items()),
            record_count_max=1,
        )
        firsts |= {queue.queue_id for queue in pulled if queue.records}
        if firsts == {0, 1}:
            break
    assert firsts == {0, 1}


async def test_tags_are_filtered_by_hash(broker):
    await broker.store("orders", [b"a", b"b", b"c", b"d"], tags=("x", "y", "z", "x"))
    (pulled,) = await broker.pull(
        ("orders", 0, 0), subscriptions=[tag_subscription("orders", " x || z ")]
    )
    assert pulled.next_queue_offset == 4
    assert len(pulled.record_sizes) == 12


async def test_a_filter_without_match_moves_the_position(broker):
    await broker.store("orders", [b"a"] * 3000, tags=("x",) * 3000)
    (pulled,) = await broker.pull(
        ("orders", 0, 0), hold_s=0.2, subscriptions=[tag_subscription("orders", "nothing")]
    )
    assert pulled.next_queue_offset == 3000
    assert not pulled.records


async def test_what_a_filter_passes_over_is_told_at_once_and_when_a_hold_ends(broker):
    await broker.store("orders", [b"a"] * 3000, tags=("x",) * 3000)
    nothing = tag_subscription("orders", "nothing")
    async with asyncio.timeout(60):
        (pulled,) = await broker.pull(("orders", 0, 0), hold_s=20, subscriptions=[nothing])
        assert pulled.next_queue_offset == 3000
        held = broker.pull_call(("orders", 0, 3000), hold_s=1, subscriptions=[nothing])
        await wait_held(broker, 1)
        await broker.store("orders", [b"a"], tags=("x",))
        (pulled,) = (await held).queues
        assert pulled.next_queue_offset == 3001


async def test_a_held_pull_is_answered_by_the_append(broker, read_bodies):
    await broker.create_topic("orders", 8)
    held = broker.pull_call(*(("orders", queue_id, 0) for queue_id in range(8)), hold_s=20)
    await wait_held(broker, 1)
    begin = time.perf_counter()
    await broker.store("orders", [b"now"], 5)
    (pulled,) = (await held).queues
    assert time.perf_counter() - begin < 15, "it was held to the end"
    assert read_bodies(pulled) == [b"now"]
    assert pulled.queue_id == 5
    assert await held_count(broker) == 0


async def test_a_held_pull_waits_for_the_flush(running, read_bodies):
    async with running(flush_mode="sync") as broker:
        await broker.create_topic("orders")
        held = broker.pull_call(("orders", 0, 0), hold_s=20)
        await wait_held(broker, 1)
        await broker.store("orders", [b"now"])
        (pulled,) = (await held).queues
        assert read_bodies(pulled) == [b"now"]


async def test_appends_to_other_queues_wake_nobody(broker):
    await broker.create_topic("orders", 2)
    held = broker.pull_call(("orders", 0, 0), hold_s=20)
    await wait_held(broker, 1)
    await broker.store("orders", [b"elsewhere"], 1)
    assert await held_count(broker) == 1
    await broker.store("orders", [b"here"], 0)
    assert len((await held).queues) == 1


async def test_a_deletion_ends_a_held_pull(broker, reason_of):
    await broker.create_topic("orders", 2)
    held = broker.pull_call(("orders", 1, 0), hold_s=20)
    await wait_held(broker, 1)
    await broker.topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic="orders"))
    (pulled,) = (await held).queues
    assert reason_of(pulled.error) == "TOPIC_NOT_FOUND"


async def test_a_held_pull_names_every_queue_when_its_time_ends(broker):
    await broker.create_topic("orders", 2)
    begin = time.perf_counter()
    pulled = await broker.pull(("orders", 1, 0), ("orders", 0, 0), hold_s=0.2)
    assert time.perf_counter() - begin >= 0.15
    assert [(queue.queue_id, queue.next_queue_offset) for queue in pulled] == [(1, 0), (0, 0)]


async def test_a_held_pull_is_answered_before_its_deadline(broker):
    await broker.create_topic("orders")
    for _ in range(20):  # A busy machine may need longer for one answer than is left for it.
        try:
            (pulled,) = await broker.pull(("orders", 0, 0), hold_s=20, timeout=0.5)
        except aio.AioRpcError as error:
            if error.code() is not StatusCode.DEADLINE_EXCEEDED:
                raise
        else:
            assert pulled.next_queue_offset == 0
            return
    raise AssertionError("no held pull was answered before its deadline")


async def test_a_cancelled_pull_is_forgotten(broker):
    await broker.create_topic("orders")
    held = broker.pull_call(("orders", 0, 0), hold_s=20)
    await wait_held(broker, 1)
    held.cancel()
    await wait_held(broker, 0)


async def test_held_pulls_are_bounded(running, refused):
    async with running(held_pulls_max=2) as broker:
        await broker.create_topic("orders")
        calls = [broker.pull_call(("orders", 0, 0), hold_s=20) for _ in range(2)]
        await wait_held(broker, 2)
        failure = await refused(broker.pull_call(("orders", 0, 0), hold_s=20))
        assert (failure.reason, failure.code) == ("HELD_PULLS_EXHAUSTED", "RESOURCE_EXHAUSTED")
        assert len(await broker.pull(("orders", 0, 0))) == 1
        await broker.store("orders", [b"a"])
        assert len([await call for call in calls]) == 2


async def test_held_pulls_end_when_the_broker_stops(running, probe_class):
    async with running() as broker:
        await broker.create_topic("orders")
        channel = aio.insecure_channel(str(broker.address))
        held = probe_class(channel, broker.address).pull_call(("orders", 0, 0), hold_s=20)
        await wait_held(broker, 1)
    async with channel:
        assert len((await held).queues) == 1


async def test_errors_are_told_for_each_queue(broker, reason_of):
    await broker.create_topic("orders", 1)
    await broker.store("orders", [b"a", b"b"])
    pulled = await broker.pull(
        ("orders", 0, 0),
        ("orders", 0, 9),
        ("orders", 1, 0),
        ("orders", 1_000_000_000, 0),
        ("nowhere", 0, 0),
        ("no/name", 0, 0),
        ("SCHEDULE_TOPIC_XXXX", 0, 0),
        ("%RETRY%other", 0, 0),
        hold_s=5,
    )
    assert len(pulled[0].record_sizes) == 8
    assert [reason_of(queue.error) for queue in pulled[1:]] == [
        "QUEUE_OFFSET_OUT_OF_RANGE",
        "QUEUE_NOT_FOUND",
        "QUEUE_NOT_FOUND",
        "TOPIC_NOT_FOUND",
        "TOPIC_NAME_ILLEGAL",
        "TOPIC_RESERVED",
        "TOPIC_RESERVED",
    ]
    assert (pulled[1].min_queue_offset, pulled[1].max_queue_offset) == (0, 2)
    assert pulled[1].next_queue_offset == 9


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"record_count_max": -1}, "record_count_max"),
        ({"record_count_max": 1_000_000_000}, "record_count_max"),
        ({"size_bytes_max": -1}, "size_bytes_max"),
    ],
)
async def test_senseless_budgets_are_refused(broker, refused, fields, field):
    await broker.create_topic("orders")
    failure = await refused(broker.pull_call(("orders", 0, 0), **fields))
    assert (failure.reason, failure.code) == ("FIELD_INVALID", "INVALID_ARGUMENT")
    assert failure.metadata["field"] == field


@pytest.mark.parametrize(
    ("position", "field"),
    [
        (("orders", -1, 0), "positions[0].queue_id"),
        (("orders", 0, -1), "positions[0].queue_offset"),
        (("orders", 0, -(2**63)), "positions[0].queue_offset"),
    ],
)
async def test_negative_positions_are_refused(broker, refused, position, field):
    await broker.create_topic("orders")
    failure = await refused(broker.pull_call(position))
    assert (failure.reason, failure.metadata["field"]) == ("FIELD_INVALID", field)


async def test_a_pull_of_nothing_is_refused(broker, refused):
    assert (await refused(broker.pull_call())).reason == "FIELD_INVALID"


async def test_a_hold_beyond_the_limit_is_refused(broker, refused):
    failure = await refused(broker.pull_call(("orders", 0, 0), hold_s=31))
    assert failure.metadata["field"] == "hold_duration"


@pytest.mark.parametrize("group", ["", "a b", "x" * 121, "CID_RMQ_SYS_TRANS", "%RETRY%a"])
async def test_illegal_groups_are_refused(broker, refused, group):
    await broker.create_topic("orders")
    failure = await refused(broker.pull_call(("orders", 0, 0), group=group))
    assert failure.reason == "GROUP_NAME_ILLEGAL"


async def test_broken_filters_are_refused(broker, refused):
    await broker.create_topic("orders")
    call = broker.pull_call(("orders", 0, 0), subscriptions=[tag_subscription("orders", "a || ")])
    assert (await refused(call)).reason == "FILTER_EXPRESSION_INVALID"
    sql = subscription_pb.FilterExpression(kind=subscription_pb.FILTER_KIND_SQL92, text="a LIKE 1")
    call = broker.pull_call(
        ("orders", 0, 0), subscriptions=[subscription_pb.Subscription(topic="orders", filter=sql)]
    )
    failure = await refused(call)
    assert failure.reason == "FILTER_EXPRESSION_INVALID"
    assert failure.metadata["position"] == "2"
    uploaded = subscription_pb.FilterExpression(
        kind=subscription_pb.FILTER_KIND_UPLOADED, text="delays@0123456789ab"
    )
    call = broker.pull_call(
        ("orders", 0, 0),
        subscriptions=[subscription_pb.Subscription(topic="orders", filter=uploaded)],
    )
    assert (await refused(call)).reason == "FEATURE_NOT_AVAILABLE"


async def test_an_expired_deadline_does_no_work(broker):
    with pytest.raises(aio.AioRpcError) as raised:
        await broker.pull_call(("orders", 0, 0), timeout=-1)  # surely past
    assert raised.value.code() is StatusCode.DEADLINE_EXCEEDED


async def test_bounds_of_all_queues(broker):
    await broker.create_topic("orders", 3)
    result = await broker.store("orders", [b"x" * 1000] * 5, 1)
    response = await broker.pulls.ListQueueBounds(pull_pb.ListQueueBoundsRequest(topic="orders"))
    bounds = {queue.queue_id: queue for queue in response.queues}
    assert sorted(bounds) == [0, 1, 2]
    assert (bounds[1].min_queue_offset, bounds[1].max_queue_offset) == (0, 5)
    assert bounds[1].last_store_time == result.store_time
    assert 5000 < bounds[1].size_bytes < 7000
    assert not bounds[0].HasField("last_store_time")
    assert bounds[0].size_bytes == 0


async def test_offsets_of_a_time(broker):
    await broker.create_topic("orders", 2)
    first = await broker.store("orders", [b"a", b"b"])
    await asyncio.sleep(0.005)
    second = await broker.store("orders", [b"c"])

    async def found(time_, boundary, nanos=0):
        request = pull_pb.FindQueueOffsetsRequest(topic="orders", time=time_, boundary=boundary)
        request.time.nanos += nanos
        response = await broker.pulls.FindQueueOffsets(request)
        assert [queue.queue_id for queue in response.queues] == [0, 1]
        return response.queues[0].queue_offset

    lower, upper = pull_pb.TIME_BOUNDARY_LOWER, pull_pb.TIME_BOUNDARY_UPPER
    assert await found(first.store_time, lower) == 0
    assert await found(first.store_time, upper) == 2
    # Store times are cut to milliseconds: what was stored later in this one is not skipped.
    assert await found(first.store_time, lower, nanos=999_999) == 0
    assert await found(second.store_time, lower) == 2
    assert await found(second.store_time, lower, nanos=1) == 2
    assert await found(second.store_time, upper) == 3
    second.store_time.seconds -= 60
    assert await found(second.store_time, upper) == 0


async def test_bounds_of_an_unknown_topic(broker, refused):
    call = broker.pulls.ListQueueBounds(pull_pb.ListQueueBoundsRequest(topic="nowhere"))
    failure = await refused(call)
    assert (failure.reason, failure.code) == ("TOPIC_NOT_FOUND", "NOT_FOUND")
    assert failure.metadata == {"topic": "nowhere"}


async def test_bounds_say_by_what_time_the_broker_stores_messages(broker):
    await broker.create_topic("orders")
    before = (await broker.store("orders", [b"a"])).store_time
    request = pull_pb.ListQueueBoundsRequest(topic="orders")
    now = (await broker.pulls.ListQueueBounds(request)).broker_time
    after = (await broker.store("orders", [b"b"])).store_time
    assert before.ToMilliseconds() <= now.ToMilliseconds() <= after.ToMilliseconds()
