"""Listeners: some messages at a time, each kept for as long as it is worked on."""

from __future__ import annotations

import base64
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from languages import COMMANDS, Worker, build, missing

from ariane_sdk.sync import ClusterClient
from ariane_servicekit.running.processes import LocalCluster

WORK_MS = 4000
INVISIBLE_MS = 2000
BODIES = ["fail", *"abcde"]
CONCURRENCY = 3
PATIENCE_S = 90.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def heard(worker: Worker, count: int) -> dict[str, Any]:
    """What was heard, when that is so many messages."""
    end = time.monotonic() + PATIENCE_S
    while len((said := worker.ask("heard"))["messages"]) < count:
        assert time.monotonic() < end, said
        time.sleep(0.1)
    return said


def play(worker: Worker, name_servers: str) -> None:
    topic = group = f"for-{worker.language}"
    worker.ask("connect", name_servers=name_servers.split(","))
    common = {**dict.fromkeys(("tag", "group", "id"), ""), "keys": [], "properties": {}}
    for each in BODIES:
        body = base64.b64encode(each.encode()).decode()
        worker.ask("send", messages=[{**common, "topic": topic, "body": body}])
    words = {"group": group, "topic": topic, "invisible_ms": INVISIBLE_MS}
    worker.ask("listen", in_flight=CONCURRENCY, wait_ms=WORK_MS, **words)
    said = heard(worker, len(BODIES) + 1)
    worker.ask("stop")
    found = sorted(
        (base64.b64decode(each["body"]).decode(), each["attempt"]) for each in said["messages"]
    )
    assert found == sorted([*((each, 1) for each in BODIES), ("fail", 2)])
    assert said["most"] == CONCURRENCY
    # All that was begun is settled.
    assert worker.ask("receive", wait_ms=INVISIBLE_MS + 500, **words) == []


def test_a_listener_keeps_its_messages_and_hears_again_of_what_failed(tmp_path):
    here = [each for each in COMMANDS if each != "python" and not missing(each)]
    if not here:
        pytest.skip("no other language is on this machine")
    for language in here:
        build(language)
    with ExitStack() as lives:
        cluster = lives.enter_context(LocalCluster(tmp_path))
        with ClusterClient(cluster.name_servers) as client:
            for language in here:
                client.create_topic(f"for-{language}", queue_count=2)
        workers = [lives.enter_context(Worker(each)) for each in here]
        pool = lives.enter_context(ThreadPoolExecutor())
        for played in [pool.submit(play, each, cluster.name_servers) for each in workers]:
            played.result()
