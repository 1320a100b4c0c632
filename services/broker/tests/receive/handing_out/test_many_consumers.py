"""One, eight and sixty-four members at a topic of four queues."""

import asyncio

import pytest

from services.broker.tests.receive.receive_calls import Receiver, bodies

QUEUES, BATCH = 4, 4


async def fill(broker, count):
    await broker.create_topic("orders", QUEUES)
    for queue_id in range(QUEUES):
        mine = range(queue_id, count, QUEUES)
        await broker.store("orders", [b"%d" % number for number in mine], queue_id)
    return {str(number) for number in range(count)}


async def consume(receiver, done, wanted):
    """Receive and acknowledge, in turn with all others, until nothing is left."""
    while len(done) < len(wanted):
        received = await receiver.receive(message_count_max=BATCH)
        if received:
            assert all(await receiver.ack(*received))
        for body in bodies(received):
            assert body not in done
            done[body] = receiver


@pytest.mark.parametrize("members", [1, pytest.param(8, marks=pytest.mark.slow), 64])
async def test_every_member_has_work_and_every_message_one_of_them(broker, members):
    wanted = await fill(broker, 1024)
    receivers = [Receiver(broker) for _ in range(members)]
    done = {}
    async with asyncio.timeout(120):
        await asyncio.gather(*(consume(each, done, wanted) for each in receivers))
    assert done.keys() == wanted
    shares = [sum(one is each for one in done.values()) for each in receivers]
    # An even share of sixty-four is sixteen.
    assert min(shares) >= BATCH
    assert sum(standing[0] for standing in await receivers[0].standing()) == 1024


async def test_a_stuck_member_holds_up_what_it_has_in_hand_and_nothing_else(clock, broker):
    wanted = await fill(broker, 256)
    stuck = Receiver(broker)
    in_hand = {body for _ in range(2) for body in bodies(await stuck.receive(message_count_max=5))}
    assert len(in_hand) == 10
    receivers, done = [Receiver(broker) for _ in range(8)], {}
    async with asyncio.timeout(120):
        await asyncio.gather(*(consume(each, done, wanted - in_hand) for each in receivers))
    assert done.keys() == wanted - in_hand
    assert await receivers[0].receive() == []
    clock.advance(61)
    rest = await receivers[0].receive(message_count_max=1000)
    assert set(bodies(rest)) == in_hand
