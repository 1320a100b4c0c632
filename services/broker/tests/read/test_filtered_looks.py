"""A pull with a filter over many queues reads so much in one go, and goes on from there."""

import asyncio

import pytest

from ariane.common.v1 import subscription_pb2 as subscription_pb
from ariane_broker.read import queue_looks


@pytest.mark.parametrize("limit", [1, 40_000, 4 << 20])
async def test_all_queues_are_gone_through_however_little_one_look_goes_through(
    broker, monkeypatch, read_bodies, limit
):
    monkeypatch.setattr(queue_looks, "FILTERED_BYTES_MAX", limit)
    await broker.create_topic("orders", 8)
    for queue_id in range(8):
        tags = ("other",) * 1500 + (("wanted",) if queue_id == 5 else ())
        await broker.store("orders", [b"%d" % queue_id] * len(tags), queue_id, tags=tags)
    wanted = subscription_pb.Subscription(
        topic="orders",
        filter=subscription_pb.FilterExpression(
            kind=subscription_pb.FILTER_KIND_TAG, text="wanted"
        ),
    )
    positions = dict.fromkeys(range(8), 0)
    found = []
    while set(positions.values()) != {1500, 1501}:
        pulled = await broker.pull(
            *(("orders", queue_id, offset) for queue_id, offset in positions.items()),
            hold_s=20,
            subscriptions=[wanted],
        )
        for queue in pulled:
            positions[queue.queue_id] = queue.next_queue_offset
            found += read_bodies(queue)
    assert found == [b"5"]
    assert positions == dict.fromkeys(range(8), 1500) | {5: 1501}


@pytest.mark.parametrize(
    ("text", "most"), [("shop = 'x'", 28), (" OR ".join(["shop CONTAINS 'x'"] * 24), 8)]
)
async def test_a_turn_reads_the_fewer_queues_the_more_a_filter_compares(
    broker, monkeypatch, text, most
):
    await broker.create_topic("orders", 60)
    for queue_id in range(60):
        await broker.store("orders", [b"m"], queue_id, properties={"shop": "south"})
    reads, turns = [], []
    read, run = queue_looks.QueueLooks._read, asyncio.events.Handle._run

    def counted_read(looks, *arguments):
        reads.append(arguments)
        return read(looks, *arguments)

    def counted_run(handle):
        before = len(reads)
        run(handle)
        turns.append(len(reads) - before)

    monkeypatch.setattr(queue_looks.QueueLooks, "_read", counted_read)
    monkeypatch.setattr(asyncio.events.Handle, "_run", counted_run)
    kind = subscription_pb.FILTER_KIND_SQL92
    wanted = subscription_pb.Subscription(
        topic="orders", filter=subscription_pb.FilterExpression(kind=kind, text=text)
    )
    positions = [("orders", queue_id, 0) for queue_id in range(60)]
    pulled = await broker.pull(*positions, subscriptions=[wanted])
    assert {queue.next_queue_offset for queue in pulled} == {1}
    # The last queues of one look, and the first of the next.
    assert most <= max(turns) < 2 * most
