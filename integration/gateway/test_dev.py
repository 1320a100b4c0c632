"""``ariane dev --gateway``: RocketMQ's Python client, as published, on a cluster for developers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from official import BESIDE_OURS, DriverFailed
from stage import Actor, as_received, check_received, message, receive

BIN = Path(sys.executable).parent


@pytest.mark.slow
def test_a_published_client_sends_and_receives_through_the_gateway_of_ariane_dev(tmp_path):
    try:
        BESIDE_OURS.made()
    except DriverFailed as failure:
        pytest.skip(f"the client cannot be had here: {failure}")
    with subprocess.Popen(
        [BIN / "ariane", "dev", "--gateway", "--name-server-port", "0", "-o", "json"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as dev:
        try:
            ready = json.loads(dev.stdout.readline())
            [endpoint] = [
                each["address"] for each in ready["services"] if "gateway" in each["name"]
            ]
            servers = ("--name-servers", ready["name_servers"])
            subprocess.run([BIN / "ariane", "topic", "create", "orders", *servers], check=True)
            program = BESIDE_OURS.start(tmp_path / "home")
            try:
                actor = Actor("python", program)
                actor.ask("connect", endpoints=endpoint)
                said = [message("orders", f"{n}", tag="t", keys=["k"]) for n in range(3)]
                receipts = actor.ask("send", topic="orders", messages=said)
                sent = [as_received(each, r["id"]) for each, r in zip(said, receipts, strict=True)]
                check_received(actor, receive(actor, 3, topic="orders", group="billing"), sent)
            finally:
                program.end()
        finally:
            dev.send_signal(signal.SIGTERM)
        assert dev.wait(60) == 0
