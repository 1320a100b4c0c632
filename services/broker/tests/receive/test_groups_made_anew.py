"""A group that is deleted has nothing in hand any more, also if the log alone tells of it."""

import pytest

from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import offset_service_pb2 as offset_pb
from services.broker.tests.receive.receive_calls import Receiver

GROUP, TOPIC = "billing", "orders"


async def delete_group(broker):
    request = group_pb.DeleteConsumerGroupRequest(consumer_group=GROUP)
    await broker.groups.DeleteConsumerGroup(request)


async def delete_offsets(broker):
    request = offset_pb.DeleteConsumerOffsetsRequest(consumer_group=GROUP, topic=TOPIC)
    assert (await broker.offsets.DeleteConsumerOffsets(request)).offsets


@pytest.mark.parametrize("snapshot", ["lost", "older"])
@pytest.mark.parametrize("delete", [delete_group, delete_offsets])
async def test_what_a_deleted_group_received_is_not_restored_from_the_log(
    running, tmp_path, delete, snapshot
):
    config = tmp_path / "store" / "config"
    async with running() as broker:
        await broker.create_topic(TOPIC, 1)
        await broker.store(TOPIC, [b"a", b"b", b"c"])
        receiver = Receiver(broker)
        received = await receiver.receive(message_count_max=3)
        assert await receiver.ack(*received[:2]) == [True] * 2
        assert await broker.known_offset(GROUP, TOPIC) == 2
    older = {path: path.read_bytes() for path in config.glob("receiving.json*")}
    assert older
    async with running() as broker:
        await delete(broker)
        assert await broker.known_offset(GROUP, TOPIC) is None
    for path in config.glob("receiving.json*"):
        path.unlink()
    if snapshot == "older":  # As on a replica that has not got the next one yet.
        for path, content in older.items():
            path.write_bytes(content)
    async with running() as broker:
        assert await broker.known_offset(GROUP, TOPIC) is None
        received = await Receiver(broker).receive(message_count_max=3)
        assert [each.message.body for each in received] == [b"a", b"b", b"c"]
