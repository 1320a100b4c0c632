"""StreamPulls: one answer for each request, in order, and what ends a hold."""

import asyncio
import gc
import tracemalloc
from contextlib import AsyncExitStack, asynccontextmanager

import numpy as np
import pytest
from grpc import StatusCode, aio
from hypothesis import given
from hypothesis import strategies as st

from ariane.broker.v1 import broker_service_pb2 as broker_pb
from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.broker.v1.pull_service_pb2_grpc import PullServiceStub
from ariane.common.v1 import subscription_pb2 as subscription_pb
from ariane_broker.queue_key import QueueKey
from ariane_broker.read.pull_order import PulledQueue
from ariane_broker.rpc.translation.pull_wire import pull_answer, stream_answer
from ariane_servicekit.errors import field_invalid
from ariane_servicekit.rpc.error_status import status_of


class Conversation:
    """A stream of pulls as a client sees it."""

    def __init__(self, call):
        self.call = call

    async def ask(self, *positions, hold_s=0.0, follow=False, room=(0, 0), **fields):
        count_max, bytes_max = room
        request = pull_pb.PullRecordsRequest(
            consumer_group="group",
            positions=[
                pull_pb.PullPosition(
                    topic=topic,
                    queue_id=queue_id,
                    queue_offset=queue_offset,
                    record_count_max=count_max,
                    size_bytes_max=bytes_max,
                )
                for topic, queue_id, queue_offset in positions
            ],
            **fields,
        )
        request.hold_duration.FromMilliseconds(round(hold_s * 1000))
        await self.call.write(pull_pb.StreamPullsRequest(pull=request, follow=follow))

    async def answer(self):
        queues, more_follow = await self.next()
        assert not more_follow
        return queues

    async def next(self):
        async with asyncio.timeout(60):
            response = await self.call.read()
        assert response is not aio.EOF
        return list(response.pulled.queues), response.more_follow


@asynccontextmanager
async def conversation(broker):
    call = broker.pulls.StreamPulls()
    try:
        yield Conversation(call)
    finally:
        call.cancel()


async def wait_held(broker, count):
    async with asyncio.timeout(60):
        while True:
            state = await broker.broker.GetBrokerState(broker_pb.GetBrokerStateRequest())
            if state.statistics.held_pull_count == count:
                return
            await asyncio.sleep(0.005)


async def test_each_request_is_answered_in_order(broker):
    await broker.create_topic("orders", 2)
    await broker.store("orders", [b"a", b"b", b"c"])
    await broker.store("orders", [b"d"], 1)
    async with conversation(broker) as talk:
        for queue_offset in range(3):
            await talk.ask(("orders", 0, queue_offset), record_count_max=1)
        await talk.ask(("orders", 0, 3), ("orders", 1, 0))
        found = [await talk.answer() for _ in range(4)]
    assert [[queue.next_queue_offset for queue in answer] for answer in found] == [
        [1],
        [2],
        [3],
        [1],
    ]
    unary = await broker.pull(("orders", 0, 0), record_count_max=1)
    assert found[0] == unary


async def test_a_held_pull_is_answered_when_something_comes(broker):
    await broker.create_topic("orders")
    async with conversation(broker) as talk:
        await talk.ask(("orders", 0, 0), hold_s=30)
        await wait_held(broker, 1)
        await broker.store("orders", [b"a"])
        (queue,) = await talk.answer()
    assert queue.next_queue_offset == 1
    assert queue.records


async def test_the_next_request_ends_a_hold(broker):
    await broker.create_topic("orders", 2)
    async with conversation(broker) as talk:
        await talk.ask(("orders", 0, 0), hold_s=30)
        await wait_held(broker, 1)
        await talk.ask(("orders", 0, 0), ("orders", 1, 0), hold_s=30)
        assert [queue.next_queue_offset for queue in await talk.answer()] == [0]
        await wait_held(broker, 1)
        await broker.store("orders", [b"a"], 1)
        (queue,) = await talk.answer()
        assert queue.queue_id == 1


