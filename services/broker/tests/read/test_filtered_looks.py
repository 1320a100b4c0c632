"""A pull with a filter over many queues reads so much in one go, and goes on from there."""

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
