"""One contract for every disk, and what only the faulty one does."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ariane_storage import OsDisk, SystemClock
from ariane_storage.log.checkpoint import Checkpoint, CheckpointFile
from ariane_storage.testing import FaultyDisk, FixedClock, PowerLost


@pytest.fixture(params=["real", "faulty"])
def place(request, tmp_path):
    """A disk and a folder on it."""
    if request.param == "real":
        return OsDisk(), tmp_path
    disk = FaultyDisk()
    disk.make_folders(Path("/folder"))
    return disk, Path("/folder")


def test_small_files(place):
    disk, folder = place
    path = folder / "small"
    assert disk.size_of(path) is None
    with pytest.raises(FileNotFoundError):
        disk.read(path)
    disk.write(path, b"one")
    disk.write(path, b"second")
    assert (disk.read(path), disk.size_of(path)) == (b"second", 6)
    disk.rename(path, folder / "other")
    disk.link(folder / "other", folder / "third")
    disk.link(folder / "other", folder / "third")
    disk.sync(files=[folder / "third"], folders=[folder])
    assert disk.names(folder) == ["other", "third"]
    disk.remove(folder / "other")
    disk.remove(folder / "other")
    assert disk.read(folder / "third") == b"second"
    disk.sync(files=[folder / "third"] * 100)


def test_folders(place):
    disk, folder = place
    deep = folder / "a" / "b"
    assert not disk.is_folder(deep)
    assert disk.names(deep) == []
    disk.make_folders(deep)
    disk.make_folders(deep)
    disk.make_folders(folder / "c", durable=False)
    disk.write(deep / "file", b"x")
    assert disk.names(folder / "a") == ["b"]
    assert disk.is_folder(deep)
    disk.remove_folder(folder / "a")
    disk.remove_folder(folder / "a")
    assert disk.names(folder) == ["c"]


def test_allocated_written_and_cut(place):
    disk, folder = place
    path = folder / "allocated"
    disk.allocate(path, 8192)
    file = disk.open(path, writable=True)
    assert file.size() == 8192
    file.write_at(0, b"head")
    file.write_at(8000, b"tail")
    file.write_at(4096, memoryview(b"middle"))
    assert file.read_at(4096, 6) == b"middle"
    assert file.gather([8000, 0], [4, 4]) == b"tailhead"
    assert file.read_at(8190, 5) == b"\0\0"
    assert len(file.gather([8190, 0], [5, 4])) == 6
    file.flush()
    assert disk.read(path)[8000:8004] == b"tail"
    assert disk.read(path)[4096:4102] == b"middle"
    found = b"".join(file.read_at(b, e - b) for b, e in file.written_ranges(4))
    assert b"tail" in found
    file.close()
    file.close()
    disk.cut(path, 2)
    assert disk.read(path) == b"he" + bytes(8190)
    disk.allocate(path, 12288)
    assert disk.size_of(path) == 12288


def test_what_is_read_ahead_of_a_search_is_not_searched_too(tmp_path):
    """Linux tells of pages that it has read ahead as of data, where nothing was ever written."""
    path = tmp_path / "file"
    OsDisk().allocate(path, 64 << 20)
    file = OsDisk().open(path, writable=True)
    file.write_at(0, b"head")
    assert file.read_at(8192, 1) == b"\0"
    before = list(file.written_ranges(1))
    searched = []
    for begin, end in file.written_ranges(1):
        file.read_at(begin, end - begin)
        searched.append((begin, end))
    assert searched == before
    file.close()


def test_a_search_for_data_that_finds_the_end_of_the_file_is_over(tmp_path, monkeypatch):
    """After a power loss XFS has answered so, and ENXIO to the search that began there."""
    path = tmp_path / "file"
    path.write_bytes(bytes(100))

    def lseek(descriptor, begin, whence):
        if begin >= 100:
            raise OSError(errno.ENXIO, "No such device or address")
        return {os.SEEK_DATA: 0 if begin == 0 else 100, os.SEEK_HOLE: 60}[whence]

    file = OsDisk().open(path, writable=False)
    monkeypatch.setattr(os, "lseek", lseek)
    assert list(file.written_ranges(0)) == [(0, 60)]
    file.close()


def test_open_files(place):
    disk, folder = place
    path = folder / "sparse"
    with pytest.raises(FileNotFoundError):
        disk.open(path, writable=True)
    disk.create_sparse(path, 100_000)
    file = disk.open(path, writable=True)
    file.write_at(70_000, b"here")
    assert file.read_at(69_999, 6) == b"\0here\0"
    assert file.read_at(99_998, 10) == b"\0\0"
    assert file.read_at(200_000, 10) == b""
    ranges = list(file.written_ranges(0))
    assert any(begin <= 70_000 < end for begin, end in ranges)
    assert list(file.written_ranges(100_000)) == []
    file.close()
    disk.create_sparse(path, 100_001)
    assert disk.size_of(path) == 100_001


def test_locks(place):
    disk, folder = place
    path = folder / "lock"
    disk.write(path, b"lock")
    owner = disk.lock(path, exclusive=True)
    assert disk.lock(path, exclusive=True) is None
    assert disk.lock(path, exclusive=False) is None
    owner.release()
    owner.release()
    readers = [disk.lock(path, exclusive=False) for _ in range(2)]
    assert None not in readers
    assert disk.lock(path, exclusive=True) is None
    for reader in readers:
        reader.release()
    assert disk.lock(path, exclusive=True) is not None


def test_locks_of_folders(place):
    disk, folder = place
    owner = disk.lock(folder, exclusive=True)
    assert disk.lock(folder, exclusive=True) is None
    assert disk.lock(folder, exclusive=False) is None
    owner.release()
    readers = [disk.lock(folder, exclusive=False) for _ in range(2)]
    assert None not in readers
    assert disk.lock(folder, exclusive=True) is None


def test_usage(place):
    disk, folder = place
    assert 0 <= disk.usage(folder).ratio <= 1
    assert disk.process_id() > 0


def test_what_was_not_flushed_may_be_lost_in_any_way():
    outcomes = set()
    for seed in range(200):
        disk = FaultyDisk()
        disk.allocate(Path("/file"), 2048)
        file = disk.open(Path("/file"), writable=True)
        file.write_at(0, b"a" * 512)
        file.flush()
        file.write_at(512, b"b" * 512 + b"c" * 512)
        after = disk.lose_power(seed).read(Path("/file"))
        assert after[:512] == b"a" * 512
        outcomes.add((after[512:1024].count(b"b"), after[1024:1536].count(b"c")))
    assert {(0, 0), (512, 0), (0, 512), (512, 512)} <= outcomes
    assert any(0 < count < 512 for outcome in outcomes for count in outcome)


def test_names_are_lost_until_their_folder_is_synced():
    outcomes = set()
    for seed in range(50):
        disk = FaultyDisk()
        disk.write(Path("/old"), b"old")
        disk.sync(folders=[Path("/")])
        disk.write(Path("/new"), b"new")
        disk.rename(Path("/new"), Path("/old"))
        after = disk.lose_power(seed)
        outcomes.add((tuple(after.names(Path("/"))), after.read(Path("/old"))))
        disk = FaultyDisk()
    assert outcomes == {(("old",), b"old"), (("new", "old"), b"old"), (("old",), b"new")}


def test_after_a_failed_flush_the_kernel_forgets():
    disk = FaultyDisk()
    disk.allocate(Path("/file"), 1024)
    file = disk.open(Path("/file"), writable=True)
    file.write_at(0, b"lost")
    disk.flush_fails_at = disk.flushes + 1
    with pytest.raises(OSError, match="Input/output error"):
        file.flush()
    file.write_at(600, b"kept")
    file.flush()
    after = disk.lose_power(0).read(Path("/file"))
    assert (after[0:4], after[600:604]) == (bytes(4), b"kept")


def test_space_ends():
    disk = FaultyDisk(space_bytes=4096)
    disk.allocate(Path("/a"), 4096)
    with pytest.raises(OSError, match="No space left") as caught:
        disk.allocate(Path("/b"), 1)
    assert caught.value.errno == errno.ENOSPC
    assert disk.names(Path("/")) == ["a"]
    disk.create_sparse(Path("/c"), 1 << 20)
    with pytest.raises(OSError, match="No space left"):
        disk.open(Path("/c"), writable=True).write_at(5, b"x")
    assert disk.read(Path("/c")) == bytes(1 << 20)


def test_nobody_is_left_after_the_plug_is_pulled():
    disk = FaultyDisk(power_fails_at=2)
    with pytest.raises(PowerLost):
        disk.write(Path("/a"), b"x")
    for use in (
        lambda: disk.read(Path("/a")),
        lambda: disk.names(Path("/")),
        lambda: disk.write(Path("/b"), b""),
        lambda: disk.open(Path("/a"), writable=False),
    ):
        with pytest.raises(PowerLost):
            use()


def test_a_checkpoint_is_the_one_before_or_the_one_after():
    path = Path("/checkpoint")
    first = Checkpoint(0, 10, 10, 10, 5, 1, 2, 3)
    second = Checkpoint(0, 20, 20, 20, 6, 1, 4, 6)
    for step in range(1, 30):
        for seed in range(20):
            disk = FaultyDisk()
            file = CheckpointFile(disk, path)
            file.save(first)
            disk.power_fails_at = disk.steps + step
            try:
                file.save(second)
            except PowerLost:
                found = CheckpointFile(disk.lose_power(seed), path).load()
                assert found in (first, second)
            else:
                assert CheckpointFile(disk.lose_power(seed), path).load() == second
                return
    raise AssertionError("saving never ends")


def test_a_mark_that_is_taken_back_is_gone_with_the_next_checkpoint_also_one_like_the_last():
    disk, path = FaultyDisk(), Path("/checkpoint")
    file = CheckpointFile(disk, path)
    cut = Checkpoint(0, 10, 10, 10, 5, 1, 2, 3)
    file.save(cut)
    file.mark(20)
    disk.sync(files=[path])  # As the system does by itself.
    file.mark(10)
    file.save(cut)
    for seed in range(20):
        assert CheckpointFile(disk.copy().lose_power(seed), path).load() == cut


def test_a_checkpoint_that_failed_halfway_is_not_taken_for_the_one_before():
    path = Path("/checkpoint")
    first = Checkpoint(0, 10, 10, 10, 5, 1, 2, 3)
    for step in range(1, 5):
        disk = FaultyDisk()
        file = CheckpointFile(disk, path)
        file.save(first)
        disk.failing = range(disk.steps + step, disk.steps + step + 1)
        with pytest.raises(OSError, match="Input/output error"):
            file.save(Checkpoint(0, 20, 20, 20, 6, 1, 4, 6))
        file.save(first)
        assert CheckpointFile(disk.copy().lose_power(step), path).load() == first


def test_a_checkpoint_with_flipped_bits_is_an_older_one_or_none():
    disk, path = FaultyDisk(), Path("/checkpoint")
    file = CheckpointFile(disk, path)
    first = Checkpoint(0, 10, 10, 10, 5, 1, 2, 3)
    file.save(first)
    content = disk.read(path)
    for position in [*range(48), *range(500, 1200)]:
        disk.flip_bit(path, position, 3)
        assert CheckpointFile(disk, path).load() in (None, first)
        disk.write(path, content)


def test_clocks():
    clock = SystemClock()
    now = clock.now_ms()
    assert now > 1_700_000_000_000
    assert 0 <= clock.local_hour(now) <= 23
    assert len(clock.file_stamp(now)) == 17
    fixed = FixedClock(3_600_000 * 28)
    assert fixed.local_hour(fixed.now_ms()) == 4
    assert len(fixed.file_stamp(0)) == 17
