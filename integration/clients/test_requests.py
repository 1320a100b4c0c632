"""Requests and replies: each language asks, each other answers."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from languages import COMMANDS, Refused, Worker, build, missing

from ariane_sdk.sync import ClusterClient
from ariane_servicekit.running.processes import LocalCluster

LANGUAGES = tuple(COMMANDS)
AT_ONCE = 8

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def message(topic: str, body: bytes) -> dict[str, Any]:
    return {
        **dict.fromkeys(("tag", "group", "id"), ""),
        "topic": topic,
        "keys": ["k-1"],
        "properties": {"customer": "Zoë"},
        "body": base64.b64encode(body).decode(),
    }


def ask(worker: Worker, topic: str, body: bytes, timeout_ms: int = 60_000) -> bytes:
    """The body of the reply."""
    said = worker.ask("request", messages=[message(topic, body)], timeout_ms=timeout_ms)
    return base64.b64decode(said["body"])


@pytest.fixture(scope="module")
def answering(worker, topics) -> Iterator[Callable[[str], str]]:
    """The topic on which a language answers, once it is wanted."""
    running: dict[str, str] = {}

    def answering(language: str) -> str:
        if language not in running:
            topic = f"questions-to-{language}"
            topics.create_topic(topic, queue_count=2)
            worker(language).ask("answer", topic=topic, group=topic)
            running[language] = topic
        return running[language]

    yield answering
    for language in running:
        worker(language).ask("stop")


@pytest.mark.parametrize("answers", LANGUAGES)
@pytest.mark.parametrize("asks", LANGUAGES)
def test_each_asks_and_each_other_answers(asks, answers, worker, answering):
    asking, topic = worker(asks), answering(answers)
    bodies = [f"{asks} asks {answers}: {number}, 雪".encode() for number in range(AT_ONCE)]
    bodies += [b"", b"0123456789abcdef" * 10_000]
    with ThreadPoolExecutor(len(bodies)) as pool:
        replies = list(pool.map(lambda body: ask(asking, topic, body), bodies))
    assert replies == [body[::-1] for body in bodies]


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_reply_is_an_error_that_says_that_somebody_may_have_acted(language, worker, topics):
    topic = f"unanswered-{language}"
    topics.create_topic(topic, queue_count=1)
    asking = worker(language)
    with pytest.raises(Refused) as refused:
        ask(asking, topic, b"anybody?", timeout_ms=3000)
    assert (refused.value.reason, refused.value.outcome_unknown) == ("REQUEST_TIMEOUT", True)
    [request] = asking.ask("receive", topic=topic, group=topic, wait_ms=60_000)
    assert base64.b64decode(request["body"]) == b"anybody?"
    # Whoever waits for a reply is no property of the application.
    assert request["properties"] == {"customer": "Zoë"}
    asking.ask("ack", numbers=[request["number"]])


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_request_that_nobody_takes_is_refused_as_a_send_is(language, worker):
    with pytest.raises(Refused) as refused:
        ask(worker(language), "no-such-topic", b"anybody?", timeout_ms=60_000)
    assert (refused.value.reason, refused.value.outcome_unknown) == ("ROUTE_NOT_FOUND", False)


def test_requests_are_answered_again_when_the_broker_is_back(tmp_path):
    here = [each for each in LANGUAGES if not missing(each)]
    for language in here:
        build(language)
    with ExitStack() as lives:
        cluster = lives.enter_context(LocalCluster(tmp_path))
        with ClusterClient(cluster.name_servers) as client:
            for language in here:
                client.create_topic(f"questions-to-{language}", queue_count=1)
        workers = [lives.enter_context(Worker(each)) for each in here]
        pool = lives.enter_context(ThreadPoolExecutor())

        def begin(worker: Worker) -> None:
            topic = f"questions-to-{worker.language}"
            worker.ask("connect", name_servers=cluster.name_servers.split(","))
            worker.ask("answer", topic=topic, group=topic)
            assert ask(worker, topic, b"before") == b"erofeb"

        def go_on(worker: Worker) -> None:
            assert ask(worker, f"questions-to-{worker.language}", b"after") == b"retfa"
            worker.ask("stop")

        list(pool.map(begin, workers))
        [broker] = cluster.brokers
        broker.kill()
        cluster.call_blocking(broker.restart)
        list(pool.map(go_on, workers))
