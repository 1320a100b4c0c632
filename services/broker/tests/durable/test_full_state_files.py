"""State files on a disk without space: what is to be saved is refused, and nothing has changed."""

import errno
import os

from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane_storage.state_file import StateFile

ORDERS = {"consumer_group": "group", "topic": "orders"}


def calls(broker):
    """Every call that saves a state file before its answer."""
    topics, groups, offsets = broker.topics, broker.groups, broker.offsets
    change = group_pb.ConsumerGroupChange(consumer_group="group", attempts_max=3)
    place = offset_pb.QueueConsumerOffset(topic="bills", queue_offset=0)
    yield topics.UpdateTopic(topic_pb.UpdateTopicRequest(topic="orders", read_queue_count=2))
    yield topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic="orders"))
    yield groups.UpdateConsumerGroup(group_pb.UpdateConsumerGroupRequest(group=change))
    yield groups.DeleteConsumerGroup(group_pb.DeleteConsumerGroupRequest(consumer_group="group"))
    yield offsets.StoreConsumerOffsets(
        offset_pb.StoreConsumerOffsetsRequest(consumer_group="group", offsets=[place], durable=True)
    )
    yield offsets.ResetConsumerOffsets(
        offset_pb.ResetConsumerOffsetsRequest(**ORDERS, earliest=True)
    )
    yield offsets.CloneConsumerOffsets(
        offset_pb.CloneConsumerOffsetsRequest(**ORDERS, target_consumer_group="other")
    )
    yield offsets.DeleteConsumerOffsets(offset_pb.DeleteConsumerOffsetsRequest(**ORDERS))


async def test_each_call_that_saves_is_refused_and_changes_nothing(broker, refused, monkeypatch):
    for topic in ("orders", "bills"):
        await broker.create_topic(topic)
    await broker.store("orders", [b"a", b"b", b"c"])
    for group in ("group", "other"):
        await broker.store_offset(group, "orders", 0, 2, durable=True)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(StateFile, "save", full)
        reasons = [(await refused(call)).reason for call in calls(broker)]
    assert reasons == ["STORE_FULL"] * len(reasons)
    for group in ("group", "other"):
        assert await broker.known_offset(group, "orders") == 2
