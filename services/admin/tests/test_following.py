"""``ariane consume`` while topics and brokers come and go."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from ariane_admin.cli import main
from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk.sync import Message, Producer
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.small_store import SMALL_STORE

BIN = Path(sys.executable).parent


@contextmanager
def consuming(name_servers, *arguments):
    """Start `ariane consume`, and kill it if it is still there at the end."""
    process = subprocess.Popen(
        [BIN / "ariane", "consume", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ARIANE_NAME_SERVERS": name_servers, "PYTHONUNBUFFERED": "1"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_member_says_what_it_waits_for(cluster):
    arguments = ("comes-later", "--group", "early-birds", "--from", "earliest", "--count", "1")
    with consuming(cluster.name_servers, *arguments) as process:
        line = process.stderr.readline()
        assert line.startswith("ariane: warning: group early-birds waits for topic comes-later")
        main(["topic", "create", "comes-later", "--name-servers", cluster.name_servers])
        with Producer(cluster.name_servers) as producer:
            producer.send(Message("comes-later", b"at last"))
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (ExitStatus.DONE, "at last\n")
    assert "%RETRY%" not in err


def test_following_waits_for_a_broker_that_restarts(tmp_path):
    with LocalCluster(tmp_path, extra_broker_args=SMALL_STORE) as cluster:
        [broker] = cluster.brokers
        with Producer(cluster.name_servers) as producer:
            producer.send(Message("followed", b"before"))
        arguments = ("followed", "--from", "earliest", "--count", "2")
        with consuming(cluster.name_servers, *arguments) as process:
            assert process.stdout.readline() == "before\n"
            broker.kill()
            line = process.stderr.readline()
            assert line.startswith("ariane: warning: waiting: broker broker-a")
            cluster.call_blocking(broker.restart)
            with Producer(cluster.name_servers) as producer:
                producer.send(Message("followed", b"after"))
            out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (ExitStatus.DONE, "after\n", "")


@pytest.mark.parametrize(
    "words",
    [
        ("consume", "read-by-nobody"),
        pytest.param(("consume", "read-by-nobody", "--group", "nobodies"), marks=pytest.mark.slow),
        pytest.param(
            ("consume", "read-by-nobody", "--group", "others", "--receive"), marks=pytest.mark.slow
        ),
        pytest.param(("topic", "tail", "read-by-nobody"), marks=pytest.mark.slow),
        pytest.param(("top", "--interval", "600"), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_who_follows_ends_when_nobody_reads_although_nothing_comes(cluster, words):
    servers = ("--name-servers", cluster.name_servers)
    main(["topic", "create", "read-by-nobody", "--exists-ok", *servers])
    with subprocess.Popen(
        [BIN / "ariane", *words, *servers], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert process.wait(timeout=30) == ExitStatus.DONE
        assert process.stderr.read() == b""


def test_nobody_waits_for_what_never_was_there(tmp_path, capfd):
    servers = ("--name-servers", "127.0.0.1:1")
    assert main(["consume", "orders", *servers]) == ExitStatus.UNREACHABLE
    [line] = capfd.readouterr().err.splitlines()
    assert "warning" not in line
