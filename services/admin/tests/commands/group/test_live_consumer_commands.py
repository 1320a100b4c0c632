"""``ariane group running`` and ``ariane message consume-again`` against a real cluster."""

import json
import threading

import pytest

from ariane_admin.cli import main
from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk.sync import PushConsumer


class Listener:
    """Takes messages, and fails on request."""

    def __init__(self):
        self.bodies = []
        self.failing = False
        self.got = threading.Semaphore(0)

    def __call__(self, messages):
        self.bodies += [message.body for message in messages]
        self.got.release()
        if self.failing:
            raise ValueError("no room")


@pytest.fixture
def consumer(ariane, cluster, lines):
    """A live consumer of one message, and its listener."""
    listener = Listener()
    ariane("topic", "create", "lc-orders", "--queues", "1", "--broker", "broker-a")
    ariane("produce", "lc-orders", lines("one"))
    made = PushConsumer(
        cluster.name_servers,
        group="lc-billing",
        subscriptions={"lc-orders": "*"},
        listener=listener,
        start="earliest",
    )
    with made:
        assert listener.got.acquire(timeout=60)
        yield made, listener
    ariane("topic", "delete", "lc-orders", "--yes")


def test_running_members_and_a_message_consumed_again(ariane, ariane_json, consumer, capfd):
    made, listener = consumer
    [member] = ariane_json("group", "running", "lc-billing", "--stacks")
    assert (member["client_id"], member["error"]) == (made.client_id, None)
    assert "lc-orders" in member["subscriptions"]
    assert "lc-orders" in {queue["topic"] for queue in member["queues"]}
    assert {"task", "thread"} == {stack["kind"] for stack in member["stacks"]}
    text = ariane("group", "running", "lc-billing", "--member", made.client_id, "--stacks")
    assert "Queues:" in text
    assert "Thread MainThread:" in text
    absent = ("group", "running", "lc-billing", "--member", "nobody")
    assert "no live member 'nobody'" in ariane(*absent, status=ExitStatus.NOT_FOUND)
    nobody = ariane("group", "running", "lc-nobody", status=ExitStatus.NOT_FOUND)
    assert "lc-nobody" in nobody

    [row] = json.loads(
        ariane("consume", "lc-orders", "--from", "earliest", *("--count", "1"), "-o", "json").join(
            "[]"
        )
    )
    again = ("message", "consume-again", row["message_id"], "--group", "lc-billing")
    member = ("--member", made.client_id)
    assert "Give --yes" in ariane(*again, *member, status=ExitStatus.USAGE)
    done = ariane_json(*again, *member, "--yes")
    assert (done["outcome"], done["duration_ms"] >= 0) == ("consumed", True)
    listener.failing = True
    assert main([*again, *member, "--yes", "-o", "json"]) == ExitStatus.FAILED
    out, err = capfd.readouterr()
    assert json.loads(out)["cause"] == "ValueError('no room')"
    assert "raised an error" in err
    gone = ariane(*again, "--member", "nobody", "--yes", status=ExitStatus.NOT_FOUND)
    assert "nobody" in gone
    assert listener.bodies == [b"one"] * 3
