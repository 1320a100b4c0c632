"""What a message that is received and acknowledged alone costs the broker, counted as an append's.

The figure is a bound for changes to come. Whoever makes it larger should know what for.
"""

import struct

import numpy as np
import pytest

from ariane.broker.v1 import receive_service_pb2 as receive_pb
from ariane_record.decoding.columns import decode_columns
from services.broker.tests.append.test_append_price import Counted
from services.broker.tests.receive.receive_calls import order

CALLS_MAX = 310
PAIRS = 20


@pytest.fixture
async def ready(broker):
    """A broker with messages in four queues, of which some were received."""
    await broker.create_topic("orders", 4)
    for queue_id in range(4):
        await broker.store("orders", [b"x" * 1024] * PAIRS, queue_id)
    for _ in range(PAIRS):
        await acknowledge(broker, await receive(broker))
    return broker


async def receive(broker):
    """As the SDK does it."""
    wanted = order(hold_s=5, message_count_max=1, size_bytes_max=1 << 20, client_id="one")
    request = receive_pb.ReceiveRecordsRequest(order=wanted)
    (queue,) = (await broker.receives.ReceiveRecords(request)).queues
    (offset,) = decode_columns(queue.records, np.frombuffer(queue.record_sizes, "<i4")).queue_offset
    ranges = struct.pack("<qq", offset, 1)
    settlement = receive_pb.RecordSettlement(receipt=queue.receipt, ranges=ranges)
    return receive_pb.SettleRecordsRequest(consumer_group="billing", settlements=[settlement])


async def acknowledge(broker, request):
    (result,) = (await broker.receives.SettleRecords(request)).results
    assert result.settled_count == 1


async def test_a_lone_message_takes_few_calls_of_the_broker(ready):
    counts = []
    for _ in range(PAIRS):
        with Counted() as counted:
            await acknowledge(ready, await receive(ready))
        counts.append(counted.calls.total())
    # What the broker does beside calls falls into some of them only.
    assert min(counts) < CALLS_MAX, counts
