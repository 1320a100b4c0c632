"""``ariane group forget`` against a real cluster."""

import pytest

from ariane_admin.cli import main
from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk.sync import PushConsumer


@pytest.fixture
def consumed(ariane, lines):
    made = ("--queues", "1", "--broker", "broker-a", "--exists-ok")
    for topic in ("fo-orders", "fo-other"):
        ariane("topic", "create", topic, *made)
        ariane("produce", topic, lines("one", "two"))
        ariane("consume", topic, "--group", "fo-group", "--from", "earliest", "--count", "1")


def test_the_offsets_of_one_topic_go_and_the_group_begins_anew(
    consumed, cluster, ariane, ariane_json
):
    forget = ("group", "forget", "fo-group", "fo-orders")
    shown = [{"broker": "broker-a", "queue_id": 0, "consumer_offset": 1}]
    with PushConsumer(
        cluster.name_servers,
        group="fo-group",
        subscriptions={"fo-orders": "none"},
        listener=lambda messages: None,
    ):
        err = ariane(*forget, "--yes", status=ExitStatus.REFUSED)
        assert "GROUP_IN_USE" in err
    # The member has said goodbye, and has passed over the message that it did not want.
    before = ariane_json(*forget, "--dry-run")
    assert [row["queue_id"] for row in before] == [row["queue_id"] for row in shown]
    assert ariane_json(*forget, "--yes") == before
    assert ariane_json(*forget, "--yes") == []
    topics = {row["topic"] for row in ariane_json("group", "show", "fo-group")["queues"]}
    assert "fo-other" in topics
    assert "fo-orders" not in topics
    again = ("consume", "fo-orders", "--group", "fo-group", "--from", "earliest", "--count", "1")
    assert ariane(*again) == "one\n"


def test_a_topic_without_offsets_of_the_group_is_warned_of(consumed, ariane, cluster, capfd):
    ariane("topic", "create", "fo-unread", "--exists-ok")
    forget = ("group", "forget", "fo-group", "fo-unread", "--yes")
    assert main([*forget, "--name-servers", cluster.name_servers]) == ExitStatus.DONE
    assert "warning: group fo-group has no offset in topic fo-unread" in capfd.readouterr().err


def test_a_deleted_topic_leaves_nothing_to_forget(consumed, ariane):
    ariane("topic", "delete", "fo-other", "--yes")
    forget = ("group", "forget", "fo-group", "fo-other", "--yes")
    ariane(*forget, status=ExitStatus.NOT_FOUND)
