"""``ariane dead-letter`` against a real cluster."""

import asyncio
import json

import pytest

from ariane_admin.cli import main
from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk import Message, Producer, PushConsumer, PushSettings
from ariane_sdk.errors import MessagesFailed
from ariane_sdk.sync import PullConsumer


@pytest.fixture
def died(cluster, ariane):
    """Have a group give up some messages of a topic."""

    async def die(topic, group, bodies):
        seen = []

        async def listen(messages):
            seen.extend(messages)
            raise MessagesFailed(messages, "no such account", rejected=True)

        async with Producer(cluster.name_servers) as producer:
            await producer.send_batch(
                [Message(topic, body.encode(), keys=(f"k-{body}",), tag="t") for body in bodies]
            )
        settings = PushSettings(handover_s=0.1, rebalance_gap_s_min=0.05)
        async with (
            asyncio.timeout(60),
            PushConsumer(
                cluster.name_servers,
                group=group,
                subscriptions={topic: "*"},
                listener=listen,
                start="earliest",
                settings=settings,
            ) as consumer,
        ):
            while len(seen) < len(bodies):  # noqa: ASYNC110 - there is nothing to be told by.
                await asyncio.sleep(0.02)
            await consumer.store_offsets()

    def make(topic, group, bodies):
        ariane("topic", "create", topic, "--queues", "1", "--broker", "broker-a")
        asyncio.run(die(topic, group, bodies))

    return make


def test_dead_letters_are_listed_shown_and_exported(ariane, ariane_json, died, tmp_path):
    died("d-orders", "d-billing", ["one", "two", "three"])
    rows = ariane_json("dead-letter", "list", "d-billing")
    assert sorted(row["body"] for row in rows) == ["one", "three", "two"]
    assert {row["topic"] for row in rows} == {"d-orders"}
    assert {row["reason"] for row in rows} == {"REJECTED"}
    assert {row["last_error"] for row in rows} == {"no such account"}
    [one] = ariane_json("dead-letter", "list", "d-billing", "--key", "k-one")
    assert (one["body"], one["broker"], one["queue_id"]) == ("one", "broker-a", 0)
    assert len(ariane_json("dead-letter", "list", "d-billing", "--count", "2")) == 2
    assert ariane_json("dead-letter", "list", "d-billing", "--until", "2020-01-01T00:00:00Z") == []
    assert (
        len(ariane_json("dead-letter", "list", "d-billing", "--from", "2020-01-01T00:00:00Z")) == 3
    )
    assert ariane_json("dead-letter", "show", "d-billing", one["place"]) == one
    assert "no such account" in ariane("dead-letter", "list", "d-billing")
    ariane("dead-letter", "show", "d-billing", "broker-a/0/99", status=ExitStatus.NOT_FOUND)
    for wrong in ("somewhere", f"broker-a/0/{'9' * 5000}"):
        ariane("dead-letter", "show", "d-billing", wrong, status=ExitStatus.USAGE)
    file = tmp_path / "letters"
    ariane("dead-letter", "export", "d-billing", "--to", str(file))
    assert [json.loads(line) for line in file.read_text().splitlines()] == rows


def test_a_list_that_is_cut_says_so(ariane, ariane_json, died, capfd, lines, cluster, monkeypatch):
    monkeypatch.setenv("ARIANE_NAME_SERVERS", cluster.name_servers)
    died("d-cut", "d-cutting", ["one", "two", "three"])
    for count, is_told in (("2", True), ("3", False)):
        for command in (
            ("dead-letter", "list", "d-cutting"),
            ("message", "query", "d-cut", "--key", "k-same"),
        ):
            if command[0] == "message" and count == "2":
                texts = [json.dumps({"body": each, "keys": ["k-same"]}) for each in "abc"]
                ariane("produce", "d-cut", lines(*texts), "--input", "json")
            capfd.readouterr()
            assert main([*command, "--count", count, "-o", "json"]) == ExitStatus.DONE
            out, err = capfd.readouterr()
            assert len(json.loads(out)) == int(count)
            assert ("there are more than these" in err) == is_told


