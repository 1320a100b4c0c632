"""A broker that says nothing more: what becomes of a send has the same words in every language."""

from __future__ import annotations

import base64
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from languages import COMMANDS, Refused, Worker, build, missing

from ariane_sdk.sync import ClusterClient
from ariane_servicekit.running.processes import LocalCluster

TOPIC = "orders"
CALL_MS = 3000

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def message(body: str) -> dict[str, Any]:
    return {
        **dict.fromkeys(("tag", "group", "id"), ""),
        "topic": TOPIC,
        "keys": [],
        "properties": {},
        "body": base64.b64encode(body.encode()).decode(),
    }


def warm(worker: Worker) -> None:
    """Send until one is acknowledged: the first may take long on a machine that has much to do."""
    while True:
        try:
            worker.ask("send", messages=[message("first")])
        except Refused:
            continue
        return


def refusal(worker: Worker) -> tuple[str, bool]:
    """The reason of a send that is not acknowledged, and whether it may be stored."""
    with pytest.raises(Refused) as refused:
        worker.ask("send", messages=[message("late")])
    return refused.value.reason, refused.value.outcome_unknown


def test_a_late_send_has_the_same_words_in_every_language(tmp_path):
    here = [each for each in COMMANDS if not missing(each)]
    for language in here:
        build(language)
    with ExitStack() as lives:
        cluster = lives.enter_context(LocalCluster(tmp_path))
        with ClusterClient(cluster.name_servers) as client:
            client.create_topic(TOPIC, queue_count=1)
        pool = lives.enter_context(ThreadPoolExecutor())
        workers = [lives.enter_context(Worker(each, call_ms=CALL_MS)) for each in here]
        for worker in workers:
            worker.ask("connect", name_servers=cluster.name_servers.split(","))
        list(pool.map(warm, workers))
        [broker] = cluster.brokers
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            found = dict(zip(here, pool.map(refusal, workers), strict=True))
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        assert found == dict.fromkeys(here, ("DEADLINE_PASSED", True))
        list(pool.map(warm, workers))
