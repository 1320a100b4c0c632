"""Spans of OpenTelemetry: the same names in every language, and one trace from each to each."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from languages import COMMANDS, Refused, Worker, build, missing

LANGUAGES = tuple(COMMANDS)
PATIENCE_S = 60.0
REPLIES = "DefaultCluster_REPLY_TOPIC"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def tracer(cluster, topics) -> Iterator[Callable[[str], Worker]]:
    """The program of a language, which records spans and answers requests."""
    running: dict[str, Worker] = {}

    def tracer(language: str) -> Worker:
        if lacks := missing(language):
            pytest.skip(f"{lacks} is not on this machine")
        if language not in running:
            build(language)
            running[language] = made = Worker(language).__enter__()
            assert made.ask("spans") == {"spans": []}
            made.ask("connect", name_servers=cluster.name_servers.split(","))
            topic = f"traced-by-{language}"
            topics.create_topic(topic, queue_count=2)
            made.ask("answer", topic=topic, group=topic)
        return running[language]

    yield tracer
    for each in running.values():
        each.ask("stop")
        each.__exit__()


def message(topic: str, body: str, properties: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        **dict.fromkeys(("tag", "group", "id"), ""),
        "topic": topic,
        "keys": [],
        "properties": properties or {},
        "body": base64.b64encode(body.encode()).decode(),
    }


def first_span(
    worker: Worker, name: str, meant: Callable[[dict[str, Any]], bool] = lambda _: True
) -> dict[str, Any]:
    """The first span of a name that is meant, once it is there: it may end a bit later."""
    end = time.monotonic() + PATIENCE_S
    while True:
        said = worker.ask("spans")["spans"]
        if found := [each for each in said if each["name"] == name and meant(each)]:
            return found[0]
        assert time.monotonic() < end, (name, said)
        time.sleep(0.05)


def of_message(number: str) -> Callable[[dict[str, Any]], bool]:
    return lambda span: span["attributes"].get("messaging.message.id") == number


@pytest.mark.parametrize("answers", LANGUAGES)
@pytest.mark.parametrize("asks", LANGUAGES)
def test_a_request_its_listener_and_its_reply_are_one_trace(asks, answers, tracer):
    asking, answering = tracer(asks), tracer(answers)
    topic, body = f"traced-by-{answers}", f"{asks} asks {answers}"
    before = {each["span"] for each in asking.ask("spans")["spans"]}
    asking.ask("request", messages=[message(topic, body)], timeout_ms=60_000)

    sent = first_span(asking, f"send {topic}", lambda span: span["span"] not in before)
    assert (sent["kind"], sent["parent"], sent["links"]) == ("PRODUCER", "", [])
    said = sent["attributes"]
    number = said["messaging.message.id"]
    assert re.fullmatch(r"broker-[ab]#[01]", said["messaging.destination.partition.id"])
    assert said["messaging.client.id"].count("@") == 2
    assert len(said["messaging.message.conversation_id"]) > 15
    assert said["server.address"] == "127.0.0.1"
    assert said["server.port"] > 0
    assert operation(said) == ("arianemq", "send", "send", topic)
    assert said["messaging.message.body.size"] == len(body)

    processed = first_span(answering, f"process {topic}", of_message(number))
    assert processed["kind"] == "CONSUMER"
    assert (processed["trace"], processed["parent"]) == (sent["trace"], sent["span"])
    assert processed["links"] == [sent["trace"]]
    heard = processed["attributes"]
    assert operation(heard) == ("arianemq", "process", "process", topic)
    for name in ("destination.partition.id", "message.body.size"):
        assert heard[f"messaging.{name}"] == said[f"messaging.{name}"]
    assert heard["messaging.consumer.group.name"] == topic
    assert heard["messaging.client.id"].count("@") == 2
    assert "error.type" not in heard

    replied = first_span(answering, f"send {REPLIES}", lambda span: span["trace"] == sent["trace"])
    assert (replied["kind"], replied["parent"]) == ("PRODUCER", processed["span"])


def operation(attributes: dict[str, Any]) -> tuple[str, ...]:
    names = ("system", "operation.name", "operation.type", "destination.name")
    return tuple(attributes[f"messaging.{name}"] for name in names)


@pytest.fixture
def place(request, topics) -> str:
    """A topic of the test's own, which is also the name of its group."""
    topic = "t-" + re.sub(r"[^A-Za-z0-9]", "-", request.node.name)[-90:]
    topics.create_topic(topic, queue_count=1)
    return topic


def received(worker: Worker, topic: str, count: int) -> list[dict[str, Any]]:
    come: list[dict[str, Any]] = []
    end = time.monotonic() + PATIENCE_S
    while len(come) < count:
        assert time.monotonic() < end
        come += worker.ask("receive", topic=topic, group=topic, wait_ms=2000)
    worker.ask("ack", numbers=[each["number"] for each in come])
    return come


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_batch_is_one_span_which_its_messages_carry(language, tracer, place):
    worker = tracer(language)
    worker.ask("send", messages=[message(place, body) for body in "abc"])
    sent = first_span(worker, f"send {place}")
    assert sent["kind"] == "PRODUCER"
    assert operation(sent["attributes"]) == ("arianemq", "send", "send", place)
    assert sent["attributes"]["messaging.batch.message_count"] == 3
    assert "messaging.message.id" not in sent["attributes"]
    come = received(worker, place, 3)
    carried = {each["properties"]["traceparent"].rpartition("-")[0] for each in come}
    assert carried == {f"00-{sent['trace']}-{sent['span']}"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_message_keeps_the_context_that_it_has(language, tracer, place):
    worker = tracer(language)
    own = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01", "tracestate": "vendor=1"}
    worker.ask("send", messages=[message(place, "passed on", own)])
    sent = first_span(worker, f"send {place}")
    assert sent["links"] == ["ab" * 16]
    assert sent["trace"] != "ab" * 16
    [come] = received(worker, place, 1)
    assert come["properties"] == own


@pytest.mark.parametrize("language", LANGUAGES)
def test_failures_are_told_by_their_reasons(language, tracer):
    worker = tracer(language)
    topic = f"nowhere-for-{language}"
    with pytest.raises(Refused):
        worker.ask("send", messages=[message(topic, "lost")])
    sent = first_span(worker, f"send {topic}")
    assert sent["attributes"]["error.type"] == "ROUTE_NOT_FOUND"

    topic = f"traced-by-{language}"
    [receipt] = worker.ask("send", messages=[message(topic, "no request")])
    processed = first_span(worker, f"process {topic}", of_message(receipt["id"]))
    assert processed["attributes"]["error.type"] == "NO_REQUEST"
