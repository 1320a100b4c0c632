"""Which rows a call takes, and which wait for others."""

import asyncio

import pytest

from ariane_record import ProducerSequence
from ariane_record.encoding.message_properties import TopicProperties
from ariane_sdk import ProducerSettings
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.accumulator.accumulator import EVERYTHING, Accumulator, Waiting
from ariane_sdk.producer.accumulator.row import Row
from ariane_sdk.producer.sending.sender import Sender
from ariane_sdk.runtime.clock import SystemClock

QUEUE = MessageQueue("orders", "broker-a", 0)
OTHER_QUEUE = MessageQueue("orders", "broker-a", 1)
NEVER_S = 1e12
TOPIC = TopicProperties("orders", id_bytes=32, sequenced=True)


def row_for(queue, *, pinned=False, count=1, size_bytes=0, other=None):
    """A row of some messages; the rest of it can go to another queue."""
    row = Row(
        queue, TOPIC, choose_other=None if pinned else lambda _: other or queue, sequenced=True
    )
    for number in range(count):
        row.add(b"%d" % number + bytes(size_bytes), TOPIC.of_tag(""), 1, None)
    return row


def numbered(queue):
    """A row that is perhaps stored, and waits to be repeated under its numbers."""
    row = row_for(queue)
    row.sequence = ProducerSequence(7, 0, 40)
    row.not_before_s = NEVER_S
    return row


@pytest.fixture
async def line():
    """A sender, and the calls that it made."""
    calls = []
    sender = Sender(
        "broker-a",
        lambda call: calls.append(call.rows),
        settings=ProducerSettings(calls_in_flight_max=4, request_bytes_max=100_000),
        clock=SystemClock(),
    )
    yield sender, calls
    sender.close()


@pytest.mark.parametrize("pinned", [False, True])
async def test_a_row_that_comes_again_overtakes_none_that_is_repeated_in_its_queue(line, pinned):
    sender, calls = line
    repeated, fresh = numbered(QUEUE), row_for(QUEUE, pinned=pinned)
    moved, elsewhere = row_for(QUEUE), row_for(OTHER_QUEUE)
    sender.accumulator.add(fresh)
    sender.accumulator.add_again([repeated])
    # Refused in another call, or by another broker, they come here after it.
    sender.accumulator.add_again([moved, elsewhere])
    await asyncio.sleep(0)
    assert calls == [[elsewhere]]

    repeated.not_before_s = 0.0
    sender.accumulator.add_again([])
    await asyncio.sleep(0)
    assert calls == [[elsewhere], [repeated]]


async def test_movable_rows_are_repeated_before_newer_rows(line):
    sender, calls = line
    fresh, again = row_for(QUEUE), [row_for(QUEUE), row_for(OTHER_QUEUE)]
    sender.accumulator.add(fresh)
    sender.accumulator.add_again(again)
    await asyncio.sleep(0)
    assert calls == [again]


def accumulator(*rows, request_bytes_max=1 << 20):
    made = Accumulator(lambda: None, request_bytes_max=request_bytes_max)
    for row in rows:
        made.add(row)
    return made


def test_a_call_takes_the_oldest_rows_up_to_a_number_of_messages_and_to_its_size():
    rows = [row_for(MessageQueue("orders", "broker-a", n), count=3) for n in range(5)]
    waiting = accumulator(*rows)
    assert waiting.waiting(frozenset()) == Waiting(15, 5, sum(row.wire_bytes for row in rows))
    assert waiting.waiting({rows[0].queue})[:2] == (12, 4)
    taken = waiting.take(6, frozenset(), 0.0)
    assert taken[:2] == (rows[:2], 6)
    assert [row.open for row in rows] == [False, False, True, True, True]
    assert waiting.take(EVERYTHING, {rows[2].queue}, 0.0)[0] == rows[3:]

    large = [row_for(MessageQueue("orders", "broker-a", n), size_bytes=4000) for n in range(3)]
    waiting = accumulator(*large, request_bytes_max=9000)
    assert waiting.take(EVERYTHING, frozenset(), 0.0)[0] == large[:2]
    waiting = accumulator(*large, request_bytes_max=100)
    assert waiting.take(EVERYTHING, frozenset(), 0.0)[0] == large[:1]


def test_a_row_that_must_wait_tells_when_it_may_be_taken():
    late, later = row_for(QUEUE), row_for(OTHER_QUEUE)
    late.not_before_s, later.not_before_s = 5.0, 7.0
    waiting = accumulator(later, late)
    assert waiting.take(EVERYTHING, frozenset(), 1.0)[-1] == 5.0
    assert waiting.take(EVERYTHING, frozenset(), 6.0)[0] == [late]
    assert waiting.give_up_movable() == [later]
    assert not waiting


def test_the_row_that_makes_a_call_full_stays_whole():
    rows = [row_for(MessageQueue("orders", "broker-a", n), count=10) for n in range(3)]
    taken = accumulator(*rows).take(14, frozenset(), 0.0)
    assert taken[:2] == (rows[:2], 20)
    assert [row.count for row in rows] == [10, 10, 10]
