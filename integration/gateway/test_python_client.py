"""The official Python client, as published, on a cluster of ours: sends, receives, listens."""

from __future__ import annotations

import pytest
from official import BESIDE_OURS, DriverFailed
from stage import (
    Actor,
    as_received,
    check_received,
    gateway_process,
    hear,
    message,
    receive,
    signing,
)

from ariane_sdk.sync import ClusterClient
from ariane_servicekit.running.processes import LocalCluster


def test_the_published_client_sends_receives_and_listens(tmp_path):
    try:
        BESIDE_OURS.made()
    except DriverFailed as failure:
        pytest.skip(f"the client cannot be had here: {failure}")
    with LocalCluster(tmp_path) as cluster:
        with ClusterClient(cluster.name_servers.split(",")) as client:
            client.create_topic("orders", queue_count=2)
        gateway = gateway_process(cluster)
        cluster.call_blocking(gateway.start)
        program = BESIDE_OURS.start(tmp_path / "home")
        try:
            actor = Actor("python", program)
            actor.ask("connect", endpoints=gateway.address, **signing())
            said = [message("orders", f"{n}", tag="t", keys=["k"]) for n in range(3)]
            receipts = actor.ask("send", topic="orders", messages=said)
            sent = [as_received(each, r["id"]) for each, r in zip(said, receipts, strict=True)]
            check_received(actor, receive(actor, 3, topic="orders", group="billing"), sent)
            actor.ask("listen", topic="orders", group="audit")
            check_received(actor, hear(actor, "audit", lambda heard: len(heard) >= 3), sent)
        finally:
            program.end()
            cluster.call_blocking(gateway.stop)
