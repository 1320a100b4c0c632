"""Topics and groups made and changed by each language's client of admin."""

from __future__ import annotations

import base64
import time
from typing import Any

import pytest
from languages import COMMANDS, Refused, Worker

from ariane_sdk.sync import ClusterClient

LANGUAGES = tuple(COMMANDS)
MORE_THAN_A_PAGE = 110
PATIENCE_S = 60.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module", autouse=True)
def many_topics(topics) -> None:
    for number in range(MORE_THAN_A_PAGE):
        topics.create_topic(f"one-of-many-{number:03}", queue_count=1)


class Asked:
    """Admin, asked by the program of one language."""

    def __init__(self, worker: Worker, address: str) -> None:
        self.worker = worker
        self.address = address

    def __call__(self, act: str, **words: Any) -> Any:
        return self.worker.ask("administer", address=self.address, act=act, **words)

    def refusal(self, act: str, **words: Any) -> str:
        with pytest.raises(Refused) as refused:
            self(act, **words)
        assert not refused.value.outcome_unknown
        return refused.value.reason


@pytest.fixture(params=LANGUAGES)
def admin(request, cluster, worker) -> Asked:
    return Asked(worker(request.param), cluster.admins[0].address)


def test_the_life_of_a_topic(admin, topics):
    topic = f"made-by-{admin.worker.language}"
    assert topic not in admin("topics")["topics"]
    assert admin.refusal("delete_topic", topic=topic) == "TOPIC_NOT_FOUND"
    assert admin.refusal("create_topic", topic="no name", queues=2) == "TOPIC_NAME_ILLEGAL"
    assert admin("create_topic", topic=topic, queues=2) == {}
    assert admin.refusal("create_topic", topic=topic, queues=2) == "TOPIC_EXISTS"
    assert queue_counts(topics, topic) == {2}
    assert admin("update_topic", topic=topic, queues=5) == {}
    assert queue_counts(topics, topic) == {5}
    listed = admin("topics")["topics"]
    assert topic in listed
    assert len([each for each in listed if each.startswith("one-of-many-")]) == MORE_THAN_A_PAGE
    assert admin("delete_topic", topic=topic) == {}
    assert topic not in admin("topics")["topics"]


def queue_counts(client: ClusterClient, topic: str) -> set[int]:
    """The counts of queues of a topic, over its brokers and both directions."""
    brokers = client.route(topic).brokers
    assert len(brokers) == 2
    return {count for each in brokers for count in (each.read_queue_count, each.write_queue_count)}


def test_the_life_of_a_group(admin):
    group = topic = f"behind-{admin.worker.language}"
    admin("create_topic", topic=topic, queues=1)
    assert group not in admin("groups")["groups"]
    assert admin.refusal("delete_group", group=group) == "GROUP_NOT_FOUND"
    assert admin("create_group", group=group) == {}
    assert admin.refusal("create_group", group=group) == "GROUP_EXISTS"
    assert group in admin("groups")["groups"]

    messages = [message(topic, text) for text in "abc"]
    admin.worker.ask("send", messages=messages)
    # The group consumes, and what fails is no dead letter at once.
    words = {"topic": topic, "group": group, "wait_ms": 60_000, "max": 1}
    [failed] = admin.worker.ask("receive", **words)
    admin.worker.ask("nack", numbers=[failed["number"]], delay_ms=0)
    consume(admin.worker, topic, len(messages))
    until(admin, topic, 0)
    assert admin("reset", group=group, topic=topic, to_ms=0) == {}
    until(admin, topic, len(messages))
    consume(admin.worker, topic, len(messages))
    assert admin.refusal("reset", group=group, topic="no-such-topic", to_ms=0) == "TOPIC_NOT_FOUND"


def test_a_group_is_deleted(admin):
    group = f"gone-{admin.worker.language}"
    admin("create_group", group=group)
    assert admin("delete_group", group=group) == {}
    assert group not in admin("groups")["groups"]


def until(admin: Asked, group: str, wanted: int) -> None:
    """Wait until a group is so far behind in the topic of its name."""
    end = time.monotonic() + PATIENCE_S
    while (lag := admin("lag", group=group, topic=group)["lag"]) != wanted:
        assert time.monotonic() < end, lag
        time.sleep(0.1)


def consume(worker: Worker, topic: str, count: int) -> None:
    end = time.monotonic() + PATIENCE_S
    while count > 0:
        assert time.monotonic() < end, count
        come = worker.ask("receive", topic=topic, group=topic, wait_ms=2000)
        if come:
            worker.ask("ack", numbers=[each["number"] for each in come])
        count -= len(come)
    assert count == 0


def message(topic: str, text: str) -> dict[str, Any]:
    return {
        **dict.fromkeys(("tag", "group", "id"), ""),
        "topic": topic,
        "keys": [],
        "properties": {},
        "body": base64.b64encode(text.encode()).decode(),
    }
