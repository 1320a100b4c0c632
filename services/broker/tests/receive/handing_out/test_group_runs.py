"""Several messages of one message group in one answer, in their order."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.common.v1 import message_pb2 as message_pb
from ariane_broker.receive.handing_out.group_runs import as_low_as_before, rows_in_turn
from ariane_broker.receive.in_hand.queue_window import KEY_NONE
from services.broker.tests.receive.receive_calls import Receiver, bodies

KEYS = st.sampled_from([KEY_NONE, 1, 2, 3])


@given(st.lists(st.tuples(KEYS, st.booleans()), max_size=20))
def test_no_row_is_handed_out_behind_one_that_is_not(rows):
    blocked, expected = set(), []
    for row, (key, free) in enumerate(rows):
        if key != KEY_NONE and not free:
            blocked.add(key)
        if free and key not in blocked:
            expected.append(row)
    keys = np.array([key for key, _ in rows], np.int64)
    free = np.array([free for _, free in rows], np.bool_)
    assert rows_in_turn(keys, free).tolist() == expected


@given(st.lists(st.tuples(KEYS, st.integers(-(1 << 63), (1 << 63) - 1)), max_size=20))
def test_no_message_counts_for_more_than_one_before_it(rows):
    lowest, expected = {}, []
    for key, priority in rows:
        lowest[key] = min(lowest.get(key, priority), priority)
        expected.append(priority if key == KEY_NONE else lowest[key])
    keys = np.array([key for key, _ in rows], np.int64)
    priorities = np.array([priority for _, priority in rows], np.int64)
    assert as_low_as_before(keys, priorities).tolist() == expected


async def send(broker, *messages):
    for body, group, priority in messages:
        message = message_pb.Message(body=body.encode(), message_group=group, priority=priority)
        request = send_pb.SendMessagesRequest(topic="orders", messages=[message])
        await broker.sends.SendMessages(request)


async def test_several_of_a_message_group_come_in_order_and_the_next_once_all_are_settled(broker):
    await broker.create_topic("orders", queue_count=1)
    one, other = Receiver(broker), Receiver(broker)
    await one.make_group(receive_in_order=True)
    await send(broker, *((f"a{number}", "a", number) for number in range(5)), ("b0", "b", 0))
    several = {"several_of_a_group": True, "by_priority": True}
    got = await one.receive(message_count_max=3, **several)
    assert bodies(got) == ["a0", "a1", "a2"]
    assert bodies(await other.receive(**several)) == ["b0"]
    # The first and the last one fail: they come again in their order, and nobody passes them.
    assert await one.ack(got[1]) == [True]
    await one.nack(got[0], got[2], delay_s=0)
    again = await other.receive()
    assert bodies(again) == ["a0"]
    assert await one.receive(**several) == []
    assert await other.ack(*again) == [True]
    assert bodies(await one.receive(several_of_a_group=True)) == ["a2", "a3", "a4"]
