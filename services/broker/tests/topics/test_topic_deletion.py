"""Deleting topics: whole or gone whenever the process ends, and few flushes for many at once."""

import asyncio
import os
import shutil
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane.common.v1 import message_pb2 as message_pb
from ariane_broker.topics.topic_changes import TopicChanges, TopicEffects
from ariane_broker.topics.topic_limits import TopicLimits
from ariane_broker.topics.topic_table import TopicTable
from ariane_broker.topics.unread_queues import UnreadQueues
from ariane_storage.disk.os_disk import OsDisk
from ariane_storage.errors import StoreFull
from ariane_storage.keeping.keeper import Keeper

STEPS = ["write", "rename", "link", "remove", "remove_folder", "sync", "create_sparse"]
SMALL = {"segment_bytes": 1 << 20, "message_bytes_max": 1 << 19}
OLD = [b"old-%d" % number for number in range(6)]


def delete_call(broker, topic):
    return broker.topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic=topic))


def append_call(broker, topic, bodies, producer):
    return broker.append(broker.batch(topic, bodies, sequence=(producer, 0, 0)))


async def fill(broker, topic, queue_count=3):
    """A topic of a type and more queues than messages, and the offset of a group in it."""
    await broker.create_topic(topic, queue_count, message_type=message_pb.MESSAGE_TYPE_NORMAL)
    (appended,) = await append_call(broker, topic, OLD, 7)
    assert appended.error is None, appended.error
    await broker.store_offset("group", topic, 0, 4, durable=True)


async def standing(broker, *topics):
    listed = await broker.topics.ListTopics(topic_pb.ListTopicsRequest())
    return [topic for topic in listed.topics if topic.topic in topics]


@contextmanager
def each_step(monkeypatch, before):
    """Call something before everything that changes names or waits for the disk."""
    lock = threading.RLock()

    def stepping(real):
        def step(*arguments, **options):
            with lock:
                before()
                return real(*arguments, **options)

        return step

    with monkeypatch.context() as patch:
        for name in STEPS:
            patch.setattr(OsDisk, name, stepping(getattr(OsDisk, name)))
        yield


async def copies_of_each_step(running, tmp_path, monkeypatch, life):
    """What a kill would leave before each step of a part of a broker's life, and of its end."""
    copies = []
    is_filled = False
    before = None

    def copy():
        nonlocal before
        if not is_filled:
            return
        # A step that changed nothing of the files, such as waiting for the disk, adds no state.
        here = {
            path.relative_to(tmp_path / "store"): path.read_bytes() if path.is_file() else None
            for path in (tmp_path / "store").rglob("*")
        }
        if here != before:
            before = here
            copies.append(tmp_path / f"step-{len(copies)}")
            shutil.copytree(tmp_path / "store", copies[-1])

    with each_step(monkeypatch, copy):
        async with running(**SMALL) as broker:
            await fill(broker, "flights")
            await fill(broker, "delays")
            is_filled = True
            await life(broker)
    return copies


async def check_neighbour(broker):
    (topic,) = await standing(broker, "delays")
    assert (topic.read_queue_count, topic.message_type) == (3, message_pb.MESSAGE_TYPE_NORMAL)
    assert await broker.bodies("delays") == OLD
    assert await broker.known_offset("group", "delays") == 4


@pytest.mark.slow
async def test_a_kill_at_any_step_leaves_the_whole_topic_or_none(running, tmp_path, monkeypatch):
    async def life(broker):
        await delete_call(broker, "flights")
        await check_made_again(broker, "at once")

    copies = await copies_of_each_step(running, tmp_path, monkeypatch, life)
    assert len(copies) > 20
    outcomes = []
    for copy in copies:
        async with running(store_path=copy, **SMALL) as broker:
            await check_neighbour(broker)
            outcomes.append(await outcome(broker, copy.name))
            if outcomes[-1] == "gone":
                await check_made_again(broker, copy.name)
        if outcomes[-1] == "gone":
            async with running(store_path=copy, **SMALL) as broker:
                assert await broker.bodies("flights") == [b"new"], copy.name
                assert await broker.known_offset("group", "flights") is None, copy.name
                await check_neighbour(broker)
        shutil.rmtree(copy)
    assert list(dict.fromkeys(outcomes)) == ["whole", "gone", "empty", "new"]
    assert outcomes == sorted(outcomes, key=["whole", "gone", "empty", "new"].index)


async def outcome(broker, where):
    """What has become of the topic: never an offset of the old one with messages of the new one."""
    stands = await standing(broker, "flights")
    if not stands:
        return "gone"
    (topic,) = stands
    bodies = await broker.bodies("flights")
    offset = await broker.known_offset("group", "flights")
    if bodies == OLD:
        assert topic.message_type == message_pb.MESSAGE_TYPE_NORMAL, where
        assert (topic.read_queue_count, offset) == (3, 4), where
        return "whole"
    assert (bodies, offset) in (([], None), ([b"new"], None)), where
    return "new" if bodies else "empty"


async def check_made_again(broker, where):
    """A topic of the same name begins at nothing: no offset, no sequence of the old one."""
    await broker.create_topic("flights", 1)
    assert await broker.known_offset("group", "flights") is None, where
    (appended,) = await append_call(broker, "flights", [b"new"], 7)
    assert appended.error is None, where
    assert await broker.bodies("flights") == [b"new"], where


@pytest.fixture
def flushes(monkeypatch):
    """Everything that this process has the disk flush."""
    seen = []

    def counted(real):
        def flush(descriptor):
            seen.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
            real(descriptor)

        return flush

    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    return seen


