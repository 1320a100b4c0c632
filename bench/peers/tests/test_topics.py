"""Topics of a load: their names, and what each of them gets."""

import asyncio

import pytest
from driver_loop import each_of, share_of, topics_of


@pytest.mark.parametrize(("count", "topics"), [(1000, 256), (512, 256), (7, 3), (2, 5), (9, 1)])
def test_each_topic_gets_what_is_sent_to_all_in_turn(count, topics):
    load = {"count": count, "topic": "t", "topics": topics}
    sent = [0] * topics
    for number in range(count):
        sent[number % topics] += 1
    assert [share_of(load, number) for number in range(topics)] == sent


def test_one_topic_has_its_name_and_many_have_numbers():
    assert topics_of({"topic": "t", "topics": 1}) == ["t"]
    assert topics_of({"topic": "t", "topics": 3}) == ["t-0", "t-1", "t-2"]


def test_a_step_is_taken_once_for_each_topic():
    taken = []

    async def step(topic):
        await asyncio.sleep(0)
        taken.append(topic)

    asyncio.run(each_of([str(number) for number in range(9)], step))
    assert sorted(taken) == [str(number) for number in range(9)]
