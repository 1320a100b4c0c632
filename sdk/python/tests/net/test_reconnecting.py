"""How soon a client comes back to a broker that was away."""

import asyncio
from itertools import accumulate
from types import SimpleNamespace

import pytest
from grpc import StatusCode
from grpc.aio import AioRpcError, Metadata

from ariane_sdk import MessageQueue, PullSettings
from ariane_sdk.client.attachment import Attachment
from ariane_sdk.client.lost_messages import LostMessages
from ariane_sdk.client.operator_answers import OperatorAnswers
from ariane_sdk.consumer.delivery.damaged_bodies import DamagedBodies
from ariane_sdk.consumer.group.pause_notice import PauseNotice
from ariane_sdk.consumer.polling.polled_queue import PolledQueue
from ariane_sdk.consumer.pulling.pull_loop import PullLoop
from ariane_sdk.consumer.pulling.pull_source import BrokerSource
from ariane_sdk.net.backoff import RECONNECT_DELAY_S_MAX, RECONNECT_DELAY_S_MIN
from ariane_sdk.net.connections import CHANNEL_OPTIONS

WAITS = 60
SETTINGS = PullSettings()


class WaitingClock:
    """Time passes by waiting; so many waits and no more."""

    def __init__(self):
        self.now_s = 0.0
        self.waits_s = []
        self.over = asyncio.Event()

    def monotonic_s(self):
        return self.now_s

    async def sleep(self, seconds):
        if len(self.waits_s) == WAITS:
            self.over.set()
            await asyncio.Event().wait()
        self.now_s += seconds
        self.waits_s.append(seconds)
        await asyncio.sleep(0)


def check_waits(waits_s):
    away_s = [0.0, *accumulate(waits_s)]
    for wait_s, before_s in zip(waits_s, away_s, strict=False):
        assert wait_s <= 0.13 + 0.25 * before_s
        assert wait_s <= RECONNECT_DELAY_S_MAX
    # Nobody hammers at a broker that stays away.
    assert waits_s == sorted(waits_s)
    assert waits_s[0] >= RECONNECT_DELAY_S_MIN
    assert waits_s[-1] == RECONNECT_DELAY_S_MAX


def unavailable(_requests):
    raise AioRpcError(StatusCode.UNAVAILABLE, Metadata(), Metadata(), details="gone")


async def test_a_member_is_back_a_quarter_of_the_outage_after_its_broker():
    clock = WaitingClock()
    attachment = Attachment(
        "broker-a",
        "127.0.0.1:1",
        SimpleNamespace(clients=lambda _address: SimpleNamespace(Attach=unavailable)),
        client_id="c",
        clock=clock,
        on_notice=lambda *_: None,
        on_fatal=lambda _error: None,
        answers=OperatorAnswers(facts=dict),
    )
    async with asyncio.timeout(60):
        await clock.over.wait()
    await attachment.close(1.0)
    check_waits(clock.waits_s)


async def test_pulls_are_back_a_quarter_of_the_outage_after_their_broker():
    clock = WaitingClock()
    loop = PullLoop(
        "broker-a",
        None,
        SimpleNamespace(
            group="g",
            client_id="c",
            filters={},
            settings=SETTINGS,
            clock=clock,
            pause=PauseNotice(),
        ),
        source=BrokerSource("broker-a", lambda: ""),
        on_trouble=lambda _topic, _error: None,
        damaged_bodies=DamagedBodies(None),
        lost_messages=LostMessages(fails=False),
        on_fatal=lambda _error: None,
        on_lost=lambda _queue, _error: None,
        lock_epoch_of=lambda _queue: None,
    )
    queue = MessageQueue("orders", "broker-a", 0)
    loop.add(
        PolledQueue(
            queue,
            0,
            settings=SETTINGS,
            paused=set(),
            on_room=lambda: None,
            on_arrival=lambda _polled: None,
        )
    )
    async with asyncio.timeout(60):
        await clock.over.wait()
    await loop.close()
    check_waits(clock.waits_s)


def test_connections_are_made_anew_no_later_than_calls_are():
    assert pytest.approx(RECONNECT_DELAY_S_MIN) == CHANNEL_OPTIONS.backoff_first_s
    assert CHANNEL_OPTIONS.backoff_max_s * 4 <= RECONNECT_DELAY_S_MAX
