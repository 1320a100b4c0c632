"""``ariane consume`` goes on behind a message whose compressed body cannot be read."""

import asyncio
import itertools
import json
import signal
import subprocess
import sys

import pytest
from google.protobuf.duration_pb2 import Duration
from grpc import aio

from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1.group_service_pb2_grpc import GroupServiceStub
from ariane.broker.v1.send_service_pb2_grpc import SendServiceStub
from ariane_admin.cli import main
from ariane_admin.terminal.exits import ExitStatus
from ariane_record.layout import SystemFlag
from ariane_record.names import dead_letter_topic
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_sdk import QueueReader
from ariane_sdk.errors import RouteNotFound
from ariane_testkit.append_rows import row_of, rows_request

_numbers = itertools.count()


@pytest.fixture
def damaged(ariane, cluster):
    """A topic with three messages, the second of which says wrongly that it is compressed."""
    topic = group = f"damaged-{next(_numbers)}"
    ariane("topic", "create", topic, "--queues", "1", "--broker", "broker-a", "--exists-ok")
    encoder = BlockEncoder(topic, size_bytes_max=10_000)
    for body, flag in ((b"one", 0), (b"two", SystemFlag.COMPRESSED), (b"three", 0)):
        encoder.add(body, system_flag=int(flag), born_timestamp_ms=1)
    row = row_of(encoder.finish())
    policy = group_pb.RetryPolicy(table=group_pb.DelayTable(delays=[Duration(nanos=20_000_000)]))
    wanted = group_pb.ConsumerGroup(
        consumer_group=group, consume_enabled=True, attempts_max=1, retry_policy=policy
    )

    async def fill():
        for broker in cluster.brokers:
            async with aio.insecure_channel(broker.address) as channel:
                await GroupServiceStub(channel).CreateConsumerGroup(
                    group_pb.CreateConsumerGroupRequest(group=wanted)
                )
                if broker is cluster.brokers[0]:
                    answer = await SendServiceStub(channel).AppendRecords(rows_request([row]))
                    assert not answer.table_result.rows

    asyncio.run(fill())
    return topic


def test_a_damaged_body_is_told_and_passed_over(damaged, capfd):
    reading = ("consume", damaged, "--from", "earliest")
    assert main([*reading, "--no-follow"]) == ExitStatus.FAILED
    out, err = capfd.readouterr()
    assert out.splitlines() == ["one", "three"]
    [line] = err.splitlines()
    assert "skipped a message" in line
    assert f"{damaged}@broker-a#0 at 1" in line

    assert main([*reading, "--count", "2", "-o", "json"]) == ExitStatus.FAILED
    out, err = capfd.readouterr()
    assert [json.loads(row)["body"] for row in out.splitlines()] == ["one", "three"]


def test_a_group_has_a_damaged_body_come_again_and_become_a_dead_letter(
    damaged, ariane, cluster, tmp_path
):
    """Run as a process until the dead letter is there; what is sound is written once."""
    command = [sys.executable, "-m", "ariane_admin", "consume", damaged]
    command += ["--group", damaged, "--from", "earliest", "--name-servers", cluster.name_servers]
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("wb") as out_file, err.open("wb") as err_file:
        process = subprocess.Popen(command, stdout=out_file, stderr=err_file)
        try:
            asyncio.run(wait_for_dead_letter(cluster.name_servers, damaged))
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(20)
    assert out.read_bytes().splitlines() == [b"one", b"three"]
    told = err.read_text()
    assert "warning: the listener failed with 1 of" in told
    assert "Traceback" not in told


async def wait_for_dead_letter(name_servers, group):
    async with asyncio.timeout(60), QueueReader(name_servers) as reader:
        while True:
            try:
                bounds = await reader.bounds(dead_letter_topic(group))
            except RouteNotFound:
                bounds = {}
            if any(end for _, end in bounds.values()):
                return
            await asyncio.sleep(0.05)
