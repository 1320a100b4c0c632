"""Which bundle a plain message joins."""

import asyncio
from types import SimpleNamespace

from ariane_record.single.message_id import UniqueIdGenerator
from ariane_sdk import ProducerSettings
from ariane_sdk.producer.batches.bundle import Bundle, BundleSettings
from ariane_sdk.producer.batches.open_batches import OpenBatches
from ariane_sdk.producer.batches.topic_lane import TopicLane
from ariane_sdk.producer.sending.unsettled import Unsettled
from ariane_sdk.producer.sending.waiting_bundles import WaitingBundles
from ariane_sdk.routing.route import BrokerRoute, Route
from ariane_sdk.runtime.clock import SystemClock

IDS = UniqueIdGenerator(lambda: 1, ip="10.1.2.3", pid=7, origin=0)


class Brokers:
    """What ``Sending`` has for brokers to which everything comes in bundles."""

    def __init__(self):
        self.lines = {"broker-a": WaitingBundles(), "broker-b": WaitingBundles()}
        self.bundles = []
        self.senders = dict.fromkeys(self.lines, SimpleNamespace(bundling=True))
        self.unsettled = Unsettled(
            None, clock=SystemClock(), timeout_s=60.0, size_bytes_max=1 << 30
        )

    def is_welcome(self, _):
        return True

    def bundle_for(self, broker_name, size_bytes_max):
        line = self.lines[broker_name]
        bundle = line.joinable(size_bytes_max)
        if bundle is None:
            bundle = Bundle(BundleSettings(IDS, sequenced=True))
            line.add(bundle)
            self.bundles.append(bundle)
        return bundle


def lane_of(topic):
    """A topic with one queue on each of two brokers."""
    lane = TopicLane(topic, id_digits=IDS.digit_count, sticky_first=1)
    lane.follow(
        Route(
            topic,
            tuple(
                BrokerRoute("c", name, {0: "10.0.0.1:1"}, 1, 1) for name in ("broker-a", "broker-b")
            ),
        )
    )
    return lane


class Taking:
    """Takes messages, and knows who waits for them."""

    def __init__(self, topics, **limits):
        self.brokers = Brokers()
        self.lanes = {topic: lane_of(topic) for topic in topics}
        self.open = OpenBatches(
            self.brokers,
            settings=ProducerSettings(**limits),
            unique_ids=IDS,
            clock=SystemClock(),
        )

    def take(self, topic, size_bytes):
        lane = self.lanes[topic]
        future = asyncio.get_running_loop().create_future()
        assert self.open.add_plain(lane, bytes(size_bytes), lane.plain.shape_of(""), future)

    @property
    def held_bytes(self):
        return sum(bundle.size_bytes for bundle in self.brokers.bundles)


async def test_no_topic_is_in_a_bundle_twice():
    """Who found no room in it does not come back: a queue has one batch in flight."""
    taking = Taking(["orders", "bills"], request_bytes_max=100_000)
    for topic, size_bytes in [
        ("orders", 90_000),
        ("orders", 80_000),  # To the other broker.
        ("bills", 100),
        ("bills", 15_000),  # Behind it.
        ("orders", 6000),  # Would find room where it was first.
        ("orders", 100),
    ]:
        taking.take(topic, size_bytes)
    for bundle in taking.brokers.bundles:
        assert len(set(bundle.queues)) == len(bundle.queues)
    assert taking.brokers.unsettled.size_bytes == taking.held_bytes
