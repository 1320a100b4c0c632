"""A pull that is answered again and again looks where something may be, and nowhere else."""

import asyncio

import numpy as np
import pytest

from ariane_broker.filters.tags import TagFilter
from ariane_broker.log.filtered_watches import FilteredWatches
from ariane_broker.log.held_requests import HeldRequests
from ariane_broker.queue_key import QueueKey
from ariane_broker.read.open_pull import OpenPull
from ariane_broker.read.pull_order import Position, PulledQueue, PullOrder
from ariane_broker.read.queue_looks import PLACES_MAX, Look
from ariane_record import tag_code
from ariane_servicekit import AnswerBudget

QUEUES = [QueueKey("orders", queue_id) for queue_id in range(100)]


class Log:
    """Queues of so many messages; says which places were looked at."""

    def __init__(self, held):
        self.held = held
        self.ends = dict.fromkeys(QUEUES, 0)
        self.looks = []
        self.watched = []
        self.unfinished = False
        self.matching = True
        self.turn_places = PLACES_MAX
        self.under_repair = set()

    def check(self, order, topics):
        """All may have all."""

    def check_group(self, consumer_group):
        """No group is paused."""

    def grow(self, number, tag_codes=None):
        self.ends[QUEUES[number]] += 1
        self.held.arrived(QUEUES[number], tag_codes)

    async def look(self, order, codes, positions, places, after_turn):
        self.looks.append(set(places))
        look = Look(
            order.record_count_max,
            order.size_bytes_max,
            set(places),
            unfinished=self.unfinished,
        )
        turns = sorted(places)
        for begin in range(0, len(turns), self.turn_places):
            turn = turns[begin : begin + self.turn_places]
            for place in turn:
                self.read(look, place, positions[place])
            if look.count_left <= 0 or turn[-1] == turns[-1]:
                break
            after_turn(turn)
            self.watched.append(len(self.held._watches))
            await asyncio.sleep(0)
        return look

    def read(self, look, place, position):
        if position.queue in self.under_repair:
            return
        end = self.ends[position.queue]
        count = min(end - position.queue_offset, look.count_left)
        look.count_left -= count
        if position.queue_offset + count == end:
            look.left.discard(place)
        look.found[place] = PulledQueue(
            position.queue,
            position.queue_offset + count,
            max_queue_offset=end,
            sizes=np.ones(count if self.matching else 0, np.int32),
        )


@pytest.fixture
def held():
    return HeldRequests(FilteredWatches(store=None), count_max=9)


@pytest.fixture
def log(held):
    return Log(held)


def opened(log, held, *, hold_s=20.0, record_count_max=10, filters=None, queues=QUEUES):
    order = PullOrder(
        consumer_group="group",
        positions=tuple(Position(queue, 0) for queue in queues),
        record_count_max=record_count_max,
        hold_seconds=hold_s,
    )
    lease = AnswerBudget(1 << 30).lease("peer")
    return OpenPull(
        log, held, order, filters or {}, lease, monotonic=asyncio.get_running_loop().time
    )


async def ends_of(pull):
    return {each.queue.queue_id: each.next_queue_offset for each in await pull.answer()}


async def test_after_the_first_look_only_what_has_grown_is_looked_at(log, held):
    with opened(log, held) as pull:
        waiting = asyncio.create_task(ends_of(pull))
        await asyncio.sleep(0)
        log.grow(7)
        log.grow(90)
        assert await waiting == {7: 1, 90: 1}
        log.grow(3)
        assert await ends_of(pull) == {3: 1}
        assert pull.may_go_on
    assert log.looks == [set(range(100)), {7, 90}, {3}]
    log.grow(3)
    assert held.count == 0


async def test_many_queues_are_watched_in_the_turns_that_look_at_them(log, held):
    queues = [QueueKey("orders", queue_id) for queue_id in range(2 * PLACES_MAX + 1)]
    log.ends = dict.fromkeys(queues, 0)
    with opened(log, held, queues=queues) as pull:
        waiting = asyncio.create_task(ends_of(pull))
        while held.count == 0:  # noqa: ASYNC110 - of the pull
            await asyncio.sleep(0)
        assert log.watched == [PLACES_MAX, 2 * PLACES_MAX]
        assert len(held._watches) == 2 * PLACES_MAX + 1
        held.arrived(queues[-1])
        log.ends[queues[-1]] += 1
        assert await waiting == {2 * PLACES_MAX: 1}
    assert log.looks == [set(range(2 * PLACES_MAX + 1)), {2 * PLACES_MAX}]
    # Not all are forgotten in one turn either.
    left = []
    while held._watches:
        left.append(len(held._watches))
        await asyncio.sleep(0)
    assert left == [PLACES_MAX + 1, 1]


