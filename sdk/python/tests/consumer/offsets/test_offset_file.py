"""The file of a broadcasting consumer: RocketMQ's layout, two generations, one user."""

import asyncio
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane_sdk import MessageQueue, errors
from ariane_sdk.client.queue_position import QueuePosition
from ariane_sdk.consumer.offsets.offset_file import OffsetFile, decode_offsets, encode_offsets
from ariane_sdk.runtime.disk import SystemDisk

QUEUE = MessageQueue("orders", "broker-a", 0)
OTHER = MessageQueue("orders", "broker-b", 3)

# What fastjson 1.2 writes for LocalFileOffsetStore, compact and pretty.
ROCKETMQ_COMPACT = (
    '{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:12,'
    '{"brokerName":"broker-b","queueId":3,"topic":"orders"}:7}}'
)
ROCKETMQ_PRETTY = """{
\t"offsetTable":{{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":0,
\t\t\t"topic":"orders"
\t\t}:12,{
\t\t\t"brokerName":"broker-b",
\t\t\t"queueId":3,
\t\t\t"topic":"orders"
\t\t}:7
\t}
}"""

queues = st.builds(
    MessageQueue,
    st.from_regex(r"[A-Za-z0-9_%-]{1,20}", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True),
    st.integers(0, 1000),
)

positions = st.builds(QueuePosition, st.integers(0, 1 << 62), st.integers(0, (1 << 63) - 1))
at = QueuePosition


@pytest.mark.parametrize("text", [ROCKETMQ_COMPACT, ROCKETMQ_PRETTY])
def test_files_of_rocketmq_are_read(text):
    assert decode_offsets(text) == {QUEUE: at(12), OTHER: at(7)}


def test_files_are_written_as_rocketmq_writes_them():
    assert encode_offsets({OTHER: at(7), QUEUE: at(12)}) == ROCKETMQ_COMPACT


@given(st.dictionaries(queues, positions))
def test_written_offsets_are_read_back(offsets):
    assert decode_offsets(encode_offsets(offsets)) == offsets


@given(st.data())
def test_a_file_that_is_cut_short_is_none(data):
    text = encode_offsets({QUEUE: at(12, 345), OTHER: at(7)})
    with pytest.raises(ValueError, match=r"cut short|no queue|Expecting"):
        decode_offsets(text[: data.draw(st.integers(0, len(text) - 1))])


async def test_a_queue_that_lost_its_end_is_gone_on_with_there(tmp_path):
    file = OffsetFile.open(tmp_path, "i", "billing")
    await file.store(None, {QUEUE: at(200, 1), OTHER: at(3, 1)})
    for queue in (QUEUE, OTHER):
        file.note_cut(queue, at(100, 2))
    found = await file.load(None, [QUEUE, OTHER])
    assert found == {QUEUE: at(100, 2), OTHER: at(3, 2)}
    # What is known of the present log is not cut by what is told late.
    await file.store(None, {QUEUE: at(150, 2)})
    file.note_cut(QUEUE, at(100, 2))
    assert await file.load(None, [QUEUE]) == {QUEUE: at(150, 2)}
    await file.close()


async def test_offsets_outlive_the_consumer(tmp_path):
    file = OffsetFile.open(tmp_path, "i", "billing")
    assert await file.load(None, [QUEUE]) == {}
    await file.store(None, {QUEUE: at(5)})
    await file.store(None, {OTHER: at(6)})
    await file.close()

    again = OffsetFile.open(tmp_path, "i", "billing")
    assert await again.load(None, [QUEUE, OTHER]) == {QUEUE: at(5), OTHER: at(6)}
    assert again.path.parent.name == "billing"
    assert again.path.parent.parent.name.endswith("@i")
    await again.close()


async def test_a_damaged_file_gives_way_to_the_one_before_and_never_replaces_it(tmp_path, caplog):
    file = OffsetFile.open(tmp_path, "i", "billing")
    await file.store(None, {QUEUE: at(5)})
    await file.store(None, {QUEUE: at(9)})
    await file.close()
    file.path.write_text('{"offsetTable":{{"brok')

    again = OffsetFile.open(tmp_path, "i", "billing")
    assert await again.load(None, [QUEUE]) == {QUEUE: at(5)}
    assert "offsets.json" in caplog.text
    assert not again.path.exists()
    await again.close()

    third = OffsetFile.open(tmp_path, "i", "billing")
    assert await third.load(None, [QUEUE]) == {QUEUE: at(5)}
    await third.close()


async def test_two_damaged_offset_files_are_an_error(tmp_path):
    file = OffsetFile.open(tmp_path, "i", "billing")
    await file.store(None, {QUEUE: at(5)})
    await file.store(None, {QUEUE: at(9)})
    await file.close()
    for generation in file.path.parent.glob("offsets.json*"):
        generation.write_text("")

    with pytest.raises(errors.OffsetFileDamaged, match="let `start` decide"):
        OffsetFile.open(tmp_path, "i", "billing")


