"""The stack of compose/ really runs: traffic from outside, a broker replaced, and nothing lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from flight_demo.flights import package_folder, read_flights
from stack import COMPOSE, NAME_SERVERS, Stack, missing

from ariane_sdk import Uploaded
from ariane_sdk.errors import ArianeError
from ariane_sdk.sync import ClusterClient, Message, Producer, PushConsumer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SERVICES = (
    *("namesrv-1", "namesrv-2", "postgres"),
    *("broker-a-0", "broker-a-1", "broker-b-0", "broker-b-1"),
    *("txn-checker-1", "txn-checker-2", "admin"),
)

FILTERS = ("filter-a-0", "filter-a-1", "filter-b-0", "filter-b-1")
EVENTS = 20_000
BROKERS = {"broker-a", "broker-b"}
PATIENCE_S = 180.0


def until(ask, what: str):
    end = time.monotonic() + PATIENCE_S
    while not (answer := ask()):
        assert time.monotonic() < end, what
        time.sleep(0.2)
    return answer


def live_brokers() -> set[str]:
    try:
        with ClusterClient(NAME_SERVERS) as cluster:
            return {each.broker_name for each in cluster.list_brokers()}
    except ArianeError:
        return set()


def brokers_with_filter_servers() -> set[str]:
    with ClusterClient(NAME_SERVERS) as cluster:
        return {each.broker_name for each in cluster.list_brokers() if each.filter_servers}


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    if lacks := missing():
        pytest.skip(f"this machine has not {lacks}")
    own = COMPOSE / "secrets" / "user-root"
    files = {"CA": "members", "CERTIFICATE": "certificate", "KEY": "key"}
    shown = {f"ARIANE_TLS_{name}": str(own / f"{file}.pem") for name, file in files.items()}
    with Stack() as stack, pytest.MonkeyPatch.context() as patched:
        # Clients show what the environment names.
        for name, path in shown.items():
            patched.setenv(name, path)
        begin = time.monotonic()
        stack.up(*SERVICES)
        until(lambda: live_brokers() == BROKERS, "brokers have registered")
        with ClusterClient(NAME_SERVERS) as cluster, Producer(NAME_SERVERS) as producer:
            cluster.create_topic("first", queue_count=1)
            producer.send(Message("first", b"here"))
        print(f"\nfrom nothing to the first message: {time.monotonic() - begin:.1f} s")
        for service in sorted({*SERVICES} - {"postgres"}):
            served_s, core_s = until(partial(stack.start_of, service), f"{service} serves")
            print(
                f"{service} served {served_s:.1f} s after its start; {core_s:.2f} s of a core since"
            )
        yield stack


def members(stack: Stack, broker: str) -> list[dict[str, Any]]:
    """The processes of a broker, as they say themselves."""
    words = ("ariane", "broker", "ha", "status", broker, "-o", "json")
    return json.loads(stack.run("exec", stack.container("admin"), *words, check=False) or "[]")


def in_sync(stack: Stack, broker: str) -> set[int]:
    return {each["id"] for each in members(stack, broker) if each["in_sync"]}


def primary(stack: Stack, broker: str) -> int:
    [found] = [each["id"] for each in members(stack, broker) if each["role"] == "primary"]
    return found


def consumed(topic: str, count: int, wanted: str | Uploaded = "*") -> list[bytes]:
    """The bodies of a topic, once there are so many different ones."""
    bodies: list[bytes] = []

    def listen(messages):
        bodies.extend(bytes(message.body) for message in messages)

    with PushConsumer(
        NAME_SERVERS,
        group=f"{topic}-readers",
        subscriptions={topic: wanted},
        listener=listen,
        start="earliest",
    ):
        until(lambda: len(set(bodies)) >= count, f"{count} messages have come")
    return bodies


def test_flights_go_through_from_outside(stack):
    rows = [
        {"carrier": each.carrier, "origin": each.origin, "number": each.number}
        for each in islice(read_flights(package_folder()), EVENTS)
    ]
    messages = [
        Message(
            "flights",
            json.dumps(row | {"place": place}).encode(),
            tag=row["carrier"],
            message_group=row["origin"],
        )
        for place, row in enumerate(rows)
    ]
    with ClusterClient(NAME_SERVERS) as cluster, Producer(NAME_SERVERS) as producer:
        cluster.create_topic("flights", queue_count=4)
        assert len(producer.send_batch(messages)) == EVENTS
    came = [json.loads(body) for body in set(consumed("flights", EVENTS))]
    assert Counter(row["carrier"] for row in came) == Counter(row["carrier"] for row in rows)


@pytest.fixture
def filters(stack, monkeypatch) -> Iterator[None]:
    monkeypatch.setenv("ARIANE_FILTER_UPLOADS", "any")
    try:
        stack.up_beside(*FILTERS)
        yield
    finally:
        # They live in the network of brokers that the next test takes away.
        for each in FILTERS:
            stack.run("rm", "-f", stack.container(each), check=False)


def test_an_uploaded_filter_runs_in_a_jail_in_a_container(stack, filters, tmp_path):
    module = tmp_path / "late.py"
    module.write_text("def matches(message):\n    return message.body.endswith(b'7')\n")
    ariane = str(Path(sys.executable).with_name("ariane"))
    command = (ariane, "filter", "upload", "late", str(module), "--name-servers", NAME_SERVERS[0])

    until(lambda: brokers_with_filter_servers() == BROKERS, "both brokers have FilterServers")
    # Foreign code is taken from who has proved that he may bring it.
    stranger = {name: each for name, each in os.environ.items() if not name.startswith("ARIANE_")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=stranger)
    assert done.returncode != 0
    done = subprocess.run((*command, "-o", "json"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    version = f"late@{json.loads(done.stdout)['version']}"
    with ClusterClient(NAME_SERVERS) as cluster, Producer(NAME_SERVERS) as producer:
        cluster.create_topic("filtered", queue_count=2)
        producer.send_batch([Message("filtered", b"%d" % number) for number in range(1000)])
    expected = {b"%d" % number for number in range(1000) if number % 10 == 7}
    assert set(consumed("filtered", len(expected), Uploaded(version))) == expected


def test_a_primary_is_killed_with_its_disk_and_replaced_and_nothing_is_lost(stack):
    acknowledged: set[bytes] = set()
    brokers: set[str] = set()
    stopping = threading.Event()

    def send():
        number = 0
        with Producer(NAME_SERVERS) as producer:
            while not stopping.is_set():
                body = f"{number}".encode()
                number += 1
                try:
                    result = producer.send(Message("ledger", body))
                except ArianeError:
                    continue  # Not acknowledged: it may be there or not.
                acknowledged.add(body)
                brokers.add(result.message_queue.broker_name)

    with ClusterClient(NAME_SERVERS) as cluster:
        cluster.create_topic("ledger", queue_count=2)
    sender = threading.Thread(target=send)
    sender.start()
    try:
        until(lambda: len(acknowledged) > 500 and brokers == BROKERS, "both brokers take messages")
        until(lambda: in_sync(stack, "broker-a") == {0, 1}, "the replica has all")
        lost = primary(stack, "broker-a")
        stack.lose(f"broker-a-{lost}")
        brokers.clear()
        until(lambda: brokers == BROKERS, "the replica has taken over")
        assert primary(stack, "broker-a") == 1 - lost
        # It comes back with nothing, and copies what the other has.
        stack.up(f"broker-a-{lost}")
        until(lambda: in_sync(stack, "broker-a") == {0, 1}, "the new container has all")
    finally:
        stopping.set()
        sender.join()
    stack.lose(f"broker-a-{1 - lost}")
    assert acknowledged <= set(consumed("ledger", len(acknowledged)))


def test_services_run_without_rights_and_cannot_write_beside_their_data(stack):
    for service in ("namesrv-1", "broker-b-0", "txn-checker-1", "admin"):
        container = stack.container(service)
        assert stack.run("exec", container, "id", "-u").strip() == "10001"
        script = "touch /opt/x 2>/dev/null || echo refused"
        assert stack.run("exec", container, "sh", "-c", script).strip() == "refused"
