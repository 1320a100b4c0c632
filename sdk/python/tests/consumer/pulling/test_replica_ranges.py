"""What a member of a group asks of a replica."""

from types import SimpleNamespace

from ariane.broker.v1.pull_service_pb2 import PullRangeResponse
from ariane_sdk import ConsumerSettings, MessageQueue
from ariane_sdk.consumer.pulling.replica_reads import ReplicaReads


class Replica:
    """Answers a range by one chunk."""

    def __init__(self):
        self.asked = []

    def PullRange(self, request):  # noqa: N802 - the contract's name.
        self.asked.append(request)
        return self

    async def __aiter__(self):
        yield PullRangeResponse(next_queue_offset=9)

    def cancel(self):
        pass


async def test_a_member_is_given_nothing_by_a_replica_that_has_expired():
    replica = Replica()
    window = SimpleNamespace(next_pull_offset=5, message_count=0)
    owned = SimpleNamespace(
        queue=MessageQueue("codes", "a", 0),
        window=window,
        released=False,
        wants_records=True,
        log_epoch=0,
    )

    async def take_in(pulled, begin, _filters):
        assert begin == 5
        window.next_pull_offset = pulled.head.next_queue_offset

    plan = SimpleNamespace(filters={}, settings=ConsumerSettings(), clock=None)
    connections = SimpleNamespace(pull=lambda _address: replica)
    reads = ReplicaReads(connections, plan, take_in=take_in, on_over=lambda: None)
    await reads.read(owned, "b:1", 9)
    assert window.next_pull_offset == 9
    (request,) = replica.asked
    assert (request.begin_queue_offset, request.skip_expired) == (5, True)