async def test_a_disk_that_refuses_is_an_error_and_loses_nothing(tmp_path, monkeypatch):
    file = OffsetFile.open(tmp_path, "i", "billing")
    await file.store(None, {QUEUE: at(5)})

    def refuse(_descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("ariane_sdk.runtime.disk.os.fsync", refuse)
        with pytest.raises(errors.CallError, match="No space left"):
            await file.store(None, {QUEUE: at(6)})
    await file.close()

    again = OffsetFile.open(tmp_path, "i", "billing")
    assert await again.load(None, [QUEUE]) == {QUEUE: at(5)}
    await again.close()


@pytest.fixture
def forced(monkeypatch):
    """The files and folders that were forced to disk, with what a file held then."""
    seen = []
    fsync = os.fsync

    def note(descriptor):
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        held = path.read_text() if path.is_file() else sorted(each.name for each in path.iterdir())
        seen.append((path, held))
        fsync(descriptor)

    monkeypatch.setattr("ariane_sdk.runtime.disk.os.fsync", note)
    return seen


def test_a_file_is_on_the_disk_before_it_has_its_name_and_the_name_is_too(tmp_path, forced):
    path, backup = tmp_path / "offsets", tmp_path / "before"
    SystemDisk().replace(path, "one", backup=backup)
    SystemDisk().replace(path, "two", backup=backup)
    fresh = tmp_path / "offsets.tmp"
    assert forced == [
        (fresh, "one"),
        (tmp_path, ["offsets"]),
        (fresh, "two"),
        (tmp_path, ["before", "offsets"]),
    ]


def test_a_folder_that_is_made_is_on_the_disk_as_well(tmp_path, forced):
    SystemDisk().lock(tmp_path / "client" / "group" / "offsets.lock").close()
    assert forced == [(tmp_path, ["client"]), (tmp_path / "client", ["group"])]
    SystemDisk().lock(tmp_path / "client" / "group" / "offsets.lock").close()
    assert len(forced) == 2


def test_a_name_that_is_changed_is_changed_on_the_disk(tmp_path, forced):
    (tmp_path / "offsets").write_text("bad")
    SystemDisk().move(tmp_path / "offsets", tmp_path / "aside")
    assert forced == [(tmp_path, ["aside"])]


class SlowDisk(SystemDisk):
    """Replaces its first file when it is let."""

    def __init__(self):
        self.begun = threading.Semaphore(0)
        self.let = threading.Event()
        self.replaced = []

    def replace(self, path, text, *, backup):
        self.begun.release()
        if not self.replaced:
            self.let.wait(20)
        super().replace(path, text, backup=backup)
        self.replaced.append(text)


@pytest.fixture
async def cut_off(tmp_path):
    """A file, and its disk: whoever waited for it to be replaced waits no longer."""
    disk = SlowDisk()
    file = OffsetFile.open(tmp_path, "i", "billing", disk)
    store = asyncio.create_task(file.store(None, {QUEUE: at(5)}))
    await asyncio.to_thread(disk.begun.acquire)
    store.cancel()
    with pytest.raises(asyncio.CancelledError):
        await store
    yield file, disk
    disk.let.set()


async def test_an_older_write_does_not_replace_a_newer_one(cut_off, tmp_path):
    file, disk = cut_off
    store = asyncio.create_task(file.store(None, {QUEUE: at(9)}))
    assert not await asyncio.to_thread(disk.begun.acquire, timeout=0.1)
    disk.let.set()
    await store
    assert disk.replaced == [encode_offsets({QUEUE: at(5)}), encode_offsets({QUEUE: at(9)})]
    await file.close()
    again = OffsetFile.open(tmp_path, "i", "billing")
    assert await again.load(None, [QUEUE]) == {QUEUE: at(9)}
    await again.close()


async def test_an_offset_file_is_in_use_until_it_is_written(cut_off, tmp_path):
    file, disk = cut_off
    closing = asyncio.create_task(file.close())
    await asyncio.wait((closing,), timeout=0.1)
    with pytest.raises(errors.OffsetFileInUse):
        OffsetFile.open(tmp_path, "i", "billing")
    disk.let.set()
    await closing
    again = OffsetFile.open(tmp_path, "i", "billing")
    assert await again.load(None, [QUEUE]) == {QUEUE: at(5)}
    await again.close()


async def test_two_consumers_do_not_share_a_file(tmp_path):
    file = OffsetFile.open(tmp_path, "i", "billing")
    with pytest.raises(errors.OffsetFileInUse):
        OffsetFile.open(tmp_path, "i", "billing")
    await OffsetFile.open(tmp_path, "other", "billing").close()
    await file.close()
    await OffsetFile.open(tmp_path, "i", "billing").close()


async def test_groups_of_names_that_look_alike_do_not_share_a_file(tmp_path):
    files = [OffsetFile.open(tmp_path, "i", group) for group in ("a|b", "a%b", "a_b", "a-b")]
    assert len({file.path for file in files}) == 4
    for file in files:
        await file.close()


async def test_names_never_become_paths(tmp_path):
    file = OffsetFile.open(tmp_path, "../../up", "billing")
    await file.close()

    assert tmp_path in file.path.parents
    assert ".." not in file.path.parts
