"""A new primary whose end is not handed out yet: readers wait, and are neither cut nor set back."""

import asyncio
from random import Random
from types import SimpleNamespace

import pytest

from ariane_broker.errors.replication import broker_not_primary
from ariane_broker.log.filtered_watches import FilteredWatches
from ariane_broker.log.held_requests import HeldRequests
from ariane_broker.log.log_epochs import LogEpochs
from ariane_broker.log.statistics import BrokerStatistics
from ariane_broker.queue_key import QueueKey
from ariane_broker.read.range_pull import PullRange, RangeOrder
from ariane_broker.topics.topic_table import TopicConfig
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_servicekit import ServiceError
from ariane_storage import Store, StoreConfig
from services.broker.tests.log_side import cold_reads

ORDER = RangeOrder(topic="orders", queue_id=0, begin=0, end=2)


class AnyRoom:
    """Room for every answer."""

    async def take(self, wanted):
        return wanted

    def settle(self, granted, used):
        pass

    def release(self):
        pass


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "store", StoreConfig(segment_bytes=1 << 20))
    store.recover(("127.0.0.1", 1))
    encoder = BlockEncoder("orders", size_bytes_max=1 << 16)
    for body in (b"confirmed", b"perhaps"):
        encoder.add(body, born_timestamp_ms=1)
    appended = store.append(encoder.finish(), 0)
    store.copying.confirm_up_to(int(appended.commit_log_offsets[1]))
    yield store
    store.close()


@pytest.fixture
def ranges(store):
    held = HeldRequests(FilteredWatches(None), count_max=10)
    pull_range = PullRange(
        store,
        SimpleNamespace(
            find=lambda topic: TopicConfig(topic=topic, read_queue_count=1, write_queue_count=1)
        ),
        held,
        BrokerStatistics(),
        SimpleNamespace(check=lambda *_: None, current=1),
        cold_reads(),
        hides_end=lambda: store.confirmed_offset < store.max_offset,
    )

    async def read(order):
        return [len(chunk.sizes) async for chunk in pull_range.read(order, AnyRoom())]

    return SimpleNamespace(read=read, held=held)


async def test_it_waits_for_the_end_that_it_asks_for(store, ranges):
    reading = asyncio.ensure_future(ranges.read(ORDER))
    assert await ranges.read(RangeOrder(topic="orders", queue_id=0, begin=0, end=1)) == [1]
    assert not reading.done()
    store.copying.confirm_up_to(store.max_offset)
    assert await reading == [2]


async def test_it_does_not_wait_for_a_broker_that_stops(ranges):
    reading = asyncio.ensure_future(ranges.read(ORDER))
    await asyncio.sleep(0)
    ranges.held.close()
    with pytest.raises(ServiceError, match="draining"):
        await reading


def test_a_position_behind_what_is_hidden_is_not_cut(store):
    before = LogEpochs(store, BrokerStatistics(), draw=Random(1).randrange)
    before.begin()
    epochs = LogEpochs(store, BrokerStatistics(), draw=Random(2).randrange)
    epochs.load(before.document())
    epochs.begin()
    queue = QueueKey("orders", 0)
    # The primary before has handed out both.
    epochs.check(queue, 2, before.current)
    with pytest.raises(ServiceError) as cut:
        epochs.check(queue, 3, before.current)
    assert cut.value.row.name == "QUEUE_CUT"
    assert cut.value.metadata["end"] == "2"


def test_an_epoch_that_a_later_primary_may_have_begun_is_not_judged(store):
    """A primary that was frozen would set its readers back to the begin."""

    def refuse():
        raise broker_not_primary("")

    epochs = LogEpochs(store, BrokerStatistics(), draw=Random(1).randrange, check_all_known=refuse)
    epochs.begin()
    earlier = epochs.current
    epochs.begin()
    queue = QueueKey("orders", 0)
    epochs.check(queue, 1, earlier)
    with pytest.raises(ServiceError) as refused:
        epochs.check(queue, 1, earlier + 1)
    assert refused.value.row.name == "BROKER_NOT_PRIMARY"
