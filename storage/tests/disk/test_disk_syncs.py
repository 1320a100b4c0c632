"""What the real disk asks the system to make durable.

Neither killing a process nor pulling the plug of a test disk finds a sync that is left out: others
that come later often cover it. So the calls themselves are recorded.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ariane_storage import OsDisk
from ariane_storage.disk import os_disk


class Calls:
    """Which files and folders the system was asked to make durable, in order, by inode."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._inodes: list[tuple[str, int]] = []
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._recorded(name, getattr(os, name)))
        monkeypatch.setattr(os_disk, "_LIBC", self)
        self._libc = os_disk.ctypes.CDLL(None, use_errno=True)

    def _recorded(self, name, call):
        def record(descriptor):
            call(descriptor)
            self._inodes.append((name, os.fstat(descriptor).st_ino))

        return record

    def syncfs(self, descriptor: int) -> int:
        result: int = self._libc.syncfs(descriptor)
        self._inodes.append(("syncfs", os.fstat(descriptor).st_dev))
        return result

    def of(self, *paths: Path) -> list[str]:
        """The calls so far, with the names of paths; they are forgotten."""
        names = {path.stat().st_ino: path.name for path in paths}
        names[paths[0].stat().st_dev] = "the file system"
        calls = [f"{call} {names.get(inode, 'another')}" for call, inode in self._inodes]
        self._inodes.clear()
        return calls


@pytest.fixture
def calls(monkeypatch):
    return Calls(monkeypatch)


def test_a_sync_is_one_of_each_file_and_each_folder(tmp_path, calls):
    files = [tmp_path / "one", tmp_path / "two"]
    for path in files:
        path.write_bytes(b"x")
    OsDisk().sync(files=files, folders=[tmp_path])
    assert calls.of(*files, tmp_path) == ["fsync one", "fsync two", f"fsync {tmp_path.name}"]


@pytest.mark.parametrize("count", [os_disk._SYNC_ALL_FILES_MIN - 1, os_disk._SYNC_ALL_FILES_MIN])
def test_a_sync_of_many_files_is_one_of_the_file_system(tmp_path, calls, count):
    files = [tmp_path / str(number) for number in range(count - 1)]
    for path in files:
        path.write_bytes(b"x")
    OsDisk().sync(files=files, folders=[tmp_path])
    found = calls.of(tmp_path, *files)
    if count >= os_disk._SYNC_ALL_FILES_MIN:
        assert found == ["syncfs the file system"]
    else:
        assert sorted(found) == sorted(f"fsync {path.name}" for path in [*files, tmp_path])


def test_a_sync_of_many_files_that_fails_is_an_error(tmp_path, monkeypatch):
    class Failing:
        def syncfs(self, _descriptor: int) -> int:
            os_disk.ctypes.set_errno(5)
            return -1

    monkeypatch.setattr(os_disk, "_LIBC", Failing())
    with pytest.raises(OSError, match=str(tmp_path)) as failure:
        OsDisk().sync(folders=[tmp_path] * 100)
    assert failure.value.errno == 5


@pytest.mark.parametrize("existed", [False, True])
def test_a_file_that_is_allocated_is_durable_with_its_length_and_its_name(tmp_path, calls, existed):
    path = tmp_path / "segment"
    if existed:
        path.write_bytes(b"x")
    OsDisk().allocate(path, 8192)
    assert calls.of(path, tmp_path) == ["fsync segment", f"fsync {tmp_path.name}"]


def test_a_file_that_is_written_or_cut_is_durable(tmp_path, calls):
    path = tmp_path / "state"
    OsDisk().write(path, b"x" * 9000)
    assert calls.of(path) == ["fsync state"]
    OsDisk().cut(path, 100)
    assert calls.of(path) == ["fsync state"]


def test_folders_that_are_made_have_durable_names(tmp_path, calls):
    OsDisk().make_folders(tmp_path / "a" / "b")
    assert calls.of(tmp_path / "a", tmp_path) == [f"fsync {tmp_path.name}", "fsync a"]
    OsDisk().make_folders(tmp_path / "a" / "c", durable=False)
    assert calls.of(tmp_path) == []


def test_an_open_file_that_is_flushed_has_durable_bytes(tmp_path, calls):
    path = tmp_path / "segment"
    OsDisk().allocate(path, 8192)
    calls.of(path)
    file = OsDisk().open(path, writable=True)
    file.write_at(4096, b"x")
    file.flush()
    assert calls.of(path) == ["fdatasync segment"]
    file.close()
