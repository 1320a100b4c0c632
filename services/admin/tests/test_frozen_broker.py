"""What lists and shows say while one of two brokers is frozen: its part is missing, and said so."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ariane_admin.exits import ExitStatus
from ariane_sdk.sync import Message, MessageQueue, Producer, QueueReader
from ariane_servicekit.processes import LocalCluster

BIN = Path(sys.executable).parent
COMMANDS = {
    "topics": "topic list",
    "groups": "group list",
    "group": "group show billing",
    "no group": "group show nobody",
    "tries": "group retry billing",
    "no tries": "group retry nobody",
    "queues": "topic show orders",
    "layouts": "topic show orders --brokers",
    "found": "message query orders --key o-1",
    "no message": "message show 0123456789ABCDEF0123456789ABCDEF --topic orders",
    "stored": "consume orders --from earliest --no-follow",
    "stored since": "consume orders --from 2020-01-01T00:00:00Z --no-follow",
}
TOTALS = ("topics", "groups", "group")
LINES = ("stored", "stored since")


def run(cluster, text, *more):
    environment = {**os.environ, "ARIANE_NAME_SERVERS": cluster.name_servers}
    return subprocess.run(
        [BIN / "ariane", *text.split(), *more],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
    """What each command wrote, for people and for programs, and how it ended."""
    folder = tmp_path_factory.mktemp("frozen")
    small = ("--segment-bytes", str(64 << 20))
    with LocalCluster(folder, brokers=2, extra_broker_args=small) as cluster:
        assert run(cluster, "topic create orders --queues 2").returncode == ExitStatus.DONE
        with (
            Producer(cluster.name_servers) as producer,
            QueueReader(cluster.name_servers) as reader,
        ):
            for name in ("broker-a", "broker-b"):
                queue = MessageQueue("orders", name, 0)
                body = f"on {name}".encode()
                producer.send(Message("orders", body, keys=("o-1",)), message_queue=queue)
                reader.store_offsets("billing", {queue: 0})
        asked = {
            (what, form): (text, "-o", form)
            for what, text in COMMANDS.items()
            for form in ("table", "json")
            if what in TOTALS or (form == "table") == (what in LINES)
        }
        os.kill(cluster.brokers[1].pid, signal.SIGSTOP)
        try:
            with ThreadPoolExecutor(len(asked)) as threads:
                ended = threads.map(lambda words: run(cluster, *words), asked.values())
                yield dict(zip(asked, ended, strict=True))
        finally:
            os.kill(cluster.brokers[1].pid, signal.SIGCONT)


def told(frozen, what):
    return json.loads(frozen[what, "json"].stdout)


@pytest.mark.parametrize("what", COMMANDS)
def test_the_silent_broker_is_named_in_a_line_and_by_the_status(frozen, what):
    for ended in (ended for (asked, _), ended in frozen.items() if asked == what):
        assert ended.returncode == ExitStatus.UNREACHABLE, ended.stderr
        warning, *more = ended.stderr.splitlines()
        assert warning.startswith("ariane: warning: shown without a broker that does not answer: ")
        assert "broker broker-b at 127.0.0.1" in warning
        # Where nothing was found, an error says that not all were asked.
        assert len(more) == what.startswith("no ")


def test_totals_without_a_broker_do_not_look_right(frozen):
    [topic] = told(frozen, "topics")
    assert (topic["brokers"], topic["read_queues"]) == (["broker-a"], 2)
    [group] = told(frozen, "groups")
    assert (group["group"], group["lag"]) == ("billing", 1)
    shown = told(frozen, "group")
    for row in (topic, group, shown):
        assert row["unanswered"] == ["broker-b"]
    for what, total in (("topics", ">= 2"), ("groups", ">= 1"), ("group", ">= 1")):
        text = frozen[what, "table"].stdout
        assert total in text
        assert "unanswered" in text
        assert "broker-b" in text


def test_queues_of_a_silent_broker_are_there_and_their_messages_are_not_known(frozen):
    queues = [(row["broker"], row["queue_id"], row["messages"]) for row in told(frozen, "queues")]
    assert queues == [
        ("broker-a", 0, 1),
        ("broker-a", 1, 0),
        ("broker-b", 0, None),
        ("broker-b", 1, None),
    ]
    layouts = [(row["broker"], row["read_queues"]) for row in told(frozen, "layouts")]
    assert layouts == [("broker-a", 2), ("broker-b", None)]


def test_what_the_others_have_is_written(frozen):
    assert [row["body"] for row in told(frozen, "found")] == ["on broker-a"]
    assert [row["broker"] for row in told(frozen, "tries")] == ["broker-a"]
    assert frozen["stored", "table"].stdout == "on broker-a\n"
    assert frozen["stored since", "table"].stdout == "on broker-a\n"
