"""``ariane topic tail``, and lines of ``consume`` that go into ``produce``."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ariane_admin.cli import main
from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk import Message
from ariane_sdk.sync import Producer


@pytest.fixture(scope="module")
def numbered(cluster):
    """A topic with 30 messages over four queues of one broker."""
    where = ("--broker", "broker-a", "--name-servers", cluster.name_servers)
    assert main(["topic", "create", "t-numbered", "--queues", "4", *where]) == 0
    with Producer(cluster.name_servers) as producer:
        for number in range(30):
            producer.send(Message("t-numbered", b"%d" % number, tag="even" * (1 - number % 2)))
    return "t-numbered"


def test_the_newest_of_all_queues_come_in_the_order_of_their_storing(ariane, numbered):
    lines = ariane("topic", "tail", numbered, "--no-follow").splitlines()
    assert [int(line.rpartition(" ")[2]) for line in lines] == list(range(20, 30))
    assert all("[even]" in line for line in lines if int(line.rpartition(" ")[2]) % 2 == 0)
    times = [line.partition(" ")[0] for line in lines]
    assert times == sorted(times)
    assert len(ariane("topic", "tail", numbered, "-n", "99", "--no-follow").splitlines()) == 30
    assert ariane("topic", "tail", numbered, "-n", "0", "--no-follow") == ""
    [one] = map(json.loads, ariane("topic", "tail", numbered, *_LAST_AS_JSON).splitlines())
    assert one["body"] == "29"


_LAST_AS_JSON = ("-n", "1", "--no-follow", "-o", "json")


def test_a_missing_topic_is_reported(ariane):
    ariane("topic", "tail", "t-missing", status=ExitStatus.NOT_FOUND)


def test_new_messages_are_shown_as_they_arrive(cluster, numbered):
    command = [Path(sys.executable).parent / "ariane", "topic", "tail", numbered, "-n", "1"]
    environment = {**os.environ, "ARIANE_NAME_SERVERS": cluster.name_servers}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**environment, "PYTHONUNBUFFERED": "1"}
    ) as process:
        try:
            assert process.stdout.readline()
            with Producer(cluster.name_servers) as producer:
                producer.send(Message(numbered, b"\x1b[31mlate", keys=("k",)))
            assert process.stdout.readline().endswith("[k]  \\x1b[31mlate\n")
        finally:
            process.kill()


def test_lines_of_consume_go_into_produce(ariane, lines, cluster):
    sent = Message("t-from", b"\x00\xff", "tag", ("k", "l"), "group", {"a": "1"})
    with Producer(cluster.name_servers) as producer:
        producer.send(sent)
        producer.send(Message("t-from", "\u00e4".encode()))
    read = ("--from", "earliest", "--no-follow", "-o", "json")
    copied = ariane("consume", "t-from", *read)
    ariane("produce", "t-to", lines(*copied.splitlines()), "--input", "json")
    kept = ("body", "body_hex", "tag", "keys", "message_group", "properties")

    def told(text):
        rows = map(json.loads, text.splitlines())
        return sorted(json.dumps({name: row.get(name) for name in kept}) for row in rows)

    assert told(ariane("consume", "t-to", *read)) == told(copied)
