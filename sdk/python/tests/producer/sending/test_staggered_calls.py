"""Very many tiny batches are sent by turns, in order, and none waits for long."""

import asyncio
from contextlib import asynccontextmanager
from itertools import chain, cycle
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ariane_sdk import ProducerSettings
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.batches.bundle import Bundle
from ariane_sdk.producer.batches.send_batch import SendBatch
from ariane_sdk.producer.sending.broker_sender import BrokerSender
from ariane_sdk.producer.sending.staggered_calls import StaggeredCalls
from ariane_sdk.runtime.clock import SystemClock

RECORD_BYTES = 1100
TURNS_WAITED_MAX = 6
"""Of a quarter each; a turn is at least 7/8 of the one before it."""


class CountedBatch(SendBatch):
    """A batch of so many messages of one size."""

    __slots__ = ("added_at", "messages", "over_at", "record_bytes")

    def __init__(self, queue, messages=0, *, pinned=False, record_bytes=RECORD_BYTES):
        super().__init__(
            queue,
            choose_other=None if pinned else lambda _: queue,
            body_bytes_max=100,
            sequenced=True,
        )
        self.messages = messages
        self.record_bytes = record_bytes

    @property
    def count(self):
        return self.messages

    @property
    def wire_bytes(self):
        return self.messages * self.record_bytes


def queue_of(topic, queue_id=0):
    return MessageQueue(f"topic-{topic}", "broker-a", queue_id)


def batches_of(batch_count, messages, **options):
    return [CountedBatch(queue_of(topic), messages, **options) for topic in range(batch_count)]


class Line:
    """A sender and its calls, which are answered when told."""

    def __init__(self, *, large_calls_in_flight_max=4, calls_in_flight_max=4):
        self.calls = []
        self.in_flight = []
        self.sender = BrokerSender(
            "broker-a",
            self._send,
            take_apart=Bundle.take_apart,
            settings=ProducerSettings(
                calls_in_flight_max=calls_in_flight_max,
                large_calls_in_flight_max=large_calls_in_flight_max,
                request_bytes_max=1 << 26,
            ),
            clock=SystemClock(),
        )

    def _send(self, call):
        self.calls.append(call.batches)
        self.in_flight.append(call)

    @property
    def sizes(self):
        return [len(call) for call in self.calls]

    async def add(self, batches):
        for batch in batches:
            self.sender.add(batch)
        await asyncio.sleep(0)

    async def answer(self, position=0):
        call = self.in_flight.pop(position)
        call.over(call)
        await asyncio.sleep(0)
        return call.batches


@asynccontextmanager
async def line(**options):
    made = Line(**options)
    try:
        yield made
    finally:
        made.sender.close()


@pytest.mark.parametrize("calls_in_flight_max", [1, 4])
async def test_a_quarter_is_sent_at_a_time_and_two_are_in_flight(calls_in_flight_max):
    async with line(calls_in_flight_max=calls_in_flight_max) as one:
        batches = batches_of(256, 4)
        await one.add(batches)
        assert one.sizes == [64, 56]
        assert list(chain.from_iterable(one.calls)) == batches[:120]
        assert [batch.open for batch in batches] == [False] * 120 + [True] * 136

        again = batches_of(64, 4)
        one.sender.add_again([])
        await one.answer()
        assert len(one.calls) == 3
        assert one.calls[2] == batches[120 : 120 + len(one.calls[2])]
        await one.add(again)  # They come last.
        assert len(one.calls) == 3
        while one.in_flight:
            await one.answer()
        assert list(chain.from_iterable(one.calls)) == batches + again


async def test_a_call_has_messages_enough_to_be_worth_it():
    async with line() as one:
        await one.add(batches_of(600, 1))
        assert one.sizes == [150, 131]
    async with line() as one:
        many = batches_of(150, 1)
        for batch in many[50:]:
            batch.messages = 10
        await one.add(many)
        assert one.sizes[0] == 50 + 2


