"""What is missing is said before anything is started."""

import shutil

import pytest
from flight_demo.errors import JavaMissing, NoRoom
from flight_demo.machine import check_machine


def test_too_little_room(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(NoRoom, match="1 MiB free and 2,048 are needed"):
        check_machine(tmp_path)


def test_no_java(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match="Java 17"):
        check_machine(tmp_path)


def test_all_is_there(tmp_path, monkeypatch):
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check_machine(tmp_path)
