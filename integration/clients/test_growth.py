"""A topic grows onto a second broker while groups are away: each client receives all of it."""

from __future__ import annotations

import base64
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from languages import COMMANDS, Worker, build, missing

from ariane_sdk import Message
from ariane_sdk.sync import ClusterClient, Producer
from ariane_servicekit.running.processes import LocalCluster

TOPIC = "orders"
OLD = 20
PATIENCE_S = 60.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_topic_that_grows_while_its_groups_are_away_loses_nothing(tmp_path):
    """The groups begin with what comes from now on, as the READMEs of the clients say."""
    here = [each for each in COMMANDS if each != "python" and not missing(each)]
    if not here:
        pytest.skip("no other language is on this machine")
    for language in here:
        build(language)
    with (
        LocalCluster(tmp_path, brokers=2) as cluster,
        ClusterClient(cluster.name_servers) as client,
        ThreadPoolExecutor() as pool,
    ):
        create(cluster, "broker-a")
        with Producer(cluster.name_servers) as producer:
            producer.send_batch([Message(TOPIC, b"old") for _ in range(OLD)])
        with ExitStack() as lives:
            workers = [lives.enter_context(Worker(each)) for each in here]
            for language, worker in zip(here, workers, strict=True):
                worker.ask("connect", name_servers=cluster.name_servers.split(","))
                assert worker.ask("receive", topic=TOPIC, group=language, max=1, wait_ms=10_000)
                client.reset_offsets(language, TOPIC, "latest")
        create(cluster, "broker-b")
        await_brokers(client, 2)
        bodies = [b"%d" % number for number in range(OLD)]
        with Producer(cluster.name_servers) as producer:
            sent = [
                producer.send(Message(TOPIC, each, message_group=each.decode())) for each in bodies
            ]
        assert len({result.message_queue.broker_name for result in sent}) == 2
        with ExitStack() as lives:
            workers = [lives.enter_context(Worker(each)) for each in here]
            for worker in workers:
                worker.ask("connect", name_servers=cluster.name_servers.split(","))
            found = dict(zip(here, pool.map(received, workers), strict=True))
    assert found == {language: set(bodies) for language in here}


def create(cluster: LocalCluster, broker: str) -> None:
    """Create the topic on one broker."""
    words = ["topic", "create", TOPIC, "--broker", broker, "--queues", "2"]
    address = ["--name-servers", cluster.name_servers]
    subprocess.run([sys.executable, "-m", "ariane_admin", *words, *address], check=True)


def await_brokers(client: ClusterClient, count: int) -> None:
    end = time.monotonic() + PATIENCE_S
    while len({queue.broker_name for queue in client.route(TOPIC).read_queues}) < count:
        assert time.monotonic() < end
        time.sleep(0.05)


def received(worker: Worker) -> set[bytes]:
    """As many messages as were sent since; another one would take the place of one of them."""
    found: list[bytes] = []
    end = time.monotonic() + PATIENCE_S
    while len(found) < OLD and time.monotonic() < end:
        batch = worker.ask("receive", topic=TOPIC, group=worker.language, wait_ms=2000)
        found += [base64.b64decode(each["body"]) for each in batch]
        if batch:
            worker.ask("ack", numbers=[each["number"] for each in batch])
    return set(found)
