"""A damaged record in the middle of a queue: each client tells of the message that it misses."""

from __future__ import annotations

import base64
import time

import pytest
from languages import COMMANDS, Worker, build, missing

from ariane_sdk import Message
from ariane_sdk.sync import ClusterClient, Producer
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.small_store import SMALL_STORE

TOPIC = "orders"
COUNT = 20
DAMAGED = 7
MARK = b"the one whose record is damaged"
PATIENCE_S = 60.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_each_client_counts_what_is_lost(tmp_path, capfd):
    here = [each for each in COMMANDS if not missing(each)]
    for language in here:
        build(language)
    with LocalCluster(tmp_path, flush_mode="sync", extra_broker_args=SMALL_STORE) as cluster:
        name_servers = cluster.name_servers.split(",")
        with ClusterClient(name_servers) as client:
            client.create_topic(TOPIC, queue_count=1)
        with Producer(name_servers) as producer:
            bodies = [MARK if number == DAMAGED else b"%d" % number for number in range(COUNT)]
            producer.send_batch([Message(TOPIC, body) for body in bodies])
        (broker,) = cluster.brokers
        cluster.call_blocking(broker.stop)
        (segment,) = [
            path
            for path in (tmp_path / "broker-a").rglob("*")
            if path.is_file() and "commitlog" in path.parts and MARK in path.read_bytes()
        ]
        octets = bytearray(segment.read_bytes())
        octets[octets.index(MARK)] ^= 1
        segment.write_bytes(octets)
        cluster.call_blocking(broker.start)
        for language in here:
            capfd.readouterr()
            with Worker(language) as worker:
                worker.ask("connect", name_servers=name_servers)
                assert received(worker, language) == [n for n in range(COUNT) if n != DAMAGED]
                assert worker.ask("lost", topic=TOPIC, group=language) == 1, language
            _, said = capfd.readouterr()
            assert "lost, damaged in the broker, and passed over" in said, (language, said)


def received(worker: Worker, group: str) -> list[int]:
    """All messages but the damaged one, acknowledged."""
    found: list[int] = []
    end = time.monotonic() + PATIENCE_S
    while len(found) < COUNT - 1:
        assert time.monotonic() < end, f"{group} has {found}"
        batch = worker.ask("receive", topic=TOPIC, group=group, wait_ms=2000)
        found += [int(base64.b64decode(each["body"])) for each in batch]
        if batch:
            worker.ask("ack", numbers=[each["number"] for each in batch])
    return found
