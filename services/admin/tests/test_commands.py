"""Commands against a real cluster, and what `ariane dev` tells people to try."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from ariane_admin.cli import main
from ariane_admin.commands.dev import dev as dev_command
from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk import Producer, ProducerSettings
from ariane_testkit.free_ports import free_port

BIN = Path(sys.executable).parent


def test_a_topic_is_created_listed_and_shown(ariane):
    assert ariane("topic", "create", "orders", "--queues", "3") == "Topic orders exists.\n"
    listed = json.loads(ariane("topic", "list", "-o", "json"))
    assert "orders" in {row["topic"] for row in listed}
    queues = json.loads(ariane("topic", "show", "orders", "-o", "json"))
    assert [(queue["broker"], queue["queue_id"]) for queue in queues] == [
        (broker, queue_id) for broker in ("broker-a", "broker-b") for queue_id in range(3)
    ]
    assert all(queue["messages"] == 0 for queue in queues)
    assert "broker-b" in ariane("topic", "show", "orders")


def test_a_topic_that_is_there_is_refused_unless_that_is_well(ariane):
    ariane("topic", "create", "twice")
    assert "twice" in ariane("topic", "create", "twice", status=ExitStatus.REFUSED)
    ariane("topic", "create", "twice", "--exists-ok")


def test_an_illegal_name_is_wrong_usage(ariane):
    ariane("topic", "create", "no spaces", status=ExitStatus.USAGE)


def test_a_topic_that_is_not_there(ariane):
    [line] = ariane("topic", "show", "nowhere", status=ExitStatus.NOT_FOUND).splitlines()
    assert "nowhere" in line


def test_the_cluster_shows_its_brokers(ariane, cluster):
    brokers = json.loads(ariane("cluster", "show", "-o", "json"))
    assert [(b["broker"], b["id"], b["address"]) for b in brokers] == [
        (broker.name, 0, broker.address) for broker in cluster.brokers
    ]


def test_what_too_few_brokers_can_keep_is_refused_by_its_reason(ariane, lines, monkeypatch):
    ariane("topic", "create", "safe")
    # Refused by both brokers, it would be sent again and again until its ten seconds are over.
    once = ProducerSettings(repeat_delay_s_min=60, repeat_delay_s_max=60)
    monkeypatch.setattr(
        "ariane_admin.commands.messaging.produce.Producer", partial(Producer, settings=once)
    )
    err = ariane("produce", "safe", lines("one"), "--in-sync-min", "3", status=ExitStatus.REFUSED)
    assert err.endswith("; it was not stored (0 messages sent) [TOO_FEW_IN_SYNC]\n")
    assert ".;" not in err
    done = ariane("produce", "safe", lines("one"), "--level", "flushed")
    assert done == "Sent 1 message to safe; acknowledged as flushed.\n"


def test_lines_become_messages_and_lines_again(ariane, lines):
    ariane("topic", "create", "texts")
    source = lines("one", "two", "three")
    sent = ariane("produce", "texts", source, "--tag", "created", "--group", "c-7", "--key", "k")
    assert sent == "Sent 3 messages to texts.\n"
    assert ariane("consume", "texts", "--from", "earliest", "--no-follow") == "one\ntwo\nthree\n"
    [first, _] = ariane(
        "consume", "texts", "--from", "earliest", "--count", "2", "-o", "json"
    ).splitlines()
    message = json.loads(first)
    assert (message["body"], message["tag"], message["keys"]) == ("one", "created", ["k"])
    assert (message["message_group"], message["queue_offset"]) == ("c-7", 0)


def test_json_lines_say_everything_themselves(ariane, lines):
    ariane("topic", "create", "objects")
    source = lines(
        json.dumps({"body": "a", "tag": "paid", "properties": {"shop": "Paris"}}),
        json.dumps({"body": "b", "tag": "sent"}),
    )
    result = json.loads(ariane("produce", "objects", source, "--input", "json", "-o", "json"))
    assert result == {"topic": "objects", "sent": 2}
    out = ariane(
        *("consume", "objects", "--from", "earliest", "--no-follow"), "--tag", "paid", "-o", "json"
    )
    message = json.loads(out)
    assert (message["body"], message["properties"]["shop"]) == ("a", "Paris")


def test_a_broken_line_stops_with_its_number(ariane, lines):
    ariane("topic", "create", "broken")
    source = lines('{"body": "a"}', "not json")
    err = ariane("produce", "broken", source, "--input", "json", status=ExitStatus.USAGE)
    assert "line 2 is no message" in err
    assert "(0 messages sent)" in err


def test_a_group_goes_on_where_it_was(ariane, lines):
    ariane("topic", "create", "work", "--queues", "1")
    ariane("produce", "work", lines("one", "two", "three"), "--group", "all")
    member = ("consume", "work", "--group", "workers", "--from", "earliest")
    assert ariane(*member, "--count", "2") == "one\ntwo\n"
    assert ariane(*member, "--count", "1") == "three\n"


def test_tags_are_named_one_by_one_or_as_an_expression(ariane, lines):
    ariane("topic", "create", "tagged", "--queues", "1")
    for tag in ("red", "green", "blue"):
        ariane("produce", "tagged", lines(tag), "--tag", tag)
    read = ("consume", "tagged", "--from", "earliest", "--no-follow")
    for wanted in (("--tag", "red", "--tag", "blue"), ("--tag", "red || blue")):
        # Each broker has a queue: nothing orders the two.
        assert sorted(ariane(*read, *wanted).splitlines()) == ["blue", "red"]
    for wrong in ("", "*", "red||", "red\x01"):
        assert "tag" in ariane(*read, "--tag", wrong, status=ExitStatus.USAGE)


def test_a_time_to_begin_needs_a_zone(ariane):
    for wrong in ("yesterday", "2026-01-31T10:00:00"):
        err = ariane("consume", "work", "--from", wrong, status=ExitStatus.USAGE)
        assert wrong in err
        assert "2026-01-31T10:00:00Z" in err


def test_reading_from_a_time(ariane, lines):
    ariane("topic", "create", "timed")
    ariane("produce", "timed", lines("old"))
    for start, expected in (("2020-01-01T00:00:00Z", "old\n"), ("2999-01-01T00:00:00+02:00", "")):
        assert ariane("consume", "timed", "--from", start, "--no-follow") == expected


@pytest.fixture
def dev(tmp_path):
    """Start `ariane dev` and return the process and its first line as JSON."""
    started = []

    def start(*arguments):
        process = subprocess.Popen(
            [BIN / "ariane", "dev", "--name-server-port", "0", "-o", "json", *arguments],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
        started.append(process)
        return process, json.loads(process.stdout.readline())

    yield start
    for process in started:
        process.terminate()
        process.communicate()


def stopped_by(process, number):
    process.send_signal(number)
    process.communicate(timeout=30)
    return process.returncode


def test_commands_that_dev_prints_work_unchanged(dev):
    process, ready = dev()
    done = subprocess.run(
        ["bash", "-euo", "pipefail"],
        check=False,
        input="\n".join(ready["try_next"]),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "Topic hello exists." in done.stdout
    assert sorted(done.stdout.splitlines()[-2:]) == ["Bonjour", "Bonjour from Python"]
    # Whoever tries exactly once from Spark next waits until a name server has warmed up.
    listed = subprocess.run(
        (BIN / "ariane", "setting", "list", "namesrv", "-o", "json"),
        env={**os.environ, "ARIANE_NAME_SERVERS": ready["name_servers"]},
        check=True,
        capture_output=True,
        timeout=60,
    )
    [warm_up] = [row for row in json.loads(listed.stdout) if row["name"] == "warm_up_s"]
    assert float(warm_up["value"]) < 10
    store = Path(ready["store_path"])
    assert store.exists()
    assert stopped_by(process, signal.SIGINT) == 0
    assert not store.exists()


@pytest.mark.slow
def test_dev_takes_the_ports_that_are_said(dev):
    first = free_port(5)
    ports = {"broker": first, "admin": first + 3, "console": first + 4}
    said = [word for name, port in ports.items() for word in (f"--{name}-port", str(port))]
    _, ready = dev("--brokers", "2", *said)
    places = {each["name"]: each["address"] for each in ready["services"]}
    assert (places["broker-a"], places["broker-b"]) == (
        f"127.0.0.1:{first}",
        f"127.0.0.1:{first + 1}",
    )
    assert ready["admin"] == f"127.0.0.1:{first + 3}"
    assert ready["console"] == f"http://127.0.0.1:{first + 4}/"


def test_dev_says_what_to_install_when_a_service_is_missing(monkeypatch, capfd):
    monkeypatch.setattr(dev_command, "_SERVICES", ("ariane-namesrv", "ariane-none"))
    assert main(["dev"]) == ExitStatus.FAILED
    assert capfd.readouterr().err == (
        "ariane: ariane-none not installed; pip install 'ariane-admin[dev]' brings all that this"
        " command starts [FAILED]\n"
    )


@pytest.mark.slow
def test_dev_keeps_a_store_that_is_named(dev, tmp_path, capfd):
    data = tmp_path / "kept"
    process, ready = dev("--data", str(data))
    servers = ("--name-servers", ready["name_servers"])
    assert main(["topic", "create", "hello", *servers]) == 0
    (tmp_path / "lines").write_text("Bonjour\n")
    assert main(["produce", "hello", str(tmp_path / "lines"), *servers]) == 0
    assert stopped_by(process, signal.SIGTERM) == 0
    _, ready = dev("--data", str(data))
    capfd.readouterr()
    servers = ("--name-servers", ready["name_servers"])
    assert main(["consume", "hello", "--from", "earliest", "--count", "1", *servers]) == 0
    assert capfd.readouterr().out == "Bonjour\n"


@pytest.mark.slow
def test_dev_goes_on_when_a_primary_with_a_replica_dies(dev, capfd):
    _, ready = dev("--replicas", "1")
    servers = ("--name-servers", ready["name_servers"])
    [broker] = [each for each in ready["services"] if each["name"] == "broker-a"]
    assert main(["topic", "create", "hello", *servers]) == 0
    os.kill(broker["pid"], signal.SIGKILL)
    deadline = time.monotonic() + 120
    roles = {}
    while time.monotonic() < deadline:
        capfd.readouterr()
        main(["broker", "ha", "status", "broker-a", "-o", "json", *servers])
        rows = json.loads(capfd.readouterr().out or "[]")
        roles = {row["id"]: row["role"] for row in rows}
        if roles == {0: "replica", 1: "primary"}:
            break
        time.sleep(0.5)
    assert roles == {0: "replica", 1: "primary"}


@pytest.mark.slow
def test_dev_starts_a_broker_again_that_was_stopped_or_killed(tmp_path):
    process = subprocess.Popen(
        [BIN / "ariane", "dev", "--name-server-port", "0", "-o", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    ready = json.loads(process.stdout.readline())
    pid = next(each["pid"] for each in ready["services"] if each["name"] == "broker-a")
    for number, ending in (
        (signal.SIGTERM, "ended with status 0"),
        (signal.SIGKILL, "was ended by SIGKILL"),
    ):
        os.kill(pid, number)
        line = process.stderr.readline()
        assert line.startswith(f"ariane: warning: broker-a {ending}; restarting it in ")
        if number == signal.SIGKILL:
            line = process.stderr.readline()
            assert line.startswith("ariane: warning: the end of ")
            assert line.endswith("}\n")
        again = process.stderr.readline()
        assert again.startswith("ariane: warning: broker-a runs again, process ")
        pid = int(again.split()[-1])
    assert main(["topic", "create", "hello", "--name-servers", ready["name_servers"]]) == 0
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert not Path(ready["store_path"]).exists()


@pytest.mark.slow
def test_dev_stops_in_order_although_nobody_reads_any_more(tmp_path):
    with subprocess.Popen(
        [BIN / "ariane", "dev", "--name-server-port", "0", "--data", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        [mark] = tmp_path.glob("**/abort")  # There while a broker runs, or was killed.
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b""
    assert process.returncode == 0
    assert not mark.exists()


def test_a_taken_port_is_one_line(cluster):
    port = cluster.name_servers.rpartition(":")[2]
    done = subprocess.run(
        [BIN / "ariane", "dev", "--name-server-port", port],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == ExitStatus.FAILED
    [line] = done.stderr.splitlines()
    assert port in line
