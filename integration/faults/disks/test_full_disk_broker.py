"""A broker's process on a disk without space: typed errors, an orderly end, a start in one line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from grpc import aio
from grpc_status import rpc_status
from unplugged_disk import why_not

from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane.broker.v1.group_service_pb2_grpc import GroupServiceStub
from ariane.broker.v1.send_service_pb2_grpc import SendServiceStub
from ariane.broker.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane.common.v1.message_pb2 import Message
from ariane_sdk import ClusterClient, Producer, QueueReader
from ariane_sdk import Message as SentMessage
from ariane_servicekit.running.processes import LocalCluster, ProcessFailed
from ariane_testkit.closed_clusters import open_aio_channel

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

DISK_BYTES = 96 << 20
SMALL = (
    *("--segment-bytes", str(1 << 20), "--message-bytes-max", str(1 << 19)),
    *("--index-slots", "100"),
    *("--index-items", "4000"),
    # The file system says when it is full.
    *("--disk-clean-ratio", "1.0", "--disk-force-ratio", "1.0", "--disk-refuse-ratio", "1.0"),
)


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)], check=True
    )
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all space that is left."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        size = 1 << 20
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2
    return ballast


async def test_nothing_can_be_stored_and_everybody_is_told(tmp_path, small_disk):
    flags = (*SMALL, "--store-path", str(small_disk / "store"))
    async with LocalCluster(tmp_path / "cluster", extra_broker_args=flags) as cluster:
        [broker] = cluster.brokers
        log = tmp_path / "cluster" / "logs" / "broker-a.log"
        async with (
            ClusterClient(cluster.name_servers) as client,
            Producer(cluster.name_servers) as producer,
        ):
            await client.create_topic("orders", queue_count=1)
            await producer.send(SentMessage("orders", b"a"))
        ballast = fill(small_disk)
        async with open_aio_channel(broker.address) as channel:
            topic = topic_pb.Topic(topic="more", read_queue_count=1, write_queue_count=1)
            group = group_pb.ConsumerGroup(consumer_group="g", consume_enabled=True)
            message = Message(body=b"a")
            calls = [
                TopicServiceStub(channel).CreateTopic(topic_pb.CreateTopicRequest(topic=topic)),
                GroupServiceStub(channel).CreateConsumerGroup(
                    group_pb.CreateConsumerGroupRequest(group=group)
                ),
                SendServiceStub(channel).SendMessages(
                    send_pb.SendMessagesRequest(topic="new", messages=[message])
                ),
                TopicServiceStub(channel).DeleteTopic(topic_pb.DeleteTopicRequest(topic="orders")),
            ]
            for call in calls:
                with pytest.raises(aio.AioRpcError) as refused:
                    await call
                assert reason_of(refused.value) == "STORE_FULL"
        assert await broker.stop() == 1
        with pytest.raises(ProcessFailed) as failed:
            await broker.start()
        assert "no space left" in str(failed.value)
        assert "exception" not in log.read_text()
        ballast.unlink()
        await broker.start()
        async with QueueReader(cluster.name_servers) as reader:
            [(begin, end)] = (await reader.bounds("orders")).values()
            assert (begin, end) == (0, 1)


def reason_of(error):
    status = rpc_status.from_call(error)
    [info] = [detail for detail in status.details if detail.Is(ErrorInfo.DESCRIPTOR)]
    said = ErrorInfo()
    info.Unpack(said)
    return said.reason
