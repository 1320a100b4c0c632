"""Which batches are sent to a broker, and which wait for others."""

import asyncio

import pytest

from ariane_record import ProducerSequence
from ariane_sdk import ProducerSettings
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.producer.batches.bundle import Bundle
from ariane_sdk.producer.batches.send_batch import SendBatch
from ariane_sdk.producer.sending.broker_sender import BrokerSender
from ariane_sdk.runtime.clock import SystemClock

QUEUE = MessageQueue("orders", "broker-a", 0)
OTHER_QUEUE = MessageQueue("orders", "broker-a", 1)
NEVER_S = 1e12


def batch_for(queue, *, pinned=False):
    return SendBatch(
        queue,
        choose_other=None if pinned else lambda _: queue,
        body_bytes_max=100,
        sequenced=True,
    )


def numbered(queue):
    """A batch that is perhaps stored, and waits to be repeated under its numbers."""
    batch = batch_for(queue)
    batch.sequence = ProducerSequence(7, 0, 40)
    batch.not_before_s = NEVER_S
    return batch


@pytest.fixture
async def line():
    """A sender, and the calls that it made."""
    calls = []
    sender = BrokerSender(
        "broker-a",
        lambda call: calls.append(call.batches),
        take_apart=Bundle.take_apart,
        settings=ProducerSettings(calls_in_flight_max=4, request_bytes_max=1000),
        clock=SystemClock(),
    )
    yield sender, calls
    sender.close()


@pytest.mark.parametrize("pinned", [False, True])
async def test_a_batch_that_comes_again_overtakes_none_that_is_repeated_in_its_queue(line, pinned):
    sender, calls = line
    repeated, fresh = numbered(QUEUE), batch_for(QUEUE, pinned=pinned)
    moved, elsewhere = batch_for(QUEUE), batch_for(OTHER_QUEUE)
    sender.add(fresh)
    sender.add_again([repeated])
    # Refused in another call, or by another broker, they come here after it.
    sender.add_again([moved, elsewhere])
    await asyncio.sleep(0)
    assert calls == [[elsewhere]]

    repeated.not_before_s = 0.0
    sender.add_again([])
    await asyncio.sleep(0)
    assert calls == [[elsewhere], [repeated]]


async def test_what_may_go_anywhere_comes_again_before_what_came_later(line):
    sender, calls = line
    fresh, again = batch_for(QUEUE), [batch_for(QUEUE), batch_for(OTHER_QUEUE)]
    sender.add(fresh)
    sender.add_again(again)
    await asyncio.sleep(0)
    assert calls == [again]
