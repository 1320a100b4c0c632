from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_sdk import MessageQueue
from ariane_sdk.consumer.group.allocation import Averaging


def queues_of(count):
    return [MessageQueue("orders", "broker-a", queue_id) for queue_id in range(count)]


def members_of(count):
    return [f"client-{number:02d}" for number in range(count)]


def rocketmq_averagely(queue_count, member_count, index):
    """AllocateMessageQueueAveragely.allocate of Apache RocketMQ, statement by statement."""
    mod = queue_count % member_count
    if queue_count <= member_count:
        average_size = 1
    elif mod > 0 and index < mod:
        average_size = queue_count // member_count + 1
    else:
        average_size = queue_count // member_count
    start_index = index * average_size if mod > 0 and index < mod else index * average_size + mod
    count = min(average_size, queue_count - start_index)
    return [(start_index + i) % queue_count for i in range(count)]


def shares(queue_count, member_count):
    queues, members = queues_of(queue_count), members_of(member_count)
    return [
        [queue.queue_id for queue in Averaging().allocate(member, queues, members)]
        for member in members
    ]


@pytest.mark.parametrize(
    ("queue_count", "member_count", "table"),
    [
        (5, 2, [[0, 1, 2], [3, 4]]),
        (6, 3, [[0, 1], [2, 3], [4, 5]]),
        (10, 20, [[n] for n in range(10)] + [[]] * 10),
        (
            20,
            6,
            [
                [0, 1, 2, 3],
                [4, 5, 6, 7],
                [8, 9, 10],
                [11, 12, 13],
                [14, 15, 16],
                [17, 18, 19],
            ],
        ),
    ],
)
def test_tables_are_the_published_ones(queue_count, member_count, table):
    assert shares(queue_count, member_count) == table


@given(st.integers(0, 200), st.integers(1, 60))
def test_every_share_is_that_of_rocketmq(queue_count, member_count):
    expected = [
        rocketmq_averagely(queue_count, member_count, index) for index in range(member_count)
    ]

    assert shares(queue_count, member_count) == expected


@given(st.integers(0, 200), st.integers(1, 60))
def test_each_queue_is_owned_once_and_shares_differ_by_at_most_one(queue_count, member_count):
    table = shares(queue_count, member_count)
    sizes = [len(share) for share in table]

    assert sorted(chain.from_iterable(table)) == list(range(queue_count))
    assert max(sizes) - min(sizes) <= 1


def test_a_client_that_is_no_member_gets_no_queue():
    assert not Averaging().allocate("stranger", queues_of(4), members_of(2))
