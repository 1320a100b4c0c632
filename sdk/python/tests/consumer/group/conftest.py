"""Owned queues over offsets, locks and work of the tests."""

from types import SimpleNamespace

import pytest

from ariane_sdk import PushSettings
from ariane_sdk.checks.tag_filter import TagFilter
from ariane_sdk.consumer.delivery.damaged_bodies import DamagedBodies
from ariane_sdk.consumer.group.pause_notice import PauseNotice
from ariane_sdk.consumer.owned_queues import OwnedQueues
from sdk.python.tests.consumer.group.owned_place import Q0, Q1, Q2, Keeping, QuickClock, Work


@pytest.fixture
async def make_owned():
    made = []

    def make(locks=None):
        broker = SimpleNamespace(broker_name="broker-a", read_address="127.0.0.1:1")
        place = SimpleNamespace(works=[], lost=0, keeping=Keeping(), broker=broker)
        route = SimpleNamespace(read_queues=(Q0, Q1, Q2), broker=lambda _name: place.broker)
        lost = SimpleNamespace(read_queues=(), broker=lambda _name: None)
        known = {"gone": lost, "orders": route}
        place.routes = SimpleNamespace(
            known=known,
            cached=known.get,
            latest_first=lambda topics: [known[topic] for topic in topics],
            doubt=lambda _topic: None,
        )

        def make_work(queue, begin_offset, _on_room):
            place.works.append(Work(queue, begin_offset))
            return place.works[-1]

        def lose():
            place.lost += 1

        plan = SimpleNamespace(
            pause=PauseNotice(),
            group="g",
            client_id="c",
            filters={"orders": TagFilter.parse("*")},
            start="earliest",
            settings=PushSettings(),
            clock=QuickClock(),
        )
        place.owned = OwnedQueues(
            SimpleNamespace(
                connections=None,
                routes=place.routes,
                calls=None,
                failover=SimpleNamespace(note=lambda _error, _topics: None),
            ),
            plan,
            keeping=place.keeping,
            locks=locks,
            make_owned=make_work,
            damaged_bodies=DamagedBodies(None),
            on_lost=lose,
            on_fatal=lambda _error: None,
        )
        made.append(place)
        return place

    yield make
    for place in made:
        for work in place.works:
            work.finish.set()
        await place.owned.close()
