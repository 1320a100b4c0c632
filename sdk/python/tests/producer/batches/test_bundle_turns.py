"""Bundles and single batches for one broker: nobody starves, and each queue keeps its order."""

import asyncio
from itertools import count

import pytest

from ariane_record import ProducerSequence
from ariane_record.encoding.plain_topic import PlainTopic
from ariane_record.single.message_id import UniqueIdGenerator
from ariane_sdk import ProducerSettings
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.batches.bundle import Bundle, BundleSettings
from ariane_sdk.producer.batches.send_batch import SendBatch
from ariane_sdk.producer.sending.broker_sender import BrokerSender
from ariane_sdk.runtime.clock import SystemClock

IDS = UniqueIdGenerator(lambda: 1, ip="10.1.2.3", pid=7, origin=0)
NEVER_S = 1e12
A, B, C, D = (MessageQueue(f"topic-{letter}", "broker-a", 0) for letter in "abcd")


class Line:
    """A sender and its calls; whoever comes later has a later deadline."""

    def __init__(self, *, sequenced=True, **limits):
        self.sequenced = sequenced
        self.calls = []
        self.in_flight = []
        self.apart = []
        self.deadlines_s = count(1)
        self.sender = BrokerSender(
            "broker-a",
            self._send,
            take_apart=self._take_apart,
            settings=ProducerSettings(
                **{"calls_in_flight_max": 2, "large_calls_in_flight_max": 2, **limits},
                request_bytes_max=1 << 26,
                idempotent=sequenced,
            ),
            clock=SystemClock(),
        )

    def _send(self, call):
        self.calls.append(call.bundle or call.batches)
        self.in_flight.append(call)

    def _take_apart(self, bundle):
        self.apart.append(bundle)
        return bundle.take_apart()

    def batch(self, queue, *, pinned=False):
        batch = SendBatch(
            queue,
            choose_other=None if pinned else lambda _: queue,
            body_bytes_max=100,
            sequenced=self.sequenced,
        )
        batch.deadline_s = next(self.deadlines_s)
        self.sender.add(batch)
        return batch

    def bundle(self, *queues):
        """One that takes no more."""
        bundle = Bundle(BundleSettings(IDS, sequenced=self.sequenced))
        bundle.deadline_s = next(self.deadlines_s)
        bundle.full = True
        loop = asyncio.get_running_loop()
        for queue in queues:
            topic = PlainTopic(queue.topic, id_bytes=IDS.digit_count)
            row = bundle.join(queue, topic, lambda _, queue=queue: queue)
            bundle.add(row, b"body", topic.shape_of(""), 1, loop.create_future())
        self.sender.add_bundle(bundle)
        return bundle

    async def answer(self, position=0):
        call = self.in_flight.pop(position)
        if call.bundle is not None:
            call.bundle.open = False
        call.over(call)
        await asyncio.sleep(0)
        return call.bundle or call.batches


@pytest.fixture
async def line():
    made = Line()
    yield made
    made.sender.close()


async def test_who_waits_to_be_repeated_lets_no_later_ones_pass_a_bundle(line):
    stuck = line.batch(A)
    stuck.not_before_s = NEVER_S
    line.batch(B)
    await asyncio.sleep(0)
    line.batch(B)
    line.batch(C)
    await asyncio.sleep(0)
    bundle = line.bundle(D)
    assert len(line.in_flight) == 2
    for _ in range(4):
        line.batch(B)
        line.batch(C)
        await line.answer()
    assert bundle in line.calls


async def test_later_batches_do_not_take_the_queues_of_a_bundle_from_it(line):
    line.batch(A)
    await asyncio.sleep(0)
    line.batch(B)
    await asyncio.sleep(0)
    assert len(line.in_flight) == 2
    bundle = line.bundle(A, B)
    for _ in range(4):
        # What goes elsewhere has no need to wait.
        for queue in (A, B, C):
            line.batch(queue)
        await line.answer()
    assert bundle in line.calls
    before = line.calls[: line.calls.index(bundle)]
    assert [batch.queue for batches in before for batch in batches] == [A, B, C]


async def test_a_bundle_lets_pass_what_is_repeated_under_its_numbers(line):
    repeated = line.batch(A)
    repeated.sequence = ProducerSequence(7, 0, 40)
    repeated.not_before_s = NEVER_S
    bundle = line.bundle(A, B)
    await asyncio.sleep(0)
    assert line.apart == [bundle]
    assert [[batch.queue for batch in batches] for batches in line.calls] == [[B]]
    repeated.not_before_s = 0.0
    line.sender.look_again()
    await asyncio.sleep(0)
    assert line.calls[1:] == [[repeated]]
    await line.answer(1)
    assert [batch.queue for batch in line.calls[2]] == [A]


async def test_what_a_bundle_was_goes_before_what_came_later(line):
    repeated = line.batch(A)
    repeated.sequence = ProducerSequence(7, 0, 40)
    repeated.not_before_s = NEVER_S
    line.batch(C)
    await asyncio.sleep(0)
    line.batch(D)
    await asyncio.sleep(0)
    bundle = line.bundle(A, B)
    later = line.batch(B)
    await line.answer(1)
    assert line.apart == [bundle]
    [batch] = line.calls[-1]
    assert batch.queue == B
    assert batch is not later


async def test_without_numbers_no_bundle_waits_for_a_batch_that_must_stay():
    line = Line(sequenced=False)
    try:
        line.batch(A, pinned=True)
        await asyncio.sleep(0)
        bundle = line.bundle(A, B)
        await asyncio.sleep(0)
        assert line.calls[1:] == [bundle]
    finally:
        line.sender.close()


async def test_a_bundle_is_sent_where_more_calls_than_two_are_in_flight_all_the_time():
    line = Line(calls_in_flight_max=4)
    try:
        for queue in (A, B, C):
            line.batch(queue)
            await asyncio.sleep(0)
        assert len(line.in_flight) == 3
        bundle = line.bundle(D)
        for queue in (A, B, C, A, B, C):
            line.batch(queue)
            await line.answer()
        assert bundle in line.calls[:5]
    finally:
        line.sender.close()
