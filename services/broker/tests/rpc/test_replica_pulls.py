"""What a replica lets read: what it was told to be confirmed, and no range that ends too early."""

import pytest

from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane_broker.rpc.replica_pulls import TO_THE_END, ReplicaPulls
from ariane_record import BlockEncoder
from ariane_servicekit import ServiceError
from ariane_storage import Store, StoreConfig


class Servicer:
    """Answers whatever it is asked."""

    async def PullRange(self, request, context):  # noqa: N802 - the contract's name.
        yield request.end_queue_offset

    PullMessageRange = PullRange

    async def ListQueueBounds(self, request, context):  # noqa: N802 - the contract's name.
        return request.topic


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "store", StoreConfig(segment_bytes=1 << 20))
    store.recover(("127.0.0.1", 1))
    encoder = BlockEncoder("orders", size_bytes_max=1 << 16)
    for body in (b"confirmed", b"perhaps"):
        encoder.add(body, born_timestamp_ms=1)
    appended = store.append_block(encoder.finish(), 0)
    store.copying.confirm_up_to(store.min_offset)
    store.second = int(appended.commit_log_offsets[1])
    yield store
    store.close()


@pytest.fixture
def pulls(store):
    return ReplicaPulls(lambda: "b:1", Servicer(), store)


def request(end):
    return pull_pb.PullRangeRequest(topic="orders", queue_id=0, end_queue_offset=end)


async def read(pulls, end):
    return [chunk async for chunk in pulls.PullRange(request(end), None)]


async def test_it_refuses_all_before_a_primary_has_told_what_is_confirmed(pulls):
    for end in (0, 1, TO_THE_END):
        with pytest.raises(ServiceError) as caught:
            await read(pulls, end)
        assert caught.value.row.name == "BROKER_NOT_PRIMARY"
    with pytest.raises(ServiceError):
        await pulls.ListQueueBounds(pull_pb.ListQueueBoundsRequest(topic="orders"), None)


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