@pytest.mark.parametrize(
    ("batch_count", "messages", "record_bytes"),
    [(23, 20, 1100), (100, 1, 1100), (255, 1, 1100), (256, 48, 100), (256, 4, 16384)],
    ids=["few batches", "few messages", "just too few", "large batches", "many bytes"],
)
async def test_others_are_sent_together(batch_count, messages, record_bytes):
    async with line() as one:
        await one.add(batches_of(batch_count, messages, record_bytes=record_bytes))
        # Batches of many messages share two calls.
        assert one.sizes in ([batch_count], [batch_count // 2] * 2)


async def test_all_are_sent_together_where_each_answer_waits_for_the_disk():
    async with line() as one:
        one.sender.answers_late = True
        await one.add(batches_of(256, 4))
        assert one.sizes == [256]


async def test_all_are_sent_together_once_answers_wait_for_the_disk():
    async with line() as one:
        await one.add(batches_of(256, 4))
        one.sender.answers_late = True
        await one.answer()
        assert one.sizes == [64, 56, 136]


async def test_all_are_sent_together_where_nothing_may_overlap():
    async with line(large_calls_in_flight_max=1) as one:
        await one.add(batches_of(256, 4))
        assert one.sizes == [256]


def test_turns_end_with_what_made_them_worth_it():
    for waiting, in_flight, outstanding, goes_on in [
        (14, 10, 128, True),
        (13, 10, 128, False),
        (14, 10, 127, False),
    ]:
        staggered = StaggeredCalls()
        staggered.plan(batches_of(100, 6), 0, 600)
        assert staggered.active
        staggered.plan(batches_of(waiting, 3), in_flight, outstanding)
        assert staggered.active is goes_on


def test_turns_end_when_batches_have_become_large():
    staggered = StaggeredCalls()
    staggered.plan(batches_of(100, 6), 0, 600)
    staggered.sent(10, 479, 479)
    assert staggered.active
    staggered.sent(0, 0, 0)  # All that might leave had to wait.
    assert staggered.active
    staggered.sent(10, 480, 480)
    assert not staggered.active


class Load:
    """Many who send, each again when it is answered, to any of many topics."""

    def __init__(self, one, *, topics, pinned_topics, seed):
        self.one = one
        self.random = Random(seed)
        self.topics = topics
        self.pinned_topics = pinned_topics
        self.open = {}
        self.queue_ids = cycle(range(4))
        self.added = {}

    def send(self):
        topic = self.random.randrange(self.topics)
        batch = self.open.get(topic)
        if batch is None or not batch.open:
            pinned = topic < self.pinned_topics
            queue = queue_of(topic, 0 if pinned else next(self.queue_ids))
            batch = self.open[topic] = CountedBatch(queue, pinned=pinned)
            batch.added_at = len(self.one.calls)
            self.added.setdefault(queue, []).append(batch)
            self.one.sender.add(batch)
        batch.messages += 1

    async def run(self, in_flight, answers):
        """Have as many answers as told, in any order, and then all the others."""
        for _ in range(in_flight):
            self.send()
        await asyncio.sleep(0)
        while self.one.in_flight:
            queues = [each.queue for call in self.one.in_flight for each in call.batches]
            assert len(queues) == len(set(queues))
            position = self.random.randrange(len(self.one.in_flight))
            call = self.one.in_flight.pop(position)
            for batch in call.batches:
                batch.over_at = len(self.one.calls)
            if answers:
                answers -= 1
                for _ in range(sum(each.count for each in call.batches)):
                    self.send()
            call.over(call)
            await asyncio.sleep(0)


@settings(max_examples=25)
@given(
    topics=st.integers(1, 700),
    in_flight=st.integers(1, 1500),
    answers=st.integers(0, 16),
    pinned_share=st.sampled_from([0.0, 0.1, 1.0]),
    seed=st.integers(0, 1 << 20),
)
def test_each_queue_keeps_its_order_and_no_batch_waits_for_many_turns(
    topics, in_flight, answers, pinned_share, seed
):
    async def run():
        async with line() as one:
            pinned_topics = int(topics * pinned_share)
            load = Load(one, topics=topics, pinned_topics=pinned_topics, seed=seed)
            await load.run(in_flight, answers)
            left = {}
            for number, call in enumerate(one.calls):
                for batch in call:
                    before = left.setdefault(batch.queue, [])
                    # Behind one of its own queue it waits for the answer to that, too.
                    since = max([batch.added_at, *(each.over_at for each in before[-1:])])
                    assert number - since < TURNS_WAITED_MAX
                    before.append(batch)
            assert left == load.added

    asyncio.run(run())
