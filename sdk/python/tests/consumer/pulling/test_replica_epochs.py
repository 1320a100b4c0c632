"""What a replica gave between two primaries is of no epoch that the first one told."""

import asyncio
from types import SimpleNamespace

import pytest
from google.rpc.error_details_pb2 import ErrorInfo

from ariane.broker.v1.pull_service_pb2 import PullRangeResponse, QueueRecords
from ariane_sdk import MessageQueue, PullSettings, errors
from ariane_sdk.client.lost_messages import LostMessages
from ariane_sdk.consumer.delivery.damaged_bodies import DamagedBodies
from ariane_sdk.consumer.delivery.owned_queue import position_to_store
from ariane_sdk.consumer.group.pause_notice import PauseNotice
from ariane_sdk.consumer.polling.polled_queue import PolledQueue
from ariane_sdk.consumer.pulling import pull_loop
from ariane_sdk.consumer.pulling.pull_source import BrokerSource
from ariane_sdk.consumer.pulling.pull_wire import PullAnswer, PulledRecords
from ariane_sdk.net.status import ERROR_DOMAIN
from ariane_sdk.runtime.clock import SystemClock

QUEUE = MessageQueue("orders", "broker-a", 0)
FIRST, NEXT = 11, 12
"""Epochs of the two primaries' logs."""
READ, END = 60, 90
"""What the consumer has read of the first primary, and as far as the replica goes."""


class Range:
    """A replica's answer: nothing matches a filter up to the end."""

    async def __aiter__(self):
        yield PullRangeResponse(next_queue_offset=END)

    def cancel(self):
        pass


class Broker:
    """A primary that is away, a replica in its place, and the primary that follows."""

    address = "127.0.0.1:2"

    def __init__(self, kept_end):
        self.kept_end = kept_end
        self.is_away = True
        self.asked, self.answers, self.stored, self.lost = [], asyncio.Queue(), [], []
        self.is_over = asyncio.Event()

    # As ``Connections``, and as ``PullStream``.

    def channel(self, _address):
        return self

    def pull(self, _address):
        return SimpleNamespace(PullRange=lambda _request: Range())

    def __call__(self, *_, **__):
        return self

    async def ask(self, request, *, follow):
        del follow
        (position,) = request.positions
        self.asked.append((position.queue_offset, position.log_epoch))
        if self.is_away:
            self.is_away = False
            raise errors.ServiceUnavailable("away", retriable=True)
        self.stored.append(position_to_store(self.owned, END))
        head = QueueRecords(topic="orders", log_epoch=NEXT, next_queue_offset=position.queue_offset)
        if position.log_epoch == FIRST and position.queue_offset > self.kept_end:
            head.error.code = 9
            head.error.details.add().Pack(ErrorInfo(reason="QUEUE_CUT", domain=ERROR_DOMAIN))
        if position.queue_offset == END:
            self.is_over.set()
            return  # There is nothing more: the pull is held.
        self.answers.put_nowait(
            PullAnswer([PulledRecords(head, memoryview(b""), memoryview(b""))], more_follow=False)
        )

    async def answer(self, _timeout_s):
        return await self.answers.get()

    def close(self):
        pass

    def drop(self, queue, error):
        self.lost.append((queue, error.reason))
        self.loop.remove(queue)
        self.is_over.set()


@pytest.fixture
def played(monkeypatch):
    async def played(kept_end):
        broker = Broker(kept_end)
        monkeypatch.setattr(pull_loop, "PullStream", broker)
        plan = SimpleNamespace(
            group="g",
            client_id="c",
            filters={},
            settings=PullSettings(),
            clock=SystemClock(),
            pause=PauseNotice(),
        )
        broker.loop = loop = pull_loop.PullLoop(
            QUEUE.broker_name,
            broker,
            plan,
            source=BrokerSource(QUEUE.broker_name, lambda: broker.address, lambda: ["127.0.0.1:3"]),
            on_trouble=lambda _topic, _error: None,
            on_lost=broker.drop,
            lock_epoch_of=lambda _queue: None,
            damaged_bodies=DamagedBodies(None),
            lost_messages=LostMessages(fails=False),
            on_fatal=lambda _error: None,
        )
        broker.owned = PolledQueue(
            QUEUE,
            READ,
            settings=plan.settings,
            paused=set(),
            on_room=lambda: None,
            on_arrival=lambda _polled: None,
        )
        broker.owned.log_epoch = FIRST
        loop.add(broker.owned)
        async with asyncio.timeout(20):
            await broker.is_over.wait()
        await loop.close()
        return broker

    return played


async def test_a_consumer_that_a_replica_took_beyond_the_switchover_goes_on(played):
    broker = await played(kept_end=READ + 10)
    assert broker.lost == []
    assert broker.asked == [(READ, FIRST), (READ, FIRST), (END, NEXT)]
    # Nothing is stored that the next primary would take for lost.
    assert broker.stored == [(READ, FIRST), (END, NEXT)]


async def test_a_consumer_that_had_read_what_is_lost_is_set_back_all_the_same(played):
    broker = await played(kept_end=READ - 10)
    assert broker.lost == [(QUEUE, "QUEUE_CUT")]
    assert broker.asked == [(READ, FIRST), (READ, FIRST)]
