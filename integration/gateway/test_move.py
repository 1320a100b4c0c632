"""The move: a broker in Java stops, ours takes its store over, and clients go on where they were.

The clients are the same programs with the same keys, and another endpoint: our gateway instead of
RocketMQ's proxy. RocketMQ checks the keys before the move, and our closed cluster behind it.
"""

from __future__ import annotations

import json
import os
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
    message,
    receive,
    text,
)

sys.path.append(str(Path(__file__).parents[1] / "interop"))

from rocketmq import proxy, rocketmq

from ariane_servicekit.running.processes import LocalCluster, ServiceProcess
from ariane_servicekit.security.caller import MemberKind
from ariane_storage import OsDisk, StateFile
from ariane_testkit.closed_clusters import APP_KEY
from ariane_testkit.programs.line_program import Refused

MISSING = [tool for tool in ("java", "mvn") if not shutil.which(tool)]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(MISSING), reason=f"missing: {', '.join(MISSING)}"),
    pytest.mark.never_closed("its cluster is closed to all but the users that RocketMQ had"),
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
OPERATOR = "root"
INNER_KEY = {"accessKey": "inner", "secretKey": "of-processes-only"}
"""What processes of RocketMQ sign with among themselves."""
ACL = f"""
accounts:
- accessKey: {APP_KEY["key"]}
  secretKey: {APP_KEY["secret"]}
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: SUB
"""
"""The users as ``plain_acl.yml`` has them, which we take over."""
CHECKING = {
    "authenticationEnabled": True,
    "authenticationProvider": (
        "org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider"
    ),
    "innerClientAuthenticationCredentials": json.dumps(INNER_KEY),
}
OF_BROKER = {
    **JAVA_SETTINGS,
    **CHECKING,
    "authenticationEnabled": "true",
    "initAuthenticationUser": json.dumps(
        {"username": APP_KEY["key"], "password": APP_KEY["secret"]}
    ),
    "authenticationMetadataProvider": (
        "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider"
    ),
}
OF_PROXY = {
    **CHECKING,
    "enableAclRpcHookForClusterMode": True,
    "authenticationMetadataProvider": (
        "org.apache.rocketmq.proxy.auth.ProxyAuthenticationMetadataProvider"
    ),
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
def client(endpoint: str, home: Path, **changes: str) -> Iterator[Actor]:
    """The client, started anew for an endpoint."""
    program = BESIDE_OURS.start(home)
    try:
        program.ask("connect", endpoints=endpoint, **{**APP_KEY, **changes})
        yield Actor("python", program)
    finally:
        program.end()


def check_refused(endpoint: str, home: Path) -> None:
    """Fail unless a client with another secret is refused."""
    with client(endpoint, home, secret="another") as stranger, pytest.raises(Refused):
        send(stranger, message("orders", "not from us"))


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


def ariane(cluster: LocalCluster, *words: str) -> None:
    """Run a command of ``docs/from-rocketmq.md`` or ``docs/gateway.md`` as the operator."""
    assert cluster.certificates is not None
    shown = cluster.certificates.user(OPERATOR)
    environment = {f"ARIANE_TLS_{name.upper()}": str(path) for name, path in shown.items()}
    environment["ARIANE_NAME_SERVERS"] = cluster.name_servers
    environment["ARIANE_ADMIN"] = cluster.admins[0].address
    command = Path(sys.executable).parent / "ariane"
    subprocess.run((command, *words), env={**os.environ, **environment}, check=True)


@contextmanager
def ours(folder: Path, acl: Path) -> Iterator[tuple[LocalCluster, str]]:
    """A closed cluster on the store, with the keys of a file; yields it and a gateway's address."""
    sealed = ("--secret-key-file", str(folder / "secret.key"))
    with LocalCluster(
        folder,
        checkers=1,
        admin=True,
        extra_admin_args=sealed,
        extra_broker_args=FLAGS,
        tls=True,
        super_users=(OPERATOR,),
    ) as cluster:
        ariane(cluster, "access", "import", str(acl))
        ariane(cluster, "credential", "import-rocketmq", str(acl))
        flags = (
            *("--name-servers", cluster.name_servers),
            *("--admins", cluster.admins[0].address),
            *cluster.shown(MemberKind.GATEWAY, "gateway-0"),
            # This client speaks plain text unless told otherwise.
            "--insecure",
        )
        log = folder / "logs" / "gateway-0.log"
        gateway = ServiceProcess("gateway-0", "ariane_gateway", flags, log)
        cluster.call_blocking(gateway.start)
        try:
            yield cluster, gateway.address
        finally:
            cluster.call_blocking(gateway.stop)


def wait_for_rights(actor: Actor) -> None:
    """Wait until the broker has heard from admin what users may do."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            actor.ask("receive", topic="orders", group="newcomers", max=1)
        except Refused:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)
        else:
            return


def test_clients_go_on_where_they_were_when_their_broker_is_ours(tmp_path: Path) -> None:
    try:
        BESIDE_OURS.made()
    except DriverFailed as failure:
        pytest.skip(f"the client cannot be had here: {failure}")
    store = tmp_path / "ours" / "broker-a"
    write_topics(store)
    home = tmp_path / "theirs"
    acl = tmp_path / "plain_acl.yml"
    acl.write_text(ACL)
    began = datetime.now(UTC)
    with (
        rocketmq(store, home, OF_BROKER) as name_server,
        proxy(name_server, home, OF_PROXY) as endpoint,
        client(endpoint, tmp_path / "before") as actor,
    ):
        orders = send(actor, *(message("orders", f"{n}", tag="t", keys=["k"]) for n in range(8)))
        check_refused(endpoint, tmp_path / "stranger-before")
        done = receive_there(actor, 3, topic="orders", group="billing", max=3)
        in_hand = receive_there(actor, 1, topic="orders", group="audit", max=3, ack=False)
        due_ms = time.time() * 1000 + DELAY_MS
        later = send(actor, message("later", "later", deliver_in_ms=DELAY_MS))
        actor.ask("transactions", topic="payments", answer="unknown")
        half = message("payments", "paid")
        begun = actor.ask("begin", topic="payments", messages=[half])
    settled = {each["id"] for each in done}
    with (
        ours(tmp_path / "ours", acl) as (cluster, gateway),
        client(gateway, tmp_path / "after") as actor,
    ):
        wait_for_rights(actor)
        check_refused(gateway, tmp_path / "stranger-after")
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
        to = ("--to", f"{began:%Y-%m-%dT%H:%M:%SZ}", "--yes")
        ariane(cluster, "group", "reset", "audit", "orders", *to)
        came = receive(actor, len(orders), topic="orders", group="audit")
        check_received(actor, came, orders)
        # Nobody had ended it: its producer is asked, and commits.
        actor.ask("transactions", topic="payments", answer="commit")
        (paid,) = receive(actor, 1, topic="payments", group="payees")
        assert (text(paid), paid["id"]) == ("paid", begun["id"])
        assert begun["id"] in {each["id"] for each in actor.ask("checked", topic="payments")}
        (late,) = receive(actor, 1, topic="later", group="late")
        assert (text(late), late["id"]) == ("later", later[0]["id"])
        assert late["at_ms"] > due_ms - 1000
