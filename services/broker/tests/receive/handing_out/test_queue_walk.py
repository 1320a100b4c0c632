"""Which queues a receive looks at, and of how many it reads messages in one turn."""

from types import SimpleNamespace

import numpy as np
import pytest

from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.handing_out.queue_selection import QueueSelection, highest_of
from ariane_broker.receive.handing_out.queue_walk import QUEUES_MAX, QueueWalk
from ariane_broker.receive.in_hand.queue_window import ROW, QueueWindow
from ariane_broker.turn_budget import READ_THINGS, TurnBudget

COUNTS = {"orders": 3, "bills": QUEUES_MAX, "letters": 1}


@pytest.mark.parametrize("first", [0, 2, 3, 40, QUEUES_MAX + 3])
def test_a_walk_goes_through_all_queues_once_from_any_of_them_on(first):
    names = [QueueKey(topic, number) for topic, count in COUNTS.items() for number in range(count)]
    walk = QueueWalk(COUNTS, first)
    turns = list(iter(walk.take, []))
    assert [each for turn in turns for each in turn] == names[first:] + names[:first]
    assert [len(turn) for turn in turns] == [QUEUES_MAX, 4]


def test_queues_that_are_put_back_come_behind_all_others():
    walk = QueueWalk(COUNTS, 0)
    again = walk.take()[:5]
    walk.put_back(again)
    assert walk.take()[-5:] == again
    assert walk.take() == []


def test_queues_may_be_put_first_as_often_as_cold_messages_are_waited_for():
    """A receive over many queues with a cold backlog does so for each piece that it reads."""
    walk = QueueWalk({"orders": 4 * QUEUES_MAX}, 0)
    first = walk.take()
    for _ in range(20_000):
        walk.put_first(first)
        assert walk.take() == first
    walk.put_first(first[9:])
    assert walk.take() == [*first[9:], *(QueueKey("orders", QUEUES_MAX + at) for at in range(9))]


@pytest.mark.parametrize(("things", "queues_max"), [(0, 8), (12 * READ_THINGS, 12)])
def test_of_many_queues_those_of_the_highest_priority_are_read(things, queues_max):
    selections, rows = [], []
    for number in range(30):
        window = QueueWindow(2, rows=np.zeros(2, ROW))
        # Two messages in each queue, the second of a priority that no other queue has.
        window.rows["priority"] = -1, number * 7 % 30
        selections.append(QueueSelection(QueueKey("orders", number), window, 2))
        rows.append(np.arange(2))
    order = SimpleNamespace(count_max=32, several_of_a_group=False)
    request = SimpleNamespace(order=order, in_order=False, budget=TurnBudget(things))
    chosen = highest_of(request, selections, rows)
    found = {number * 7 % 30 for number, each in enumerate(chosen) if len(each)}
    assert found == set(range(30 - queues_max, 30))
    assert all(each.tolist() in ([], [1]) for each in chosen)
