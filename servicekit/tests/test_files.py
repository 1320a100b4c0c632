from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ariane_servicekit.errors import FileDamaged, StartRefused
from ariane_servicekit.files import FolderLock, JsonFile, write_whole


class PowerCutError(Exception):
    pass


@pytest.fixture
def cut_power_at(monkeypatch):
    """Let the n-th call that changes or syncs the disk fail, before it does anything."""

    def cut_power_at(step):
        count = 0

        def wrapped(real):
            def call(*args, **kwargs):
                nonlocal count
                count += 1
                if count == step:
                    raise PowerCutError
                return real(*args, **kwargs)

            return call

        for owner, name in (
            (os, "fsync"),
            (Path, "replace"),
            (Path, "hardlink_to"),
            (Path, "unlink"),
            (Path, "open"),
        ):
            monkeypatch.setattr(owner, name, wrapped(getattr(owner, name)))

    return cut_power_at


def test_saved_content_comes_back(tmp_path):
    file = JsonFile(tmp_path / "deep" / "state.json")
    assert file.load() is None
    for content in ({}, {"a": {"b": [1, "ü"]}}, {"c": None}):
        file.save(content)
        assert JsonFile(file.path).load() == content
    assert sorted(path.name for path in file.path.parent.iterdir()) == [
        "state.json",
        "state.json.bak",
    ]


@pytest.mark.parametrize("step", range(1, 8))
def test_a_crash_at_any_step_leaves_the_old_content_or_the_new(tmp_path, cut_power_at, step):
    file = JsonFile(tmp_path / "state.json")
    file.save({"generation": 1})
    file.save({"generation": 2})
    cut_power_at(step)
    try:
        file.save({"generation": 3})
        survived = True
    except PowerCutError:
        survived = False
    monkey_free = JsonFile(file.path).load()
    assert monkey_free in (
        [{"generation": 3}] if survived else [{"generation": 2}, {"generation": 3}]
    )
    # And what was left behind does not stand in the way.
    JsonFile(file.path).save({"generation": 4})
    assert JsonFile(file.path).load() == {"generation": 4}


def test_there_are_as_many_steps_as_the_test_above_cuts(tmp_path, cut_power_at):
    write_whole(tmp_path / "state.json", b"{}")
    cut_power_at(7)
    with pytest.raises(PowerCutError):
        write_whole(tmp_path / "state.json", b"{}")


@pytest.mark.parametrize("damage", [b"", b'{"a": ', b"[]", b"\xff\xfe", b"[" * 100_000])
def test_the_previous_generation_stands_in_for_a_damaged_file(tmp_path, damage):
    file = JsonFile(tmp_path / "state.json")
    file.save({"generation": 1})
    file.save({"generation": 2})
    file.path.write_bytes(damage)
    with capture_logs() as lines:
        assert file.load() == {"generation": 1}
    assert [line["event"] for line in lines] == ["previous_generation_used"]


def test_two_damaged_generations_are_an_error_that_says_what_to_do(tmp_path):
    file = JsonFile(tmp_path / "state.json")
    file.save({"generation": 1})
    file.save({"generation": 2})
    file.path.write_bytes(b"")
    (tmp_path / "state.json.bak").write_bytes(b"x")
    with pytest.raises(FileDamaged, match=r"restore one of them from a copy"):
        file.load()


def test_a_folder_is_one_process_s(tmp_path):
    lock = FolderLock(tmp_path / "data")
    lock.take()
    with pytest.raises(StartRefused, match="is in use by another process"):
        FolderLock(tmp_path / "data").take()
    lock.release()
    lock.release()
    FolderLock(tmp_path / "data").take()


def test_a_lock_ends_with_its_process(tmp_path):
    code = (
        "import os, sys, pathlib\n"
        "from ariane_servicekit.files import FolderLock\n"
        "FolderLock(pathlib.Path(sys.argv[1])).take()\n"
        "os._exit(9)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code, tmp_path], check=False)
    assert ended.returncode == 9
    FolderLock(tmp_path).take()


def test_a_folder_that_cannot_be_made_refuses_the_start(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StartRefused, match="cannot use"):
        FolderLock(tmp_path / "file" / "data").take()
