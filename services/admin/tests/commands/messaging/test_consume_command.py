"""``ariane consume`` of single queues, from single offsets."""

import json
import time

import pytest

from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk.sync import ReceiveConsumer


@pytest.fixture(scope="module")
def browsed(cluster):
    return "c-browse"


@pytest.fixture
def filled(ariane, lines, browsed):
    """A topic with three messages in its one queue on each broker."""
    ariane("topic", "create", browsed, "--queues", "1", "--exists-ok")
    if not ariane("consume", browsed, "--from", "earliest", "--no-follow"):
        for broker in ("a", "b"):
            texts = [f"{broker}-{number}" for number in range(3)]
            ariane("produce", browsed, lines(*texts), "--group", f"group-{broker}")
    return browsed


def test_one_queue_is_read_from_an_offset(ariane, ariane_json, filled):
    queues = ariane_json("topic", "show", filled)
    total = sum(queue["messages"] for queue in queues)
    [place, *others] = [
        (f"{queue['broker']}:{queue['queue_id']}", queue["messages"])
        for queue in sorted(queues, key=lambda queue: -queue["messages"])
    ]
    read = ("consume", filled, "--no-follow", "--queue")
    assert len(ariane(*read, f"{place[0]}=1").splitlines()) == place[1] - 1
    assert len(ariane(*read, place[0], "--from", "earliest").splitlines()) == place[1]
    assert ariane(*read, f"{place[0]}={place[1]}") == ""
    both = [word for name, _ in (place, *others) for word in ("--queue", name)]
    found = ariane("consume", filled, "--no-follow", "--from", "earliest", *both)
    assert len(found.splitlines()) == total
    followed = ariane("consume", filled, "--queue", f"{place[0]}=1", "--count", "1")
    assert followed == ariane(*read, f"{place[0]}=1", "--count", "1")


@pytest.mark.parametrize(
    ("queue", "status"),
    [
        ("broker-a:0=99", ExitStatus.REFUSED),
        ("broker-a:7", ExitStatus.NOT_FOUND),
        ("broker-z:0", ExitStatus.NOT_FOUND),
        ("broker-a", ExitStatus.USAGE),
        ("broker-a:0=", ExitStatus.USAGE),
    ],
)
def test_a_missing_queue_or_offset_is_reported(ariane, filled, queue, status):
    for more in (("--no-follow",), ("--count", "1")):
        line = ariane("consume", filled, "--queue", queue, *more, status=status)
        assert "broker-" in line


def test_a_group_reads_all_queues(ariane, filled):
    ariane("consume", filled, "--group", "g", "--queue", "broker-a:0", status=ExitStatus.USAGE)


def test_members_receive_and_acknowledge(ariane, ariane_json, filled):
    total = sum(queue["messages"] for queue in ariane_json("topic", "show", filled))
    receive = ("consume", filled, "--group", "receivers", "--receive", "--from", "earliest")
    first = ariane(*receive, "--count", "2").splitlines()
    rest = ariane(*receive, "--count", str(total - 2)).splitlines()
    assert len(set(first + rest)) == total
    lags = ariane_json("group", "show", "receivers")["queues"]
    figures = {(lag["lag"], lag["in_flight"], lag["delayed"], lag["ready"]) for lag in lags}
    assert figures == {(0, 0, 0, 0)}
    [row] = [row for row in ariane_json("group", "list") if row["group"] == "receivers"]
    assert (row["lag"], row["in_flight"], row["ready"]) == (0, 0, 0)
    ariane("consume", filled, "--receive", status=ExitStatus.USAGE)


def test_members_receive_of_several_topics_and_by_priority(ariane, ariane_json, filled, tmp_path):
    ariane("topic", "create", "MORE_TO_RECEIVE")
    for priority in ("0", "5"):
        body = tmp_path / priority
        body.write_text(f"priority {priority}\n")
        # Of one broker: each compares what it has.
        send = ("produce", "MORE_TO_RECEIVE", str(body), "--group", "g", "--priority", priority)
        ariane(*send)
    own = ("consume", "MORE_TO_RECEIVE", "--group", "sorters", "--receive", "--from", "earliest")
    said = [ariane(*own, "--by-priority", "--count", "1").strip() for _ in range(2)]
    assert said == ["priority 5", "priority 0"]
    total = 2 + sum(queue["messages"] for queue in ariane_json("topic", "show", filled))
    both = ("consume", filled, "--also", "MORE_TO_RECEIVE", "--group", "all", "--receive")
    said = ariane(*both, "--from", "earliest", "--count", str(total)).splitlines()
    assert {"priority 5", "priority 0"} <= set(said)
    for wrong in ("--by-priority", "--also=MORE_TO_RECEIVE"):
        ariane("consume", filled, "--group", "all", wrong, status=ExitStatus.USAGE)


def test_a_group_receives_in_order_from_the_given_time(ariane, lines, cluster):
    ariane("topic", "create", "TO_ORDER", "--queues", "1", "--broker", "broker-a")
    ariane("produce", "TO_ORDER", lines("first", "second", "third"), "--group", "g")
    receive = ("consume", "TO_ORDER", "--group", "orderly", "--receive", "--from", "earliest")
    assert ariane(*receive, "--in-order", "--count", "1") == "first\n"

    wanted = {"group": "orderly", "subscriptions": {"TO_ORDER": "*"}}
    with ReceiveConsumer(cluster.name_servers, **wanted) as consumer:
        [second] = consumer.receive_batch(10)
        assert second.body == b"second"
        assert consumer.receive_batch(10, timeout_s=0.2) == []  # The third waits for it.
        ariane("consume", "TO_ORDER", "--group", "orderly", "--in-order", status=ExitStatus.USAGE)
        assert ariane(*receive, "--any-order", "--count", "1") == "third\n"
        consumer.ack(second)


def test_messages_of_a_span_of_time_are_read_without_a_key(ariane, ariane_json, lines):
    ariane("topic", "create", "c-span", "--queues", "1")
    for name in ("one", "two", "three"):
        ariane("produce", "c-span", lines(name), "--group", "all")
        time.sleep(0.01)  # Another millisecond, by the broker's clock.
    read = ("consume", "c-span", "--from", "earliest")
    stored = ariane("consume", "c-span", "--from", "earliest", "--no-follow", "-o", "json")
    times = [json.loads(line)["store_time"] for line in stored.splitlines()]
    assert ariane(*read, "--until", times[2]) == "one\ntwo\n"
    assert ariane("consume", "c-span", "--from", times[1], "--until", times[2]) == "two\n"
    assert ariane(*read, "--until", "2020-01-01T00:00:00Z") == ""
    wrong = ("consume", "c-span", "--group", "c-any", "--until", "-1h")
    assert "--group cannot be used" in ariane(*wrong, status=ExitStatus.USAGE)