async def test_a_request_that_came_before_the_hold_ends_it_too(broker):
    await broker.create_topic("orders")
    async with conversation(broker) as talk:
        for _ in range(20):
            await talk.ask(("orders", 0, 0), hold_s=30)
        for _ in range(19):
            assert [queue.next_queue_offset for queue in await talk.answer()] == [0]
        await wait_held(broker, 1)
        await broker.store("orders", [b"a"])
        (queue,) = await talk.answer()
        assert queue.next_queue_offset == 1


async def test_the_clients_end_ends_a_hold_and_the_stream(broker):
    await broker.create_topic("orders")
    async with conversation(broker) as talk:
        await talk.ask(("orders", 0, 0), hold_s=30)
        await wait_held(broker, 1)
        await talk.call.done_writing()
        assert await talk.answer()
        async with asyncio.timeout(60):
            assert await talk.call.read() is aio.EOF
            assert await talk.call.code() is StatusCode.OK


async def test_a_cancelled_stream_is_held_no_longer(broker):
    await broker.create_topic("orders")
    async with conversation(broker) as talk:
        await talk.ask(("orders", 0, 0), hold_s=30)
        await wait_held(broker, 1)
    await wait_held(broker, 0)


async def test_an_error_of_a_queue_does_not_end_the_stream(broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"a"])
    async with conversation(broker) as talk:
        await talk.ask(("orders", 0, 7), ("orders", 0, 0))
        out_of_range, found = await talk.answer()
        assert out_of_range.HasField("error")
        assert out_of_range.max_queue_offset == 1
        assert found.records
        await talk.ask(("orders", 0, 0))
        assert await talk.answer() == [found]


async def test_an_error_of_the_call_ends_the_stream_with_its_reason(broker):
    async with conversation(broker) as talk:
        await talk.ask()
        with pytest.raises(aio.AioRpcError) as caught:
            await talk.answer()
    assert caught.value.code() is StatusCode.INVALID_ARGUMENT
    assert "positions" in caught.value.details()


async def test_bodies_come_alone_where_they_are_alike(broker):
    bodies = [b"%03d" % number for number in range(500)]
    await broker.create_topic("orders", 3)
    await broker.store("orders", [b"first"])
    await broker.store("orders", bodies)
    await broker.store("orders", [b"x" * number for number in range(500)], 1)
    positions = [("orders", queue_id, 0) for queue_id in (0, 1)]
    async with conversation(broker) as talk:
        await talk.ask(*positions, projection=pull_pb.PULL_PROJECTION_BODIES)
        alike, different = await talk.answer()
        await talk.ask(*positions, projection=pull_pb.PULL_PROJECTION_RECORDS)
        whole, same = await talk.answer()
        await talk.ask(("orders", 2, 0), projection=pull_pb.PULL_PROJECTION_BODIES)
        (nothing,) = await talk.answer()

    assert alike.bodies == b"first" + b"".join(bodies)
    # The ids of the messages have one, two or three digits.
    assert [(run.first_queue_offset, run.message_count) for run in alike.body_runs] == [
        (0, 1),
        (1, 10),
        (11, 90),
        (101, 400),
    ]
    assert not alike.record_sizes
    assert not alike.records
    assert different == same
    assert not whole.body_runs
    assert alike.next_queue_offset == whole.next_queue_offset == 501
    assert sum(run.message_count * run.record_bytes for run in alike.body_runs) == len(
        whole.records
    )
    assert (nothing.next_queue_offset, len(nothing.body_runs)) == (0, 0)


async def test_one_call_brings_what_a_stream_does(broker):
    await broker.store("orders", [b"body"] * 100)
    for projection in (pull_pb.PULL_PROJECTION_BODIES, pull_pb.PULL_PROJECTION_RECORDS):
        async with conversation(broker) as talk:
            await talk.ask(("orders", 0, 0), projection=projection)
            answer = await talk.answer()
        assert await broker.pull(("orders", 0, 0), projection=projection) == answer


async def test_a_broker_that_stops_answers_what_it_holds(running):
    async with AsyncExitStack() as outer:
        async with running() as broker:
            await broker.create_topic("orders")
            # A connection that outlives the broker.
            channel = await outer.enter_async_context(aio.insecure_channel(str(broker.address)))
            talk = Conversation(PullServiceStub(channel).StreamPulls())
            await talk.ask(("orders", 0, 0), hold_s=30)
            await wait_held(broker, 1)
        assert [queue.next_queue_offset for queue in await talk.answer()] == [0]
        assert await talk.call.read() is aio.EOF


