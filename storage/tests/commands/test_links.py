"""Symbolic links in a store: none is followed, and whoever meets one is told its name."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from ariane_storage import OsDisk, Store, StoreLocked
from ariane_storage.commands import store as store_group
from ariane_storage.testing import small_config

PLACES = [
    "abort",
    "checkpoint",
    "commitlog",
    "commitlog/00000000000000000000",
    "commitlog/00000000000000016384",
    "config",
    "config/topics.json",
    "consumequeue",
    "consumequeue/flights",
    "consumequeue/flights/0",
    "consumequeue/flights/0/00000000000000000000",
    "deleted-topics.json",
    "idle-queues.json",
    "index",
    "layout.json",
    "lock",
    "quarantine.json",
    "quarantine.json.bak",
]


def run(*arguments):
    return CliRunner().invoke(store_group, [str(argument) for argument in arguments])


def contents_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


@pytest.fixture
def root(tmp_path, fill):
    with Store.open(tmp_path / "s", small_config()) as store:
        fill(store)
    (tmp_path / "s" / "config" / "topics.json").write_text("{}")
    return tmp_path / "s"


def put_link(root, outside, place):
    """Move what is there out of the store, and have a link lead to it; it may lead nowhere."""
    path, target = root / place, outside / Path(place).name
    if path.exists():
        path.rename(target)
    path.symlink_to(target)
    return path


@pytest.mark.parametrize("place", PLACES)
def test_a_store_with_a_link_in_it_is_not_opened_and_nothing_outside_is_written(
    root, outside, place
):
    path = put_link(root, outside, place)
    before = contents_of(outside)
    with pytest.raises(OSError, match="is a symbolic link") as refusal:
        Store.open(root, small_config())
    assert (refusal.value.errno, refusal.value.filename) == (errno.ELOOP, str(path))
    assert contents_of(outside) == before


@pytest.mark.parametrize("place", PLACES)
def test_offline_tools_name_a_link_and_follow_none(root, outside, place):
    path = put_link(root, outside, place)
    before = contents_of(outside)
    for command in ("verify", "fsck", "fsck --repair", "dump", "rebuild"):
        result = run(*command.split(), root)
        assert result.exit_code == 2, command
        assert "is a symbolic link" in result.stderr.splitlines()[-1], command
        assert f"{path}: is" in result.stderr.splitlines()[-1], command
        assert contents_of(outside) == before, command


def test_the_folder_of_a_store_may_be_a_link_itself(root, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(root)
    with Store.open(link, small_config()) as store:
        assert store.max_offset > 0
        with pytest.raises(StoreLocked):
            Store.open(root, small_config())
    assert run("verify", link).exit_code == 0


def uses_of_a_file(disk, path):
    return [
        lambda: disk.size_of(path),
        lambda: disk.read(path),
        lambda: disk.write(path, b"x"),
        lambda: disk.create_sparse(path, 100),
        lambda: disk.allocate(path, 100),
        lambda: disk.cut(path, 0),
        lambda: disk.open(path, writable=True),
        lambda: disk.open(path, writable=False),
        lambda: disk.sync(files=[path]),
        lambda: disk.lock(path, exclusive=True),
        lambda: disk.names(path.parent),
    ]


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("use", range(11))
def test_no_use_of_a_file_follows_a_link(tmp_path, outside, use, is_there):
    target, path = outside / "target", tmp_path / "folder" / "file"
    if is_there:
        target.write_bytes(b"precious")
    path.parent.mkdir()
    path.symlink_to(target)
    before = contents_of(outside)
    with pytest.raises(OSError, match="is a symbolic link") as refusal:
        uses_of_a_file(OsDisk(), path)[use]()
    assert refusal.value.filename == str(path)
    assert contents_of(outside) == before


@pytest.mark.parametrize(
    "use",
    [
        lambda disk, path: disk.is_folder(path),
        lambda disk, path: disk.names(path),
        lambda disk, path: disk.make_folders(path),
        lambda disk, path: disk.make_folders(path / "deeper"),
        lambda disk, path: disk.remove_folder(path),
        lambda disk, path: disk.sync(folders=[path]),
        lambda disk, path: disk.lock(path, exclusive=True),
    ],
)
def test_no_use_of_a_folder_follows_a_link(tmp_path, outside, use):
    (outside / "precious").write_bytes(b"precious")
    path = tmp_path / "folder"
    path.symlink_to(outside)
    with pytest.raises(OSError, match="is a symbolic link") as refusal:
        use(OsDisk(), path)
    assert refusal.value.filename == str(path)
    assert [entry.name for entry in outside.iterdir()] == ["precious"]


def test_a_pipe_in_the_place_of_a_file_is_named_and_nobody_waits_for_its_other_end(root):
    path = root / "checkpoint"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(OSError, match="is a pipe") as refusal:
        Store.open(root, small_config())
    assert refusal.value.filename == str(path)
