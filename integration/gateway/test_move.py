"""The move: a broker in Java stops, ours takes its store over, and clients go on where they were.

The clients are the same programs, with another endpoint: our gateway instead of RocketMQ's proxy.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from official import BESIDE_OURS, DriverFailed
from stage import (
    PATIENCE_S,
    Actor,
    as_received,
    check_received,
    gateway_process,
    message,
    receive,
    signing,
    text,
)

sys.path.append(str(Path(__file__).parents[1] / "interop"))

from rocketmq import proxy, rocketmq

from ariane_servicekit.running.processes import LocalCluster
from ariane_storage import OsDisk, StateFile
from ariane_testkit.line_program import Refused

MISSING = [tool for tool in ("java", "mvn") if not shutil.which(tool)]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(MISSING), reason=f"missing: {', '.join(MISSING)}"),
]

TYPES = {"orders": "NORMAL", "later": "DELAY", "payments": "TRANSACTION"}
DELAY_MS = 60_000
SEGMENT_BYTES = 1 << 20
FLAGS = (
    *("--segment-bytes", str(SEGMENT_BYTES), "--message-bytes-max", str(1 << 16)),
    *("--consume-queue-entries", "1000", "--index-slots", "1000", "--index-items", "40000"),
    *("--disk-clean-ratio", "0.97", "--disk-force-ratio", "0.98", "--disk-refuse-ratio", "0.99"),
)
JAVA_SETTINGS = {
    "mappedFileSizeCommitLog": SEGMENT_BYTES,
    "mappedFileSizeConsumeQueue": 1000 * 20,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 40_000,
}


def write_topics(store: Path) -> None:
    """Topics as an administrator of RocketMQ has made them."""
    table: dict[str, Any] = {
        topic: {
            "attributes": {"message.type": kind},
            "order": False,
            "perm": 6,
            "readQueueNums": 2,
            "topicFilterType": "SINGLE_TAG",
            "topicName": topic,
            "topicSysFlag": 0,
            "writeQueueNums": 2,
        }
        for topic, kind in TYPES.items()
    }
    version = {"counter": 1, "stateVersion": 0, "timestamp": 1}
    file = StateFile(store / "config" / "topics.json", OsDisk())
    file.save({"dataVersion": version, "topicConfigTable": table})


@contextmanager
def client(endpoint: str, home: Path) -> Iterator[Actor]:
    """The client, started anew for an endpoint."""
    program = BESIDE_OURS.start(home)
    try:
        program.ask("connect", endpoints=endpoint, **signing())
        yield Actor("python", program)
    finally:
        program.end()


def send(actor: Actor, *said: dict[str, Any]) -> list[dict[str, Any]]:
    receipts = actor.ask("send", topic=said[0]["topic"], messages=list(said))
    return [as_received(each, r["id"]) for each, r in zip(said, receipts, strict=True)]


def receive_there(actor: Actor, count: int, **words: Any) -> list[dict[str, Any]]:
    """Receive from RocketMQ's proxy, which fails before it has heard a client's settings."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return receive(actor, count, **words)
        except Refused as refused:
            if "settings" not in str(refused) or time.monotonic() > end:
                raise
            time.sleep(0.5)


def reset_to(begin: datetime, group: str, cluster: LocalCluster) -> None:
    """Have a group receive again from before a time, as ``docs/from-rocketmq.md`` says."""
    command = Path(sys.executable).parent / "ariane"
    words = ("group", "reset", group, "orders", "--to", f"{begin:%Y-%m-%dT%H:%M:%SZ}", "--yes")
    subprocess.run((command, *words, "--name-servers", cluster.name_servers), check=True)


def test_clients_go_on_where_they_were_when_their_broker_is_ours(tmp_path: Path) -> None:
    try:
        BESIDE_OURS.made()
    except DriverFailed as failure:
        pytest.skip(f"the client cannot be had here: {failure}")
    store = tmp_path / "ours" / "broker-a"
    write_topics(store)
    home = tmp_path / "theirs"
    began = datetime.now(UTC)
    with (
        rocketmq(store, home, JAVA_SETTINGS) as name_server,
        proxy(name_server, home) as endpoint,
        client(endpoint, tmp_path / "before") as actor,
    ):
        orders = send(actor, *(message("orders", f"{n}", tag="t", keys=["k"]) for n in range(8)))
        done = receive_there(actor, 3, topic="orders", group="billing", max=3)
        in_hand = receive_there(actor, 1, topic="orders", group="audit", max=3, ack=False)
        due_ms = time.time() * 1000 + DELAY_MS
        later = send(actor, message("later", "later", deliver_in_ms=DELAY_MS))
        actor.ask("transactions", topic="payments", answer="unknown")
        half = message("payments", "paid")
        begun = actor.ask("begin", topic="payments", messages=[half])
    settled = {each["id"] for each in done}
    with LocalCluster(tmp_path / "ours", checkers=1, extra_broker_args=FLAGS) as cluster:
        gateway = gateway_process(cluster)
        cluster.call_blocking(gateway.start)
        try:
            with client(gateway.address, tmp_path / "after") as actor:
                left = [each for each in orders if each["id"] not in settled]
                came = receive(actor, len(left), topic="orders", group="billing")
                check_received(actor, came, left)
                assert actor.ask("receive", topic="orders", group="billing") == []
                # What a group had in hand comes once it is told to receive from before it.
                kept = {each["id"] for each in in_hand}
                untouched = [each for each in orders if each["id"] not in kept]
                came = receive(actor, len(untouched), topic="orders", group="audit")
                check_received(actor, came, untouched)
                assert actor.ask("receive", topic="orders", group="audit") == []
                reset_to(began, "audit", cluster)
                came = receive(actor, len(orders), topic="orders", group="audit")
                check_received(actor, came, orders)
                # Nobody had ended it: its producer is asked, and commits.
                actor.ask("transactions", topic="payments", answer="commit")
                (paid,) = receive(actor, 1, topic="payments", group="payees")
                assert (text(paid), paid["id"]) == ("paid", begun["id"])
                assert begun["id"] in {
                    each["id"] for each in actor.ask("checked", topic="payments")
                }
                (late,) = receive(actor, 1, topic="later", group="late")
                assert (text(late), late["id"]) == ("later", later[0]["id"])
                assert late["at_ms"] > due_ms - 1000
        finally:
            cluster.call_blocking(gateway.stop)
