from hypothesis import given
from hypothesis import strategies as st

from ariane_ordering import java_string_hash
from ariane_sdk import MessageQueue
from ariane_sdk.producer.queues.queue_choice import (
    GROUPS_REMEMBERED_MAX,
    GroupQueues,
    StickyRoundRobin,
)

QUEUES = [
    MessageQueue("orders", broker, queue_id)
    for broker in ("broker-a", "broker-b")
    for queue_id in range(3)
]


def everyone(_broker_name):
    return True


def test_round_robin_takes_brokers_in_turn_and_meets_every_queue():
    sticky = StickyRoundRobin(QUEUES, 0)

    visited = [sticky.current] + [sticky.move_on(everyone) for _ in range(5)]

    assert sorted(visited) == QUEUES
    assert [queue.broker_name for queue in visited] == ["broker-a", "broker-b"] * 3
    assert sticky.move_on(everyone) == visited[0]


def test_it_sticks_until_told_to_move_on():
    sticky = StickyRoundRobin(QUEUES, 4)

    assert sticky.current == sticky.current


def test_a_broker_that_is_not_welcome_is_passed_over():
    sticky = StickyRoundRobin(QUEUES, 0)

    visited = {sticky.move_on(lambda name: name == "broker-b").broker_name for _ in range(6)}

    assert visited == {"broker-b"}


def test_without_a_welcome_broker_it_just_moves_on():
    sticky = StickyRoundRobin(QUEUES, 0)

    visited = [sticky.move_on(lambda _: False) for _ in range(6)]

    assert sorted(visited) == QUEUES


@given(st.text(min_size=1, max_size=20), st.permutations(QUEUES))
def test_a_group_goes_by_javas_hash_over_the_sorted_queues(group, shuffled):
    expected = QUEUES[java_string_hash(group) % len(QUEUES)]

    groups = GroupQueues(shuffled)

    assert groups.queue_of(group) == expected
    assert groups.queue_of(group) == expected


def test_groups_with_negative_hashes_have_queues_too():
    # "polygenelubricants" is the well-known text whose hash is Integer.MIN_VALUE; floorMod by 6.
    assert java_string_hash("polygenelubricants") == -(2**31)
    assert GroupQueues(QUEUES).queue_of("polygenelubricants") == QUEUES[4]


def test_the_table_of_groups_is_bounded():
    groups = GroupQueues(QUEUES)

    for number in range(GROUPS_REMEMBERED_MAX + 10):
        groups.queue_of(str(number))

    assert len(groups._known) <= GROUPS_REMEMBERED_MAX