def ends(queues):
    """Where each queue goes on."""
    return {queue.queue_id: queue.next_queue_offset for queue in queues}


async def test_a_pull_that_follows_is_asked_once_and_answered_again_and_again(broker):
    await broker.create_topic("orders", 3)
    await broker.store("orders", [b"a"], 1)
    async with conversation(broker) as talk:
        await talk.ask(*(("orders", queue_id, 0) for queue_id in range(3)), hold_s=30, follow=True)
        queues, more_follow = await talk.next()
        assert (ends(queues), more_follow) == ({1: 1}, True)
        for queue_id, begin in [(0, 0), (1, 1), (1, 2), (2, 0)]:
            await wait_held(broker, 1)
            await broker.store("orders", [b"b"], queue_id)
            ((queue,), more_follow) = await talk.next()
            assert (queue.queue_id, queue.next_queue_offset) == (queue_id, begin + 1)
            assert len(queue.record_sizes) == 4
            assert more_follow


async def test_a_stream_that_waits_keeps_nothing_of_its_last_answer(broker):
    await broker.store("orders", [bytes(1024)] * 1024)
    gc.collect()
    tracemalloc.start()
    async with conversation(broker) as talk:
        await talk.ask(("orders", 0, 0), hold_s=30, follow=True)
        [queue], _ = await talk.next()
        got = len(queue.records)
        del queue
        await wait_held(broker, 1)
        gc.collect()
        # Threads of other tests take memory, too.
        ways = [
            tracemalloc.Filter(inclusive=True, filename_pattern=pattern)
            for pattern in ("*/ariane_*", "*/asyncio/*", "*/services/broker/tests/*")
        ]
        made = tracemalloc.take_snapshot().filter_traces(ways)
    tracemalloc.stop()
    assert got > 1 << 19
    assert sum(trace.size for trace in made.traces) < got // 8


async def test_it_misses_nothing_that_comes_between_two_answers(broker):
    await broker.create_topic("orders", 4)
    count = 200
    async with conversation(broker) as talk:
        await talk.ask(*(("orders", queue_id, 0) for queue_id in range(4)), hold_s=30, follow=True)

        async def store():
            for number in range(count):
                await broker.store("orders", [b"%d" % number], number % 4)

        storing = asyncio.create_task(store())
        seen = dict.fromkeys(range(4), 0)
        while sum(seen.values()) < count:
            queues, more_follow = await talk.next()
            assert more_follow
            for queue in queues:
                assert (
                    queue.next_queue_offset == seen[queue.queue_id] + len(queue.record_sizes) // 4
                )
                seen[queue.queue_id] = queue.next_queue_offset
        await storing


async def test_after_a_backlog_of_many_turns_every_queue_still_ends_a_hold(broker):
    """What the first answer had no room for is read to its end in one turn of the loop."""
    await broker.create_topic("orders", 5)
    for queue_id in range(5):
        await broker.store("orders", [bytes(1024)] * 240, queue_id)
    positions = [("orders", queue_id, 0) for queue_id in range(5)]
    async with conversation(broker) as talk:
        await talk.ask(*positions, hold_s=3, follow=True, size_bytes_max=1 << 20)
        at = {}
        while sum(at.values()) < 5 * 240:
            queues, more_follow = await talk.next()
            assert more_follow
            at |= ends(queues)
        for queue_id in range(5):
            await wait_held(broker, 1)
            await broker.store("orders", [b"new"], queue_id)
            assert ends((await talk.next())[0]) == {queue_id: 241}


@pytest.mark.parametrize("room", [(1, 0), (4, 0), (0, 400)])
async def test_it_ends_when_a_queue_has_less_than_half_of_its_room(broker, room):
    await broker.create_topic("orders", 2)
    async with conversation(broker) as talk:
        await talk.ask(("orders", 0, 0), ("orders", 1, 0), hold_s=30, follow=True, room=room)
        follows = []
        for _ in range(3):
            await broker.store("orders", [b"x" * 20])
            _, more_follow = await talk.next()
            follows.append(more_follow)
            if not more_follow:
                break
        assert follows[0] is (room != (1, 0))
        assert not follows[-1]
        await talk.ask(("orders", 0, len(follows)), ("orders", 1, 0), hold_s=30)
        await broker.store("orders", [b"b"], 1)
        (queue,) = await talk.answer()
        assert queue.queue_id == 1


