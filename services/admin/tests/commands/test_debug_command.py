"""``ariane debug bundle``: one file for somebody who helps."""

import json
import signal
import socket
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from ariane_admin.terminal.exits import ExitStatus


def contents(path):
    with tarfile.open(path) as archive:
        files = {one.name.partition("/")[2]: archive.extractfile(one).read() for one in archive}
        folders = {one.partition("/")[0] for one in archive.getnames()}
    assert len(folders) == 1
    return files


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "broker.log"
    path.write_text("database postgresql://ariane:hunter2@db/x opened\nall is well\n")
    return path


def test_a_bundle_holds_what_the_cluster_says(ariane, ariane_json, tmp_path, log):
    target = tmp_path / "bundle.tar.gz"
    told = ariane_json("debug", "bundle", "-f", str(target), "--log", str(log))
    files = contents(target)
    assert sorted(told["contents"]) == sorted(files)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    for broker in ("broker-a", "broker-b"):
        shown = json.loads(files[f"broker-show-{broker}-settings.json"])
        assert shown["status"] == "DONE"
        assert shown["answer"]["broker"] == broker
    assert {"doctor.json", "cluster-show.json", "topic-list-system.json"} <= files.keys()
    assert "ariane-admin" in json.loads(files["machine.json"])["versions"]
    [text] = (content for name, content in files.items() if name.startswith("logs/"))
    assert b"hunter2" not in text
    assert b"postgresql://ariane:***@db/x" in text
    assert b"all is well" in text


def test_a_cluster_that_is_away_is_in_it_as_errors(ariane, tmp_path):
    target = tmp_path / "bundle.tar.gz"
    ariane("debug", "bundle", "-f", str(target), "--name-servers", "127.0.0.1:1")
    listed = json.loads(contents(target)["broker-list.json"])
    assert listed["status"] == "UNREACHABLE"
    assert listed["errors"]


def test_a_file_that_cannot_be_written_is_named(ariane, tmp_path):
    target = tmp_path / "missing" / "bundle.tar.gz"
    line = ariane("debug", "bundle", "-f", str(target), status=ExitStatus.USAGE)
    assert str(target) in line


def test_one_ctrl_c_ends_all_its_questions(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = ":".join(map(str, silent.getsockname()))
        ariane = Path(sys.executable).with_name("ariane")
        words = (ariane, "debug", "bundle", "-f", "bundle.tar.gz", "--name-servers", address)
        with subprocess.Popen(words, cwd=tmp_path) as process:
            asked, _ = silent.accept()
            with asked:
                process.send_signal(signal.SIGINT)
                assert process.wait(timeout=10) == ExitStatus.INTERRUPTED
    assert not list(tmp_path.iterdir())
