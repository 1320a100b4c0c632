"""Messages that wait in the client: none is given out whose time is over."""

import asyncio
from contextlib import aclosing
from types import SimpleNamespace

from ariane.broker.v1.receive_service_pb2 import ReceiveOrder
from ariane_sdk.client.lost_messages import LostMessages
from ariane_sdk.consumer.receiving.asked_brokers import MemberBrokers
from ariane_sdk.consumer.receiving.fetched import Fetched
from ariane_sdk.net.timestamps import duration_from
from ariane_sdk.runtime.clock import SystemClock
from sdk.python.tests.consumer.receiving.test_asking import BATCH, Broker, asking_of, bodies


class ForwardClock(SystemClock):
    """Is put forward."""

    def __init__(self):
        self.now_s = 1000.0

    def monotonic_s(self):
        return self.now_s


class HoldingBroker(Broker):
    """Its messages are held for a minute."""

    def __init__(self, count, clock):
        super().__init__(count)
        self.clock = clock

    async def receive(self, route, order, hold_s):
        answer = await super().receive(route, order, hold_s)
        return answer._replace(held_until_s=self.clock.monotonic_s() + 60)


async def test_what_was_asked_ahead_and_waited_for_too_long_comes_to_nobody():
    clock = ForwardClock()
    broker, got = HoldingBroker(4 * BATCH, clock), []
    async with aclosing(asking_of(broker, clock=clock).batches()) as batches:
        got.append(await anext(batches))
        while len(broker.left) > 2:  # noqa: ASYNC110 - it is the other end.
            await asyncio.sleep(0)
        clock.now_s += 61
        got += [await anext(batches)]
    first, later = bodies(got[:1]), bodies(got[1:])
    assert first == list(range(BATCH))
    assert min(later) > BATCH


async def test_what_was_kept_for_too_long_comes_to_nobody():
    clock = ForwardClock()
    broker = HoldingBroker(BATCH, clock)
    fetched = Fetched()
    fetched.keep(await broker.receive(None, None, 0))
    clock.now_s += 61
    fresh = HoldingBroker(0, clock)
    asking = asking_of(fresh, fetched, timeout_s=0.05, clock=clock)
    async with aclosing(asking.batches()) as batches:
        assert [batch async for batch in batches] == []
    assert not fetched.kept


async def test_whoever_works_for_long_gets_what_was_fetched_then():
    """What waited meanwhile would have used up attempts without being looked at."""
    clock = ForwardClock()
    broker, got = HoldingBroker(12 * BATCH, clock), []
    asking = asking_of(broker, clock=clock, invisible_s=60)
    async with aclosing(asking.batches()) as batches:
        for _ in range(6):
            got.append(await anext(batches))
            clock.now_s += 50
            for _ in range(20):
                await asyncio.sleep(0)
    # What was fetched before it was seen to be slow is dropped; everything else comes.
    offsets = bodies(got)
    assert offsets == sorted(offsets)
    assert offsets[BATCH:] == list(range(offsets[BATCH], offsets[BATCH] + 5 * BATCH))


def test_a_client_whose_clock_is_slow_relies_on_no_message_that_its_broker_gives_to_others():
    """Clocks may differ in speed by 5 %."""
    clock, order = ForwardClock(), ReceiveOrder(invisible_duration=duration_from(10.0))
    parts = dict.fromkeys(("primaries", "attachments", "receipts", "starts"))
    lost = LostMessages(fails=False)
    brokers = MemberBrokers(None, None, order, **parts, lost=lost, clock=clock)
    broker = SimpleNamespace(broker_name="a", read_address="127.0.0.1:1")
    answer = brokers._taken(broker, "127.0.0.1:1", SimpleNamespace(result=bytes), keeps=False)
    assert 1.05 * (answer.held_until_s - clock.monotonic_s()) <= 10.0
