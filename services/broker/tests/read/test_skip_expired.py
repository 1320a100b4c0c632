"""Ranges that a consumer reads, at a replica say: without what has expired."""

from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.common.v1.message_pb2 import Message


async def test_a_range_passes_over_what_has_expired_if_a_consumer_reads(running):
    old, young = Message(body=b"old"), Message(body=b"young")
    old.expire_time.FromMilliseconds(1_700_000_000_000)
    young.expire_time.FromMilliseconds(8_000_000_000_000)
    async with running() as broker:
        await broker.create_topic("codes")
        sent = send_pb.SendMessagesRequest(topic="codes", messages=[old, young, old])
        await broker.sends.SendMessages(sent)
        for skips, count in (False, 3), (True, 1):
            request = pull_pb.PullRangeRequest(
                topic="codes", end_queue_offset=3, skip_expired=skips
            )
            chunks = [chunk async for chunk in broker.pulls.PullRange(request)]
            assert sum(len(chunk.record_sizes) for chunk in chunks) == 4 * count
            assert chunks[-1].next_queue_offset == 3
            assert all(b"young" in chunk.records for chunk in chunks if chunk.records)
