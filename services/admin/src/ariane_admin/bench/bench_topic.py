"""A topic and consumer groups that exist only during one measurement."""

from __future__ import annotations

import gc
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from ariane.broker.v1.group_service_pb2 import DeleteConsumerGroupRequest
from ariane_admin.asking.cluster_doors import ClusterDoors, changed_at
from ariane_admin.errors import CommandFailed
from ariane_sdk import QueueReader
from ariane_sdk.errors import GroupNotFound

_NAME = "ariane-bench"

_YOUNG_OBJECTS_MAX: Final = 20_000
"""The number of new objects that starts the garbage collector: more than are in use."""


@dataclass(slots=True)
class BenchTopic:
    """One topic of one measurement."""

    name: str
    """Its name, which is unique."""
    name_servers: str
    """The name servers."""
    groups: list[str] = field(default_factory=list)
    """The groups that consumed it, to be deleted with it."""

    def new_group(self) -> str:
        """The name of another group that consumes it."""
        self.groups.append(f"{self.name}-{len(self.groups)}")
        return self.groups[-1]

    async def stored_count(self) -> int:
        """The number of messages in all its queues."""
        async with QueueReader(self.name_servers) as reader:
            bounds = await reader.bounds(self.name)
        return sum(end - begin for begin, end in bounds.values())


@asynccontextmanager
async def bench_topic(name_servers: str, queue_count: int) -> AsyncIterator[BenchTopic]:
    """Create a topic on all brokers during a block; delete it afterwards in any case.

    Raises:
        CommandFailed: The topic or a group could not be deleted; the error names it.
    """
    topic = BenchTopic(f"{_NAME}-{secrets.token_hex(4)}", name_servers)
    async with ClusterDoors(name_servers) as doors:
        await doors.client.create_topic(topic.name, queue_count=queue_count)
        try:
            with _spared_by_collector():
                yield topic
        finally:
            await _remove(doors, topic)


@contextmanager
def _spared_by_collector() -> Iterator[None]:
    """Keep the garbage collector from scanning all imported objects during a measurement.

    It would do so about once for every 100,000 sent messages, for 20 to 100 ms. It would scan
    messages in flight a thousand times in vain.
    """
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS_MAX)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


async def _remove(doors: ClusterDoors, topic: BenchTopic) -> None:
    try:
        for broker in await doors.primaries_of(topic.name):
            for group in topic.groups:
                request = DeleteConsumerGroupRequest(consumer_group=group)
                groups = doors.groups(broker.address)
                # A group without offsets on a broker is unknown there.
                with suppress(GroupNotFound):
                    await changed_at(broker, groups.DeleteConsumerGroup, request)
        await doors.client.delete_topic(topic.name, missing_ok=True)
    except Exception as error:
        raise CommandFailed(
            f"topic {topic.name} of the measurement could not be removed: {error};"
            f" ariane topic delete {topic.name} does it"
        ) from error
