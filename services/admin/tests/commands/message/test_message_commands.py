"""``ariane message`` against a real cluster."""

import json
import time
from datetime import UTC, datetime, timedelta

import pytest

from ariane.common.v1 import message_pb2
from ariane_admin.errors import CommandFailed
from ariane_admin.messages.message_body import body_of
from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk.sync import Compression, Message, Producer, ProducerSettings


@pytest.fixture
def sent(ariane, ariane_json, lines):
    """Send three messages, of which two have the key; return the newest as it is found."""
    ariane("topic", "create", "m-orders", "--exists-ok")
    ariane("produce", "m-orders", lines("older [red]"), "--key", "o-1")
    ariane("produce", "m-orders", lines("newer"), "--key", "o-1", "--tag", "paid")
    ariane("produce", "m-orders", lines("another"), "--key", "o-2")
    return ariane_json("message", "query", "m-orders", "--key", "o-1")[0]


def test_a_body_of_the_largest_size_is_shown(cluster, ariane, ariane_json, tmp_path):
    largest = bytes(range(256)) * (16 << 10)
    with Producer(cluster.name_servers) as producer:
        sent = producer.send(Message("m-largest", largest, keys=("largest",)))
    saved = tmp_path / "body"
    ariane("message", "show", sent.message_id, "--topic", "m-largest", "--save-body", str(saved))
    assert saved.read_bytes() == largest
    [found] = ariane_json("message", "query", "m-largest", "--key", "largest", "--body", "none")
    assert found["body_bytes"] == len(largest)


def test_consume_and_query_say_the_same_of_a_message_in_the_same_words(ariane, lines):
    ariane("topic", "create", "m-same", "--queues", "1", "--broker", "broker-b")
    given = {"body": "one", "tag": "t", "keys": ["same"], "properties": {"a": "1"}}
    ariane("produce", "m-same", lines(json.dumps(given)), "--input", "json", "--group", "c-7")
    read = ("m-same", "-o", "json")
    consumed = json.loads(ariane("consume", *read, "--from", "earliest", "--count", "1"))
    [found] = json.loads(ariane("message", "query", *read, "--key", "same"))
    assert consumed == found
    assert (found["broker"], found["attempts"], found["body_bytes"]) == ("broker-b", 0, 3)


def test_messages_are_found_by_key_newest_first(ariane, ariane_json, sent):
    rows = ariane_json("message", "query", "m-orders", "--key", "o-1", "--count", "2")
    assert [row["body"] for row in rows] == ["newer", "older [red]"]
    assert rows[0]["keys"] == ["o-1"]
    [one] = ariane_json("message", "query", "m-orders", "--key", "o-1", "--count", "1")
    assert one["body"] == "newer"
    text = ariane("message", "query", "m-orders", "--key", "o-1")
    assert "older [red]" in text
    assert sent["message_id"] in text


def test_messages_are_found_by_time(ariane_json, sent):
    query = ("message", "query", "m-orders", "--key", "o-1")
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert ariane_json(*query, "--from", later) == []
    assert ariane_json(*query, "--until", "2020-01-01T00:00:00Z") == []
    assert ariane_json(*query, "--from", "2020-01-01T00:00:00Z", "--until", later)
    [exact] = ariane_json("message", "query", "m-orders", "--unique-id", sent["unique_id"])
    assert exact["message_id"] == sent["message_id"]


def test_messages_are_found_by_time_alone_newest_first(cluster, ariane, ariane_json):
    ariane("topic", "create", "m-times", "--queues", "3")
    sent = []
    with Producer(cluster.name_servers) as producer:
        for number in range(4):
            sent.append(producer.send(Message("m-times", f"{number}".encode())))
            time.sleep(0.005)  # Of one millisecond, those of the first queue come first.
    query = ("message", "query", "m-times")
    rows = ariane_json(*query, "--from", "-1h")
    assert [row["body"] for row in rows] == ["3", "2", "1", "0"]
    times = [row["store_time"] for row in rows]
    middle = ariane_json(*query, "--from", times[2], "--until", times[0])
    assert [row["body"] for row in middle] == [
        row["body"] for row in rows if times[2] <= row["store_time"] < times[0]
    ]
    [newest] = ariane_json(*query, "--until", "2999-01-01T00:00:00Z", "--count", "1")
    assert newest == ariane_json("message", "show", sent[3].message_id)
    assert ariane_json(*query, "--until", "2020-01-01T00:00:00Z") == []
    [hexed] = ariane_json(*query, "--from", "-1h", "--count", "1", "--body", "hex")
    assert (hexed["body_hex"], "body" in hexed) == (b"3".hex(), False)


