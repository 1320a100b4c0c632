"""Standard streams that are closed, full or left."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ariane_admin.cli import main
from ariane_admin.terminal.exits import ExitStatus

BIN = Path(sys.executable).parent
BACKLOG = 3000


@pytest.fixture
def shell(cluster):
    """Run a line of bash with `ariane` in its path."""

    def run(line, **environment):
        return subprocess.run(
            ["bash", "-c", line],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
            env={
                **os.environ,
                "PATH": f"{BIN}:{os.environ['PATH']}",
                "ARIANE_NAME_SERVERS": cluster.name_servers,
                **environment,
            },
        )

    return run


@pytest.fixture
def backlog(ariane, lines):
    """Make a topic with many messages in one queue."""

    def make(topic):
        ariane("topic", "create", topic, "--queues", "1", "--broker", "broker-a")
        ariane("produce", topic, lines(*(f"message {n}" for n in range(BACKLOG))), "--group", "all")

    return make


def retries_of(ariane_json, group):
    queues = ariane_json("group", "show", group)["queues"]
    return sum(each["max_offset"] for each in queues if each["topic"].startswith("%RETRY%"))


@pytest.mark.parametrize("options", ["--no-follow", "--group left-readers"])
def test_a_reader_that_leaves_ends_the_command_without_a_word(
    shell, backlog, ariane_json, ariane, options
):
    topic = "left-by-" + options.rpartition("-")[2]
    backlog(topic)
    done = shell(
        f"ariane consume {topic} --from earliest {options} | head -n 1; echo ${{PIPESTATUS[0]}}"
    )
    assert (done.stdout, done.stderr) == ("message 0\n0\n", "")
    if "--group" in options:
        # Nobody failed on a message.
        assert retries_of(ariane_json, "left-readers") == 0


def test_a_full_disk_is_no_failure_of_the_messages(shell, backlog, ariane, ariane_json):
    backlog("disk-full")
    command = "ariane consume disk-full --group full-readers --from earliest"
    done = shell(f"{command} >/dev/full")
    assert done.returncode == ExitStatus.FAILED
    [line] = done.stderr.splitlines()
    assert line.startswith("ariane: No space left on device")
    assert retries_of(ariane_json, "full-readers") == 0
    assert ariane("consume", "disk-full", "--group", "full-readers", "--count", "1") == (
        "message 0\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        "ariane topic list >&-",
        "ariane topic list -o json >&-",
        "ariane topic create of-a-daemon --exists-ok <&- >&- 2>&-",
        "ariane produce of-a-daemon <&-",
        "ariane --help >&-",
    ],
)
def test_streams_may_be_closed(shell, line):
    done = shell(line)
    assert (done.returncode, done.stderr) == (ExitStatus.DONE, "")


def test_closed_standard_error_moves_nothing_to_the_results(shell):
    done = shell("ariane topic show nowhere 2>&-")
    assert (done.returncode, done.stdout) == (ExitStatus.NOT_FOUND, "")
    done = shell("ariane no-such-room 2>&-")
    assert (done.returncode, done.stdout) == (ExitStatus.USAGE, "")


def test_characters_that_standard_output_cannot_write_are_escaped(shell, ariane, lines):
    ariane("topic", "create", "of-snow")
    ariane("produce", "of-snow", lines("☃"), "--key", "k")
    for command in (
        "ariane message query of-snow --key k",
        "ariane consume of-snow --from earliest --no-follow -o json",
    ):
        done = shell(command, PYTHONIOENCODING="latin-1")
        assert (done.returncode, done.stderr) == (ExitStatus.DONE, "")
        assert "\\u2603" in done.stdout


def test_a_folder_that_cannot_be_is_named(tmp_path, capsys):
    (tmp_path / "file").touch()
    ended = main(["dev", "--data", str(tmp_path / "file" / "data"), "--name-server-port", "0"])
    assert ended == ExitStatus.FAILED
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"ariane: {tmp_path / 'file' / 'data'}")
    assert "Not a directory" in line
    assert "Error:" not in line


def test_ctrl_c_while_the_program_is_loaded_shows_no_trace():
    program = (
        "import builtins, sys\n"
        "real = builtins.__import__\n"
        "def slow(name, *rest):\n"
        "    if name == 'ariane_admin.cli': raise KeyboardInterrupt\n"
        "    return real(name, *rest)\n"
        "builtins.__import__ = slow\n"
        "from ariane_admin.__main__ import main\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "--version"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (ExitStatus.INTERRUPTED, "")
