"""A message cannot do anything to the operator's terminal: the real command on a real terminal."""

import os
import pty
import subprocess
import sys
import termios
from datetime import timedelta

import pytest
import yaml

from ariane_admin.times import length_of_time, length_text
from ariane_record.control_characters import holds_control_character, shown
from ariane_sdk import Message
from ariane_sdk.sync import Producer

TRICK = "\x1b]0;owned\x07\x1b[31mred\x9b5m"


@pytest.fixture(scope="module")
def topic(cluster):
    with Producer(cluster.name_servers) as producer:
        producer.send(Message("terminal", f"{TRICK}\nnext line".encode(), keys=("k",)))
    return "terminal"


def on_a_terminal(cluster, *arguments, columns=200):
    """What a command writes to a terminal of so many columns."""
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, columns))
    environment = {**os.environ, "ARIANE_NAME_SERVERS": cluster.name_servers, "TERM": "dumb"}
    command = [sys.executable, "-m", "ariane_admin", *arguments]
    with subprocess.Popen(command, stdout=follower, stderr=follower, env=environment) as process:
        os.close(follower)
        parts = []
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:  # As a terminal says that nobody writes any more.
                break
            if not part:
                break
            parts.append(part)
        os.close(leader)
    return process.returncode, b"".join(parts).decode()


def lines_of(text):
    return [line.rstrip("\r") for line in text.split("\n")]


def test_a_body_is_shown_and_not_obeyed(cluster, topic):
    status, text = on_a_terminal(cluster, "consume", topic, "--from", "earliest", "--count", "1")
    assert status == 0, text
    assert lines_of(text)[:2] == [shown(TRICK), "next line"]


def test_a_body_in_a_pipe_stays_as_it_is(ariane, topic):
    text = ariane("consume", topic, "--from", "earliest", "--count", "1")
    assert text == f"{TRICK}\nnext line\n"


def test_json_on_a_terminal_has_no_character_that_it_obeys(cluster, topic):
    status, text = on_a_terminal(
        cluster, "consume", topic, "--from", "earliest", "--count", "1", "-o", "json"
    )
    assert status == 0, text
    assert not any(map(holds_control_character, lines_of(text)))
    assert "\\u009b5m" in text


def test_yaml_on_a_terminal_has_no_character_that_it_obeys(cluster, topic):
    status, text = on_a_terminal(
        cluster, "consume", topic, "--from", "earliest", "--count", "1", "-o", "yaml"
    )
    assert status == 0, text
    assert not any(map(holds_control_character, lines_of(text)))
    (document,) = yaml.safe_load_all(text)
    assert document["body"] == f"{TRICK}\nnext line"


def test_yaml_says_what_json_says(ariane, ariane_json, topic):
    command = ("topic", "show", topic)
    assert yaml.safe_load(ariane(*command, "-o", "yaml")) == ariane_json(*command)
    listed = ("broker", "list")
    [first, *_] = yaml.safe_load(ariane(*listed, "-o", "yaml"))
    assert first.keys() == ariane_json(*listed)[0].keys()
    assert yaml.safe_load(ariane("explain", "TOPIC_NOT_FOUND", "-o", "yaml"))["code"] == "NOT_FOUND"


def test_errors_repeat_nothing_that_a_terminal_obeys(cluster, topic):
    status, text = on_a_terminal(cluster, "topic", "show", f"{topic}{TRICK}")
    assert status != 0
    assert not any(map(holds_control_character, lines_of(text)))
    assert "owned" in text


def test_a_terminal_of_80_columns_cuts_nothing_that_is_copied(cluster, topic, ariane_json):
    [message] = ariane_json("message", "query", topic, "--key", "k")
    address = ariane_json("topic", "show", topic)[0]["address"]
    for command, wanted in (
        (("message", "query", topic, "--key", "k"), message["message_id"]),
        (("message", "show", message["message_id"]), message["message_id"]),
        (("broker", "list"), address),
        (("topic", "show", topic), address),
    ):
        status, text = on_a_terminal(cluster, *command, columns=80)
        assert status == 0, text
        assert wanted in text
        assert "\u2026" not in text


@pytest.mark.parametrize("text", ["0s", "250ms", "90s", "12h", "1d12h", "1h30m", "2d1ms"])
def test_a_length_of_time_is_said_as_it_is_read(text):
    length = length_of_time(text)
    assert length_of_time(length_text(length // timedelta(milliseconds=1))) == length