def test_a_message_is_shown_by_either_id(ariane, ariane_json, sent):
    by_id = ariane_json("message", "show", sent["message_id"])
    assert (by_id["body"], by_id["tag"], by_id["topic"]) == ("newer", "paid", "m-orders")
    assert ariane_json("message", "show", sent["unique_id"], "--topic", "m-orders") == by_id
    assert "newer" in ariane("message", "show", sent["message_id"])


def test_bodies_come_as_they_are_wanted(ariane_json, sent, tmp_path):
    show = ("message", "show", sent["message_id"])
    assert ariane_json(*show, "--body", "hex")["body_hex"] == b"newer".hex()
    assert "body" not in ariane_json(*show, "--body", "none")
    target = tmp_path / "body"
    assert ariane_json(*show, "--save-body", str(target))["saved_to"] == str(target)
    assert target.read_bytes() == b"newer"


def test_messages_that_are_not_there(ariane, sent):
    err = ariane("message", "show", "0" * 32, status=ExitStatus.NOT_FOUND)
    assert "--topic" in err
    ariane("message", "show", "no id", "--topic", "m-orders", status=ExitStatus.NOT_FOUND)
    ariane("message", "query", "nowhere", "--key", "k", status=ExitStatus.NOT_FOUND)
    ariane("message", "query", "m-orders", status=ExitStatus.USAGE)


def test_compressed_bodies_are_shown_as_they_were(ariane, ariane_json, cluster, tmp_path):
    ariane("topic", "create", "m-large", "--exists-ok")
    body = "a teapot, " * 1000
    settings = ProducerSettings(compression=Compression.ZSTD)
    with Producer(cluster.name_servers, settings=settings) as producer:
        sent = producer.send(Message("m-large", body.encode(), keys=("large",)))
    target = tmp_path / "body"

    [row] = ariane_json("message", "query", "m-large", "--key", "large")
    assert (row["body"], row["body_bytes"]) == (body, len(body))
    ariane("message", "show", sent.message_id, "--save-body", str(target))
    assert target.read_text() == body
    consumed = ariane("consume", "m-large", "--from", "earliest", "--no-follow", "--count", "1")
    assert consumed.strip() == body.strip()


def test_a_compressed_body_that_is_damaged_is_told():
    with pytest.raises(CommandFailed, match="zlib body cannot be read"):
        body_of(message_pb2.Message(body=b"x", compression=message_pb2.COMPRESSION_ZLIB))


def test_the_life_of_a_message_is_shown(cluster, ariane, ariane_json):
    ariane("topic", "create", "m-traced", "--exists-ok")
    with Producer(cluster.name_servers, settings=ProducerSettings(message_trace=True)) as producer:
        sent = producer.send(Message("m-traced", b"x"))
    [step] = ariane_json("message", "trace", sent.unique_id)
    assert (step["what"], step["topic"], step["successful"]) == ("send", "m-traced", True)
    assert "send" in ariane("message", "trace", sent.unique_id)
    ariane("message", "trace", "nonsense", status=ExitStatus.NOT_FOUND)


def test_delayed_messages_are_listed(ariane, ariane_json, lines):
    def waiting():
        rows = ariane_json("message", "delayed")
        return {
            (row["level"], row["delay"]): sum(
                each["messages"] for each in rows if each["level"] == row["level"]
            )
            for row in rows
        }

    before = waiting()
    ariane("topic", "create", "msg-later", "--exists-ok")
    ariane("produce", "msg-later", lines("one", "two"), "--delay", "2d")
    ariane("produce", "msg-later", lines("three"), "--delay-level", "18")
    after = waiting()
    assert after[None, None] == before.get((None, None), 0) + 2
    assert after[18, "2h"] == before.get((18, "2h"), 0) + 1
    assert "2h" in ariane("message", "delayed")
