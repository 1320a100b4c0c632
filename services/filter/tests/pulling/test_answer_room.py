"""A consumer that asks and takes nothing has the broker asked for no more than its share."""

import asyncio
from contextlib import aclosing

import numpy as np
import pytest

from ariane.broker.v1.pull_service_pb2 import (
    PullRecordsRequest,
    PullRecordsResponse,
    QueueRecords,
    StreamPullsRequest,
    StreamPullsResponse,
)
from ariane_filter.pulling.filtered_pulls import FilteredPulls
from ariane_servicekit import AnswerBudget

MIB = 1 << 20
BUDGET = 8 * MIB


class PlayedCall:
    """A stream to a broker that has as much as it is asked for."""

    def __init__(self, link):
        self._link = link
        self._asked = asyncio.Queue()

    async def write(self, request):
        self._link.asked_bytes += request.pull.size_bytes_max
        self._asked.put_nowait(request.pull.size_bytes_max)

    async def read(self):
        sizes = np.array([await self._asked.get()], "<i4").tobytes()
        queue = QueueRecords(record_sizes=sizes)
        return StreamPullsResponse(pulled=PullRecordsResponse(queues=[queue]))

    async def done_writing(self):
        pass

    def cancel(self):
        return True


class PlayedLink:
    """Counts the bytes that the broker is asked for."""

    def __init__(self):
        self.asked_bytes = 0
        self.pulls = self

    def StreamPulls(self):  # noqa: N802 - named by the contract
        return PlayedCall(self)


async def pulls_of(size_bytes, count):
    for _ in range(count):
        pull = PullRecordsRequest(consumer_group="g", size_bytes_max=size_bytes)
        yield StreamPullsRequest(pull=pull)
    await asyncio.Event().wait()


async def many_turns():
    for _ in range(200):
        await asyncio.sleep(0)


@pytest.fixture
def room():
    answers, link = AnswerBudget(BUDGET), PlayedLink()
    pulls = FilteredPulls(link, running=None, answers=answers)
    return answers, link, pulls


async def test_who_takes_nothing_is_granted_a_share_and_others_go_on(room):
    answers, link, pulls = room
    greedy = [pulls.stream(pulls_of(4 * MIB, 8), "greedy") for _ in range(20)]
    try:
        for stream in greedy:
            # Its first answer is made, and never taken: the next is not asked of the stream.
            await anext(stream)
            await many_turns()
            assert link.asked_bytes == answers.held_bytes <= BUDGET // 2 + 64 * 1024
            if answers.waiting_count:
                break
        assert answers.waiting_count
        async with aclosing(pulls.stream(pulls_of(MIB, 3), "modest")) as modest:
            for _ in range(3):
                (queue,) = (await anext(modest)).pulled.queues
                assert np.frombuffer(queue.record_sizes, "<i4")[0] >= 64 * 1024
    finally:
        for stream in greedy:
            await stream.aclose()
    assert (answers.held_bytes, answers.waiting_count) == (0, 0)


async def test_a_pull_that_says_no_size_is_asked_for_what_there_is_room_for(room):
    answers, link, pulls = room
    async with aclosing(pulls.stream(pulls_of(0, 1), "peer")) as stream:
        (queue,) = (await anext(stream)).pulled.queues
        assert np.frombuffer(queue.record_sizes, "<i4")[0] == link.asked_bytes == MIB
        assert answers.held_bytes == MIB
    assert answers.held_bytes == 0
