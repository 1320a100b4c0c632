"""Failed messages of a receiving group: its own, and what owners of queues had returned before."""

from datetime import timedelta

from ariane.broker.v1 import group_service_pb2 as group_pb
from services.broker.tests.receive.receive_calls import Receiver, attempts, bodies
from services.broker.tests.retry.test_retry_calls import arrived, messages_of, return_call


async def test_messages_that_owners_returned_come_to_receivers_and_attempts_count_on(clock, broker):
    await broker.create_topic("orders")
    await broker.store("orders", [b"returned", b"given back", b"good"])
    policy = group_pb.RetryPolicy(table=group_pb.DelayTable(delays=[timedelta(milliseconds=1)]))
    one = Receiver(broker)
    await one.make_group(retry_policy=policy)
    # An owner returns the first and stores its offset; then it stops.
    owned = (await messages_of(broker, "orders"))[0]
    await return_call(broker, owned)
    await broker.store_offset("billing", "orders", 0, 1)
    await arrived(broker, 1)

    first = await one.receive(invisible_s=600)
    tries = dict(zip(bodies(first), attempts(first), strict=True))
    assert tries == {"returned": 1, "given back": 0, "good": 0}
    by_body = {each.message.body: each for each in first}
    await one.nack(by_body[b"returned"], by_body[b"given back"], delay_s=20)
    assert await one.ack(by_body[b"good"]) == [True]
    assert await one.receive() == []

    clock.advance(21)
    again = await one.receive(invisible_s=600)
    tries = dict(zip(bodies(again), attempts(again), strict=True))
    assert tries == {"returned": 2, "given back": 1}
    assert all(await one.ack(*again))
    assert await one.standing("orders") == [(3, 0, 0, 0, 0)]
    assert await one.standing("%RETRY%billing") == [(1, 0, 0, 0, 0)]
    clock.advance(60)
    assert await one.receive() == []