@pytest.mark.parametrize("under_repair", [set(), {QUEUES[2]}])
async def test_a_queue_that_only_a_later_look_of_one_turn_reads_ends_a_hold(
    log, held, under_repair
):
    log.turn_places = 1
    log.grow(0)
    log.grow(1)
    with opened(log, held, hold_s=1, record_count_max=2, queues=QUEUES[:3]) as pull:
        assert await ends_of(pull) == {0: 1, 1: 1}
        log.under_repair = under_repair
        waiting = asyncio.create_task(ends_of(pull))
        while held.count == 0:  # noqa: ASYNC110 - of the pull
            await asyncio.sleep(0)
        log.under_repair = set()
        log.grow(2)
        assert await waiting == {2: 1}
    assert log.looks == [{0, 1, 2}, {2}, {2}]


async def test_a_pull_for_some_tags_looks_only_when_such_messages_come(log, held):
    wanted = {"orders": TagFilter(frozenset({"red"}), exact=True)}
    with opened(log, held, filters=wanted) as pull:
        waiting = asyncio.create_task(ends_of(pull))
        while held.count == 0:  # noqa: ASYNC110 - of the pull
            await asyncio.sleep(0)
        for _ in range(3):
            log.grow(7, [tag_code("blue"), 0])
            await asyncio.sleep(0)
        assert len(log.looks) == 1
        log.grow(9, [tag_code("blue"), tag_code("red")])
        assert await waiting == {9: 1}
    assert log.looks == [set(range(100)), {9}]
    with opened(log, held, hold_s=0.01, filters=wanted) as pull:
        # What does not match moves the position at the latest when the time is over.
        log.matching = False
        assert (await ends_of(pull))[7] == 3


async def test_messages_without_room_in_an_answer_are_in_the_next(log, held):
    with opened(log, held, record_count_max=2) as pull:
        waiting = asyncio.create_task(ends_of(pull))
        await asyncio.sleep(0)
        for number in (1, 2, 2, 5):
            log.grow(number)
        assert await waiting == {1: 1, 2: 1}
        assert await ends_of(pull) == {2: 2, 5: 1}
    assert log.looks[1:] == [{1, 2, 5}, {2, 5}]


async def test_who_was_answered_at_once_looks_at_all_again(log, held):
    log.grow(4)
    with opened(log, held) as pull:
        assert await ends_of(pull) == {4: 1}
        log.grow(5)
        assert await ends_of(pull) == {5: 1}
    assert log.looks == [set(range(100))] * 2


async def test_an_interruption_ends_it_with_what_there_is(log, held):
    with opened(log, held) as pull:
        waiting = asyncio.create_task(ends_of(pull))
        await asyncio.sleep(0)
        pull.interrupt()
        log.grow(4)
        assert await waiting == dict.fromkeys(range(100), 0) | {4: 1}
        assert not pull.may_go_on


async def test_it_holds_no_longer_once_it_was_interrupted(log, held):
    log.grow(4)
    with opened(log, held) as pull:
        pull.interrupt()
        assert await ends_of(pull) == {4: 1}
        assert not pull.may_go_on
        async with asyncio.timeout(60):
            assert len(await pull.answer()) == 100


async def test_the_end_of_its_time_names_all_queues(log, held):
    with opened(log, held, hold_s=0.01) as pull:
        assert await ends_of(pull) == dict.fromkeys(range(100), 0)
        assert not pull.may_go_on


async def test_what_only_moved_is_told_soon_and_without_the_queues_that_did_not(log, held):
    log.matching = False
    with opened(log, held) as pull:
        for number in (4, 7):
            log.grow(number)
            async with asyncio.timeout(60):
                assert await ends_of(pull) == {number: 1}
            assert pull.may_go_on
    assert held.count == 0


async def test_a_long_search_tells_how_far_it_has_come(log, held):
    log.unfinished, log.matching = True, False
    log.grow(4)
    with opened(log, held) as pull:
        async with asyncio.timeout(60):
            assert await ends_of(pull) == {4: 1}


async def test_an_interruption_ends_a_search_for_what_a_filter_wants(log, held):
    log.unfinished = True
    with opened(log, held) as pull:
        waiting = asyncio.create_task(ends_of(pull))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        pull.interrupt()
        async with asyncio.timeout(60):
            assert len(await waiting) == 100
