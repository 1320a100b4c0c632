"""What idle push consumers of RocketMQ 5 cost our gateway, and RocketMQ's proxy.

    .venv/bin/python -m bench.cluster.idle_consumers [--count 1000] [--seconds 60] [--only ours]

Each consumer has a connection, a stream with its settings, a receive that is held for 20 s, and a
heartbeat every 10 s, as those of Java, Go and Python have them. Nothing is sent to their topic.
Memory is what is resident: that of a Java machine hangs on its heap (1 GiB for the proxy).
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from google.protobuf.duration_pb2 import Duration

import ariane_wire
from apache.rocketmq.v2 import definition_pb2 as dp
from apache.rocketmq.v2 import service_pb2 as pb
from apache.rocketmq.v2.service_pb2_grpc import MessagingServiceStub

sys.path.append(str(Path(__file__).parents[1] / "peers"))

from peer_bench.contenders.gateway import Front, our_gateway, their_proxy
from peer_bench.errors import PeerUnavailable
from peer_bench.processes.usage import between, usage_of

TOPIC: Final = dp.Resource(name="idle")
GROUP: Final = dp.Resource(name="idlers")
ALL: Final = dp.FilterExpression(type=dp.TAG, expression="*")
HELD_S: Final = 20
BEAT_S: Final = 10.0
SETTLED_S: Final = 10.0
"""From the last consumer's start until anything counts."""
TOGETHER: Final = 50
"""Consumers that start at the same time."""


class Consumer(NamedTuple):
    """An idle consumer."""

    stub: Any
    metadata: Sequence[tuple[str, str]]

    async def start(self) -> Any:
        """Say the settings, as each client does first; returns the stream."""
        subscription = dp.Subscription(
            group=GROUP, subscriptions=[dp.SubscriptionEntry(topic=TOPIC, expression=ALL)]
        )
        said = dp.Settings(
            client_type=dp.PUSH_CONSUMER,
            subscription=subscription,
            user_agent=dp.UA(language=dp.JAVA, version="5.2.0", platform="Linux", hostname="host"),
        )
        stream = self.stub.Telemetry(metadata=self.metadata)
        await stream.write(pb.TelemetryCommand(settings=said))
        await stream.read()
        return stream

    async def receive(self) -> None:
        """Receive one after the other."""
        route = pb.QueryRouteRequest(topic=TOPIC)
        queue = (await self.stub.QueryRoute(route, metadata=self.metadata)).message_queues[0]
        request = pb.ReceiveMessageRequest(
            group=GROUP,
            message_queue=dp.MessageQueue(topic=TOPIC, id=-1, broker=queue.broker),
            filter_expression=ALL,
            batch_size=32,
            auto_renew=True,
            long_polling_timeout=Duration(seconds=HELD_S),
        )
        while True:
            call = self.stub.ReceiveMessage(request, metadata=self.metadata, timeout=HELD_S + 3)
            async for _ in call:
                pass

    async def beat(self) -> None:
        """Say now and then that it lives."""
        request = pb.HeartbeatRequest(group=GROUP, client_type=dp.PUSH_CONSUMER)
        while True:
            await asyncio.sleep(BEAT_S)
            await self.stub.Heartbeat(request, metadata=self.metadata, timeout=BEAT_S)


async def idle(front: Front, count: int, seconds: float) -> None:
    """Have so many consumers idle for so long, and print what they cost."""
    empty = [resident_bytes(front.pid), sum(map(resident_bytes, front.server_pids))]
    async with AsyncExitStack() as stack:
        consumers = []
        for number in range(count):
            channel = ariane_wire.insecure_channel(front.endpoint)
            await stack.enter_async_context(channel)
            names = {"client-id": f"host@{number}@1@idle", "language": "JAVA"}
            metadata = [(f"x-mq-{name}", value) for name, value in names.items()]
            metadata.append(("x-mq-client-version", "5.2.0"))
            consumers.append(Consumer(MessagingServiceStub(channel), metadata))
        streams = []
        for at in range(0, count, TOGETHER):
            starting = (each.start() for each in consumers[at : at + TOGETHER])
            streams += await asyncio.gather(*starting)
        async with asyncio.TaskGroup() as tasks:
            working = [
                tasks.create_task(work)
                for each in consumers
                for work in (each.receive(), each.beat())
            ]
            await asyncio.sleep(SETTLED_S)
            before = [usage_of([front.pid]), usage_of(front.server_pids)]
            await asyncio.sleep(seconds)
            after = [usage_of([front.pid]), usage_of(front.server_pids)]
            full = [resident_bytes(front.pid), sum(map(resident_bytes, front.server_pids))]
            for task in working:
                task.cancel()
    for what, *used in zip(("front", "servers behind it"), before, after, empty, full, strict=True):
        share = between(*used[:2]).cpu_s / seconds
        print(
            f"  {what:18s} {share:6.1%} of a core, {used[2] / 2**20:6.0f} MiB without, "
            f"{used[3] / 2**20:6.0f} MiB with them",
            flush=True,
        )


def resident_bytes(pid: int) -> int:
    """The memory of a process that is resident."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def main() -> None:
    """Measure both sides, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--only", choices=("ours", "theirs"))
    asked = parser.parse_args()
    for name, run in (("ours", our_gateway), ("theirs", their_proxy)):
        if asked.only in (None, name):
            print(f"{name}: {asked.count} idle push consumers, {asked.seconds:g} s", flush=True)
            try:
                with tempfile.TemporaryDirectory() as folder, run(Path(folder) / name) as front:
                    front.make_topic(TOPIC.name)
                    asyncio.run(idle(front, asked.count, asked.seconds))
            except PeerUnavailable as missing:
                print(f"  skipped: {missing}")


if __name__ == "__main__":
    main()
