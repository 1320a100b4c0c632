"""A range that is being read when its topic is deleted, and made anew and longer."""

from random import Random
from types import SimpleNamespace

import pytest

from ariane_broker.log.filtered_watches import FilteredWatches
from ariane_broker.log.held_requests import HeldRequests
from ariane_broker.log.log_epochs import LogEpochs
from ariane_broker.log.statistics import BrokerStatistics
from ariane_broker.read.range_pull import CHUNK_BYTES_MIN, PullRange, RangeOrder
from ariane_broker.topics.topic_table import TopicConfig
from ariane_servicekit import ServiceError
from ariane_storage import Store, StoreConfig
from ariane_storage.testing import block_of
from services.broker.tests.log_side import cold_reads
from services.broker.tests.read.test_hidden_end import AnyRoom


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "store", StoreConfig(segment_bytes=1 << 20))
    store.recover(("127.0.0.1", 1))
    for topic in ("orders", "bills"):
        store.append(block_of(topic, [bytes(CHUNK_BYTES_MIN)] * 5), 0)
    yield store
    store.close()


@pytest.fixture
def epochs(store):
    epochs = LogEpochs(store, BrokerStatistics(), draw=Random(1).randrange)
    epochs.begin()
    return epochs


@pytest.mark.parametrize("told", [False, True], ids=["without an epoch", "with its epoch"])
async def test_it_ends_there_and_brings_nothing_of_the_new_topic(store, epochs, told):
    topics = SimpleNamespace(
        find=lambda topic: TopicConfig(topic=topic, read_queue_count=1, write_queue_count=1)
    )
    pull_range = PullRange(
        store,
        topics,
        HeldRequests(FilteredWatches(store), count_max=10),
        BrokerStatistics(),
        epochs,
        cold_reads(),
    )
    epoch = epochs.current if told else 0

    def reading(topic):
        order = RangeOrder(
            topic=topic, queue_id=0, begin=0, end=5, chunk_bytes=CHUNK_BYTES_MIN, log_epoch=epoch
        )
        return pull_range.read(order, AnyRoom())

    orders, bills = reading("orders"), reading("bills")
    assert [len((await anext(each)).sizes) for each in (orders, bills)] == [1, 1]
    store.keeping.finish_deletion(store.keeping.let_go_of_topics(["orders"]))
    epochs.begin()
    store.append(block_of("orders", [b"new"] * 9), 0)
    with pytest.raises(ServiceError) as cut:
        await anext(orders)
    assert cut.value.row.name == "QUEUE_CUT"
    # Other topics go on.
    assert [len(chunk.sizes) async for chunk in bills] == [1, 1, 1, 1]