async def test_a_deletion_waits_for_two_files(running, flushes):
    async with running(**SMALL) as broker:
        await fill(broker, "flights")
        await fill(broker, "delays")
        await delete_call(broker, "flights")
        flushes.clear()
        await delete_call(broker, "delays")
        names = [path.rpartition("/")[2] for path in flushes]
        own = [name for name in names if "topics.json" in name]
        assert sorted(own) == [
            *("deleted-topics.json.sums.tmp", "deleted-topics.json.tmp"),
            *("topics.json.sums.tmp", "topics.json.tmp"),
        ]


class Deletions:
    """Topics whose files are only counted."""

    def __init__(self):
        self.table = TopicTable(now_ms=lambda: 1, default_queue_count=4)
        self.saved, self.turns, self.settled = [], [], 0
        self.error = None
        self.begun, self.done = asyncio.Event(), asyncio.Event()
        self.may_forget = asyncio.Event()
        self.may_forget.set()
        self.changes = TopicChanges(
            self.table,
            TopicLimits(10_000, 100_000, 8_000),
            UnreadQueues(None, self.table, None),
            TopicEffects(
                save=self.save,
                announce=self.announce,
                copied=self.announce,
                reserve_epoch=self.announce,
                delete_queues=self.delete_queues,
                forget=self.forget,
                save_forgotten=self.settle,
                save_offsets=self.announce,
                wake_queue=lambda queue: None,
            ),
            auto_create_queue_count=4,
        )

    async def save(self, document):
        await asyncio.sleep(0)
        self.saved.append(list(document["topicConfigTable"]))
        self.begun.set()

    async def announce(self):
        pass

    async def forget(self, topics):
        await self.may_forget.wait()

    async def delete_queues(self, topics):
        self.turns.append(topics)
        await asyncio.sleep(0)
        self.done.set()
        if self.error:
            raise self.error

    async def settle(self):
        self.settled += 1


@pytest.fixture
async def deletions():
    return Deletions()


async def test_deletions_that_wait_have_their_turn_together(deletions):
    names = [f"topic-{number}" for number in range(40)]
    for name in names:
        await deletions.changes.create_for_send(name)
    deletions.saved.clear()
    deletions.begun.clear()
    first = asyncio.create_task(deletions.changes.delete(names[0]))
    await deletions.begun.wait()
    await asyncio.gather(first, *map(deletions.changes.delete, names[1:]))
    assert deletions.turns == [names[:1], names[1:]]
    assert deletions.saved == [sorted(names[1:]), []]
    assert len(deletions.table) == 0
    # Made again: only then what others had in it must be out of their files.
    assert deletions.settled == 0
    await deletions.changes.create_for_send("another")
    assert deletions.settled == 0
    await deletions.changes.create_for_send(names[7])
    assert deletions.settled == 1


async def test_none_is_made_of_a_name_that_is_not_forgotten_yet(deletions):
    await deletions.changes.create_for_send("a")
    deletions.may_forget.clear()
    deleting = asyncio.create_task(deletions.changes.delete("a"))
    await deletions.done.wait()
    making = asyncio.create_task(deletions.changes.create_for_send("a"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not deleting.done()
    assert not making.done()
    assert deletions.changes.find("a") is None
    deletions.may_forget.set()
    await asyncio.gather(deleting, making)
    assert deletions.settled == 1


async def test_a_turn_that_fails_fails_for_all_of_it_and_deletes_nothing(deletions):
    for name in ("a", "b"):
        await deletions.changes.create_for_send(name)
    deletions.error = StoreFull(Path("s"), "no space")
    calls = [deletions.changes.delete(name) for name in ("a", "b")]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert outcomes == [deletions.error, deletions.error]
    assert [topic.topic for topic in deletions.table.all()] == ["a", "b"]
    assert deletions.saved[-1] == ["a", "b"]


async def test_who_stops_waiting_stops_no_deletion(deletions):
    await deletions.changes.create_for_send("a")
    call = asyncio.create_task(deletions.changes.delete("a"))
    await asyncio.sleep(0)
    call.cancel()
    await deletions.done.wait()
    assert call.cancelled()
    assert len(deletions.table) == 0
    assert deletions.saved[-1] == []


async def test_deletions_of_one_turn_are_told_apart(broker, refused):
    await broker.create_topic("flights")
    await broker.create_topic("delays")
    calls = [delete_call(broker, topic) for topic in ("flights", "none", "delays", "delays")]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(outcome, Exception) for outcome in outcomes] == [False, True, False, True]
    assert (await refused(delete_call(broker, "flights"))).reason == "TOPIC_NOT_FOUND"


async def test_a_deletion_that_cannot_be_noted_leaves_the_topic_as_it_was(
    running, monkeypatch, refused
):
    def full(keeper, deletion):
        raise OSError(28, "No space left on device")

    async with running(**SMALL) as broker:
        await fill(broker, "flights")
        with monkeypatch.context() as patch:
            patch.setattr(Keeper, "_note", full)
            assert (await refused(delete_call(broker, "flights"))).reason == "STORE_FULL"
        (topic,) = await standing(broker, "flights")
        assert topic.message_type == message_pb.MESSAGE_TYPE_NORMAL
        assert await broker.bodies("flights") == OLD
        (appended,) = await broker.append(broker.batch("flights", [b"more"]))
        assert appended.first_queue_offset == len(OLD)
    async with running(**SMALL) as broker:
        assert await broker.bodies("flights") == [*OLD, b"more"]
        assert await broker.known_offset("group", "flights") == 4
