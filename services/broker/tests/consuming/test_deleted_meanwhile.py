"""Offsets of a group that is deleted while they are stored or reset, in turns of the loop."""

import asyncio
from types import SimpleNamespace

import pytest

from ariane_broker.consuming.offset_changes import OffsetChanges, OffsetToStore
from ariane_broker.groups.consumer_groups import ConsumerGroups, GroupConfig
from ariane_broker.groups.consumer_offsets import ConsumerOffsets
from ariane_broker.queue_key import QueueKey
from ariane_broker.topics.topic_table import TopicConfig
from ariane_servicekit import ServiceError
from ariane_servicekit.running.turns import EXAMINED_MAX
from services.broker.tests.log_side import cold_reads

COUNT = 4 * EXAMINED_MAX


async def nothing(*_, **_named):
    """Waits for nothing."""


class Place:
    """A broker with one topic of many queues, and a group."""

    def __init__(self):
        config = TopicConfig(topic="orders", read_queue_count=COUNT, write_queue_count=COUNT)
        self.groups = ConsumerGroups(now_ms=lambda: 0)
        self.groups.put(GroupConfig(consumer_group="group"))
        self.offsets = ConsumerOffsets(now_ms=lambda: 0)
        self.changes = OffsetChanges(
            self.offsets,
            SimpleNamespace(queue_bounds=lambda *_: (0, 9), queue_end=lambda *_: 9),
            SimpleNamespace(find=lambda _: config, get=lambda _: config),
            self.groups,
            group_changes=SimpleNamespace(admit=nothing),
            clients=SimpleNamespace(notify_members=lambda *_: 0),
            cold_reads=cold_reads(),
            locks=SimpleNamespace(refusal=lambda *_: None),
            epochs=SimpleNamespace(check=lambda *_: None),
            saved=SimpleNamespace(mark_changed=lambda: None, save=nothing),
            replicate=nothing,
        )

    def store(self):
        queues = (QueueKey("orders", number) for number in range(COUNT))
        wanted = [OffsetToStore(queue, 5) for queue in queues]
        return self.changes.store("group", wanted, durable=False)

    def reset(self):
        return self.changes.reset("group", "orders", lambda _: 3, validate_only=False)

    def delete(self):
        self.groups.remove("group")
        self.offsets.remove_group("group")


@pytest.mark.parametrize("change", [Place.store, Place.reset], ids=["store", "reset"])
async def test_a_group_that_is_deleted_in_between_has_no_offsets(change):
    place = Place()
    task = asyncio.create_task(change(place))
    async with asyncio.timeout(60):
        while not place.offsets.groups():  # noqa: ASYNC110 - nobody tells of a turn.
            await asyncio.sleep(0)
    place.delete()
    with pytest.raises(ServiceError) as refused:
        await task
    assert refused.value.row.name == "GROUP_NOT_FOUND"
    assert place.offsets.groups() == []