def test_a_group_without_dead_letters_has_none(ariane, ariane_json):
    ariane("group", "retry", "d-healthy", "--attempts", "3")
    assert ariane_json("dead-letter", "list", "d-healthy") == []
    for further in ("--yes", "--dry-run"):
        assert ariane_json("dead-letter", "redrive", "d-healthy", further)["redriven"] == 0


def test_one_by_query_and_all_are_sent_back_once(ariane, ariane_json, died):
    died("d-again", "d-shipping", ["one", "two", "three"])

    def redrive(*arguments):
        done = ariane_json("dead-letter", "redrive", "d-shipping", "--to-topic", *arguments)
        assert done["failures"] == []
        return done["redriven"], done["redriven_before"]

    [two] = ariane_json("dead-letter", "list", "d-shipping", "--key", "k-two")
    assert redrive(two["place"]) == (1, 0)
    assert redrive(two["place"]) == (0, 1)
    marked = {
        row["body"]: row["redriven"] for row in ariane_json("dead-letter", "list", "d-shipping")
    }
    assert marked == {"one": False, "two": True, "three": False}
    assert ariane_json("dead-letter", "show", "d-shipping", two["place"])["redriven"]
    assert "redriven" in ariane("dead-letter", "list", "d-shipping")
    waiting = ariane_json("dead-letter", "list", "d-shipping", "--not-redriven")
    assert {row["body"] for row in waiting} == {"one", "three"}
    ariane("dead-letter", "redrive", "d-shipping", status=ExitStatus.USAGE)
    gone = "broker-a/0/99"
    ariane("dead-letter", "redrive", "d-shipping", gone, status=ExitStatus.NOT_FOUND)
    assert redrive("--key", "k-one", "--yes") == (1, 0)
    assert redrive("--yes") == (1, 2)
    out = ariane("consume", "d-again", "--from", "earliest", "--no-follow")
    assert sorted(out.split()) == ["one", "one", "three", "three", "two", "two"]


def test_a_topic_that_is_gone_is_told(ariane, died):
    died("d-gone", "d-lost", ["one"])
    ariane("topic", "delete", "d-gone", "--yes")
    err = ariane(
        "dead-letter", "redrive", "d-lost", "--to-topic", "--yes", status=ExitStatus.FAILED
    )
    assert "d-gone" in err


def test_by_default_only_their_group_gets_them_again(ariane, ariane_json, died):
    died("d-shared", "d-one", ["one"])
    done = ariane_json("dead-letter", "redrive", "d-one", "--yes")
    assert done["redriven"] == 1
    assert ariane("consume", "d-shared", "--from", "earliest", "--no-follow") == "one\n"
    assert ariane("consume", "d-shared", "--group", "d-one", "--count", "1") == "one\n"


def test_a_group_that_polls_gets_nothing_back(ariane, ariane_json, died, cluster):
    died("d-polled", "d-pollers", ["one"])
    redrive = ("dead-letter", "redrive", "d-pollers")
    options = {"group": "d-pollers", "subscriptions": {"d-polled": "*"}}
    with PullConsumer(cluster.name_servers, **options):
        for further in ("--yes", "--dry-run"):
            refusal = ariane(*redrive, further, status=ExitStatus.REFUSED)
            assert "group d-pollers polls for messages" in refusal
            assert "--to-topic" in refusal
        assert ariane_json(*redrive, "--to-topic", "--dry-run")["redriven"] == 1
    assert ariane_json(*redrive, "--yes")["redriven"] == 1


def test_dead_letters_of_a_group_that_was_deleted_go_to_their_topic_only(ariane, ariane_json, died):
    died("d-orphans", "d-leaver", ["one"])
    ariane("group", "delete", "d-leaver", "--keep-dead-letters", "--yes")
    assert ariane_json("dead-letter", "list", "d-leaver", "--reason", "ATTEMPTS_EXHAUSTED") == []
    redrive = ("dead-letter", "redrive", "d-leaver", "--yes")
    assert "--to-topic" in ariane(*redrive, status=ExitStatus.NOT_FOUND)
    assert ariane_json(*redrive, "--to-topic")["redriven"] == 1
    assert ariane("consume", "d-orphans", "--from", "earliest", "--no-follow") == "one\none\n"
