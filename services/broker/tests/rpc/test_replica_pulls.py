"""What a replica lets read: what it was told to be confirmed, and no range that ends too early."""

from types import SimpleNamespace

import pytest

from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane_broker.log.filtered_watches import FilteredWatches
from ariane_broker.log.held_requests import HeldRequests
from ariane_broker.log.statistics import BrokerStatistics
from ariane_broker.read.range_pull import PullRange, RangeOrder
from ariane_broker.rpc.replica_pulls import TO_THE_END, ReplicaLogGate, ReplicaPulls
from ariane_broker.topics.topic_table import TopicConfig, TopicTable
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_servicekit import AnswerBudget, ServiceError
from ariane_storage import Store, StoreConfig
from services.broker.tests.log_side import cold_reads


class Servicer:
    """Answers whatever it is asked."""

    async def PullRange(self, request, context):  # noqa: N802 - the contract's name.
        yield request.end_queue_offset

    async def ListQueueBounds(self, request, context):  # noqa: N802 - the contract's name.
        return request.topic


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "store", StoreConfig(segment_bytes=1 << 20))
    store.recover(("127.0.0.1", 1))
    encoder = BlockEncoder("orders", size_bytes_max=1 << 16)
    for body in (b"confirmed", b"perhaps"):
        encoder.add(body, born_timestamp_ms=1)
    appended = store.append(encoder.finish(), 0)
    store.second = int(appended.commit_log_offsets[1])
    yield store
    store.close()


class Following:
    """What a replica's following says of its log."""

    knows_confirmed = True
    is_agreeing = False
    agreement_count = 1


@pytest.fixture
def following():
    return Following()


@pytest.fixture
def gate(following):
    return ReplicaLogGate(
        lambda: "b:1",
        knows_confirmed=lambda: following.knows_confirmed,
        is_agreeing=lambda: following.is_agreeing,
        agreement_count=lambda: following.agreement_count,
    )


@pytest.fixture
def pulls(store, gate):
    return ReplicaPulls(lambda: "b:1", Servicer(), store, gate)


def request(end, log_epoch=0):
    return pull_pb.PullRangeRequest(
        topic="orders", queue_id=0, end_queue_offset=end, log_epoch=log_epoch
    )


async def read(pulls, end):
    return [chunk async for chunk in pulls.PullRange(request(end), None)]


async def refuses_all(pulls):
    for end in (0, 1, TO_THE_END):
        with pytest.raises(ServiceError) as caught:
            await read(pulls, end)
        assert caught.value.row.name == "BROKER_NOT_PRIMARY"
    with pytest.raises(ServiceError) as caught:
        await pulls.ListQueueBounds(pull_pb.ListQueueBoundsRequest(topic="orders"), None)
    assert caught.value.row.name == "BROKER_NOT_PRIMARY"


async def test_it_refuses_all_before_a_primary_has_told_what_is_confirmed(
    tmp_path, gate, following
):
    # Also when its log is empty: it would say that there is no such topic.
    empty = Store(tmp_path / "empty", StoreConfig(segment_bytes=1 << 20))
    empty.recover(("127.0.0.1", 1))
    following.knows_confirmed = False
    await refuses_all(ReplicaPulls(lambda: "b:1", Servicer(), empty, gate))
    empty.close()


async def test_it_refuses_all_while_its_log_is_cut(pulls, following):
    assert await read(pulls, 1) == [1]
    following.is_agreeing = True
    await refuses_all(pulls)


async def test_a_range_ends_once_the_log_is_cut(store, gate, following):
    topics = TopicTable(now_ms=lambda: 0, default_queue_count=1)
    topics.put(TopicConfig(topic="orders", read_queue_count=1, write_queue_count=1))
    ranges = PullRange(
        store,
        topics,
        HeldRequests(FilteredWatches(None), count_max=1),
        BrokerStatistics(),
        SimpleNamespace(check=lambda *_: None, current=1),
        cold_reads(),
        open_log=gate.open,
    )
    lease = AnswerBudget(1 << 20).lease("reader")
    order = RangeOrder(topic="orders", queue_id=0, begin=0, end=TO_THE_END)
    chunks = ranges.read(order, lease)
    assert len((await anext(chunks)).sizes) == 2
    following.agreement_count += 1
    with pytest.raises(ServiceError) as caught:
        await anext(chunks)
    assert caught.value.row.name == "BROKER_NOT_PRIMARY"


async def test_it_refuses_positions_of_an_epoch(pulls):
    with pytest.raises(ServiceError) as caught:
        [chunk async for chunk in pulls.PullRange(request(1, log_epoch=7), None)]
    assert caught.value.row.name == "BROKER_NOT_PRIMARY"


async def test_it_refuses_what_would_end_too_early(pulls, store):
    store.copying.confirm_up_to(store.second)
    assert await read(pulls, 1) == [1]
    assert await read(pulls, TO_THE_END) == [TO_THE_END]
    bounds = pull_pb.ListQueueBoundsRequest(topic="orders")
    assert await pulls.ListQueueBounds(bounds, None) == "orders"
    with pytest.raises(ServiceError) as caught:
        await read(pulls, 2)
    assert caught.value.row.name == "BROKER_NOT_PRIMARY"


async def test_groups_are_the_primary_s(pulls):
    with pytest.raises(ServiceError) as caught:
        await pulls.PullRecords(None, None)
    assert caught.value.metadata["primary"] == "b:1"