async def test_the_next_request_ends_one_that_follows(broker):
    await broker.create_topic("orders", 2)
    async with conversation(broker) as talk:
        await talk.ask(("orders", 0, 0), hold_s=30, follow=True)
        await broker.store("orders", [b"a"])
        assert (await talk.next())[1]
        await wait_held(broker, 1)
        await talk.ask(("orders", 0, 1), ("orders", 1, 0), hold_s=30)
        assert ends(await talk.answer()) == {0: 1}
        await wait_held(broker, 1)
        await broker.store("orders", [b"b"], 1)
        assert ends(await talk.answer()) == {1: 1}


async def test_the_end_of_its_hold_names_all_queues(broker):
    await broker.create_topic("orders", 2)
    await broker.store("orders", [b"a"])
    async with conversation(broker) as talk:
        await talk.ask(("orders", 0, 0), ("orders", 1, 0), hold_s=0.05, follow=True)
        assert await talk.next() == ((await broker.pull(("orders", 0, 0))), True)
        assert ends(await talk.answer()) == {0: 1, 1: 0}


async def test_an_error_of_a_queue_ends_it(broker):
    await broker.create_topic("orders")
    async with conversation(broker) as talk:
        await talk.ask(("orders", 0, 7), ("orders", 0, 0), hold_s=30, follow=True)
        out_of_range, *_ = await talk.answer()
        assert out_of_range.HasField("error")


async def test_one_that_follows_passes_over_what_its_filter_leaves_out(broker):
    await broker.create_topic("orders")
    wanted = subscription_pb.Subscription(
        topic="orders",
        filter=subscription_pb.FilterExpression(kind=subscription_pb.FILTER_KIND_TAG, text="paid"),
    )
    async with conversation(broker) as talk:
        await talk.ask(("orders", 0, 0), hold_s=20.0, follow=True, subscriptions=[wanted])
        # What its filter leaves out wakes nobody; the next message that passes does.
        await broker.store("orders", [b"a"])
        await broker.store("orders", [b"b"], tags=["paid"])
        matching, more_follow = await talk.next()
        assert ends(matching) == {0: 2}
        assert more_follow


BLOCKS = st.lists(st.binary(max_size=300), max_size=4)
PULLED = st.builds(
    lambda queue_id, next_offset, blocks, refused: PulledQueue(
        QueueKey("orders", queue_id),
        next_offset,
        3,
        next_offset + 1,
        [memoryview(block) for block in blocks],
        np.arange(len(blocks), dtype=np.int32),
        field_invalid("positions", "must not be so") if refused else None,
    ),
    st.integers(0, 1 << 20),
    st.integers(0, 1 << 62),
    BLOCKS,
    st.booleans(),
)


@given(st.lists(PULLED, max_size=4), st.booleans())
def test_bytes_are_what_protocol_buffers_would_write(pulled, more_follow):
    response = pull_pb.PullRecordsResponse(
        queues=[
            pull_pb.QueueRecords(
                topic=queue.queue.topic,
                queue_id=queue.queue.queue_id,
                error=None if queue.error is None else status_of(queue.error),
                next_queue_offset=queue.next_queue_offset,
                min_queue_offset=queue.min_queue_offset,
                max_queue_offset=queue.max_queue_offset,
                record_sizes=queue.sizes.astype("<i4").tobytes(),
                records=b"".join(queue.chunks),
            )
            for queue in pulled
        ]
    )
    assert pull_pb.PullRecordsResponse.FromString(asyncio.run(pull_answer(pulled))) == response
    answer = asyncio.run(stream_answer(pulled, more_follow=more_follow))
    assert pull_pb.StreamPullsResponse.FromString(answer) == pull_pb.StreamPullsResponse(
        pulled=response, more_follow=more_follow
    )
