"""Where groups begin and members end, while replicas do not have it; and unconfirmed resets."""

import asyncio
from collections import Counter
from types import SimpleNamespace

import pytest

from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane_broker.consuming.offset_changes import OffsetChanges, OffsetToStore, StoreRule
from ariane_broker.consuming.offset_queries import OffsetQueries
from ariane_broker.groups.consumer_groups import ConsumerGroups, GroupConfig
from ariane_broker.groups.consumer_offsets import ConsumerOffsets
from ariane_broker.groups.stream_queries import StreamQueries
from ariane_broker.queue_key import QueueKey
from ariane_broker.rpc.servicers.offset_servicer import OffsetServicer
from ariane_broker.topics.topic_table import TopicConfig
from ariane_servicekit.running.turns import EXAMINED_MAX
from services.broker.tests.log_side import cold_reads

COUNT = 4 * EXAMINED_MAX


async def nothing(*_, **_named):
    """Waits for nothing."""


class Place:
    """A broker with two groups, whose replicas confirm when they may."""

    def __init__(self):
        config = TopicConfig(topic="orders", read_queue_count=COUNT, write_queue_count=COUNT)
        groups = ConsumerGroups(now_ms=lambda: 0)
        groups.put(GroupConfig(consumer_group="group"), GroupConfig(consumer_group="other"))
        self.offsets = ConsumerOffsets(now_ms=lambda: 0)
        self.confirmed = asyncio.Event()
        self.told = []
        self.replicate = self.confirmed.wait
        self.changes = OffsetChanges(
            self.offsets,
            SimpleNamespace(queue_bounds=lambda *_: (0, 9), queue_end=lambda *_: 9),
            SimpleNamespace(find=lambda _: config, get=lambda _: config),
            groups,
            group_changes=SimpleNamespace(admit=nothing),
            clients=SimpleNamespace(notify_members=lambda _, notice: self.told.append(notice)),
            cold_reads=cold_reads(),
            locks=SimpleNamespace(refusal=lambda *_: None),
            epochs=SimpleNamespace(check=lambda *_: None),
            saved=SimpleNamespace(mark_changed=lambda: None, save=nothing),
            replicate=self._replicated,
        )
        members = SimpleNamespace(
            suspicion=lambda _: SimpleNamespace(watched_end=0, alone_end=0),
            in_doubt=lambda _: False,
        )
        clients = SimpleNamespace(
            offset_changes=self.changes,
            offset_queries=OffsetQueries(self.offsets, None, None, None),
            offset_deletion=None,
            members=members,
            table=SimpleNamespace(members=lambda _: ()),
            unread=None,
        )
        self.servicer = OffsetServicer(
            clients,
            SimpleNamespace(announced=0),
            standings=None,
            expired_counts=Counter(),
            stream_queries=StreamQueries(now_ms=lambda: 0),
        )

    async def _replicated(self):
        await self.replicate()

    def begin(self):
        queues = (QueueKey("orders", number) for number in range(COUNT))
        wanted = [OffsetToStore(queue, 5, rule=StoreRule.BEGIN) for queue in queues]
        return asyncio.create_task(self.changes.store("group", wanted, durable=True))

    def read(self, group):
        queue = offset_pb.GetConsumerOffsetsRequest(consumer_group=group)
        queue.queues.add(topic="orders", queue_id=0)
        return asyncio.create_task(self.servicer.GetConsumerOffsets(queue, None))

    def reset(self):
        return self.changes.reset("group", "orders", lambda _: 3, validate_only=False)


async def turns():
    for _ in range(4 * COUNT):
        await asyncio.sleep(0)


@pytest.mark.parametrize("cancelled", [False, True], ids=["waits", "cancelled"])
async def test_no_beginning_is_told_before_replicas_have_it(cancelled):
    place = Place()
    beginning = place.begin()
    async with asyncio.timeout(60):
        while not place.offsets.groups():  # noqa: ASYNC110 - nobody tells of a turn.
            await asyncio.sleep(0)
    reading = place.read("group")
    if cancelled:
        await asyncio.sleep(0)
        beginning.cancel()
    await turns()
    assert not reading.done()
    place.confirmed.set()
    answer = await reading
    assert [found.queue_offset for found in answer.offsets] == [5]
    if not cancelled:
        assert await beginning == []


async def test_other_groups_do_not_wait_for_a_beginning():
    place = Place()
    beginning = place.begin()
    await turns()
    answer = await asyncio.wait_for(place.read("other"), 60)
    assert not any(found.HasField("queue_offset") for found in answer.offsets)
    assert not beginning.done()
    place.confirmed.set()
    await beginning


async def test_a_last_offset_is_answered_once_replicas_have_it():
    """Nobody else could store it again at a broker that took over without it."""
    place = Place()

    def store(offset, rule):
        wanted = [OffsetToStore(QueueKey("orders", 0), offset, rule=rule)]
        return asyncio.create_task(place.changes.store("group", wanted, durable=True))

    assert await store(3, StoreRule.RAISE) == []
    last = store(3, StoreRule.LAST)
    await turns()
    assert not last.done()
    place.confirmed.set()
    assert await last == []


async def test_members_are_told_of_a_reset_that_replicas_do_not_confirm():
    place = Place()

    async def fail():
        raise TimeoutError

    place.replicate = fail
    with pytest.raises(TimeoutError):
        await place.reset()
    (notice,) = place.told
    assert notice.queue_offsets == tuple((number, 3) for number in range(COUNT))
