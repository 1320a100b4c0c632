"""The stack of compose/ is closed: its own settings and secrets, in processes of this machine."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from stack import COMPOSE, filled

from ariane_sdk import ClusterClient, Message, Producer, ReceiveConsumer, Tls
from ariane_sdk.errors import ArianeError
from ariane_servicekit import Address
from ariane_servicekit.running.processes import ServiceProcess
from ariane_testkit.free_ports import free_port
from ariane_testkit.small_store import SMALL_STORE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MODULES = {
    "namesrv-1": "ariane_namesrv",
    "broker-a-0": "ariane_broker",
    "filter-a-0": "ariane_filter",
    "txn-checker-1": "ariane_txn_checker",
    "gateway": "ariane_gateway",
    "admin": "ariane_admin.service",
}
"""One of each kind, in the order of their starts."""

PATIENCE_S = 120
BEYOND_LOOPBACK = "0.0.0.0"  # noqa: S104 - as in the containers.


class Machine:
    """Where the services of the stack run as processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.secrets = folder / "secrets"
        """What ``make_secrets.py`` has made."""
        words = (sys.executable, str(COMPOSE / "make_secrets.py"), "--folder", str(self.secrets))
        subprocess.run(words, check=True, timeout=60)
        text = filled((COMPOSE / "compose.yaml").read_text(), {})
        self._services = yaml.safe_load(text)["services"]
        places = (*MODULES, "metrics", "console")
        self.addresses = {name: f"127.0.0.1:{free_port()}" for name in places}
        """Of services on this machine."""

    def process(self, name: str) -> ServiceProcess:
        """A service as the stack has it, but for its addresses and folders."""
        service = self._services[name]
        kind = service["build"]["target"].upper().replace("-", "_")
        flags = [
            f"--{variable.removeprefix(f'ARIANE_{kind}_').lower().replace('_', '-')}={value}"
            for variable, told in service["environment"].items()
            if variable.startswith(f"ARIANE_{kind}_")
            and (value := self._here(name, variable, str(told)))
        ]
        folder = self._folder / name
        folder.mkdir()
        if kind in {"NAMESRV", "FILTER"}:
            flags += ["--data-path", str(folder)]
        database = f"sqlite:///{folder}/database"
        if kind == "BROKER":
            flags += ["--store-path", str(folder / "store"), *SMALL_STORE]
            flags += ["--replica-set-url", database]
        if kind in {"ADMIN", "TXN_CHECKER"}:
            flags += ["--database-url", database]
        if kind == "ADMIN":
            flags += ["--console-listen", f"{BEYOND_LOOPBACK}:{self.port('console')}"]
        listen = Address(BEYOND_LOOPBACK, self.port(name))
        return ServiceProcess(name, MODULES[name], flags, folder / "log", listen)

    def port(self, name: str) -> int:
        """That of a service."""
        return Address.parse(self.addresses[name]).port

    def _here(self, name: str, variable: str, value: str) -> str:
        """What a setting is on this machine; empty if it is not needed."""
        if variable == "ARIANE_BROKER_METRICS_LISTEN":
            return f"{BEYOND_LOOPBACK}:{self.port('metrics')}"
        if variable.endswith(("_LISTEN", "_OTLP_ENDPOINT")) or value.startswith("/run/secrets/"):
            return ""
        for target in ("/run/ariane", "/run/user"):
            if value.startswith(target):
                [source] = [
                    each.split(":")[0] for each in self._services[name]["volumes"] if target in each
                ]
                source = source.replace("./secrets", str(self.secrets))
                return value.replace(target, source)
        value = value.replace("/var/lib/ariane", str(self._folder / name))
        if variable.endswith("_ADVERTISED_ADDRESS"):
            return self.addresses[name]
        if variable == "ARIANE_FILTER_BROKER":
            return self.addresses["broker-a-0"]
        hosts = {each.rpartition(":")[0] for each in value.split(",")}
        known = [self.addresses[host] for host in sorted(hosts & self.addresses.keys())]
        return ",".join(known) or value

    def tls(self, user: str) -> Tls:
        """What a user shows."""
        own = self.secrets / f"user-{user}"
        return Tls(ca=own / "members.pem", certificate=own / "certificate.pem", key=own / "key.pem")

    async def command(self, *words: str) -> Any:
        """What a command answers that the super user runs."""
        own = self.secrets / "user-root"
        environment = {
            "ARIANE_NAME_SERVERS": self.addresses["namesrv-1"],
            "ARIANE_ADMIN": self.addresses["admin"],
            "ARIANE_TLS_CA": str(own / "members.pem"),
            "ARIANE_TLS_CERTIFICATE": str(own / "certificate.pem"),
            "ARIANE_TLS_KEY": str(own / "key.pem"),
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ariane_admin", *words, "-o", "json"),
            env={**os.environ, **environment},
            stdout=asyncio.subprocess.PIPE,
        )
        written, _ = await process.communicate()
        assert process.returncode == 0, words
        return json.loads(written)


@pytest.fixture
async def machine(tmp_path):
    made = Machine(tmp_path)
    async with AsyncExitStack() as running:
        for name in MODULES:
            process = made.process(name)
            await process.start()
            running.push_async_callback(process.stop)
        yield made


async def test_the_stack_serves_who_proves_who_he_is_and_nobody_else(machine):
    name_server, root = machine.addresses["namesrv-1"], machine.tls("root")
    for name in MODULES:
        words = [str(COMPOSE / "health.py"), machine.addresses[name]]
        authority = {"ARIANE_HEALTH_AUTHORITY": str(machine.secrets / "admin" / "members.pem")}
        for asked in ("", "in-sync") if name == "broker-a-0" else ("",):
            health = await asyncio.create_subprocess_exec(
                *(sys.executable, *words, asked), env={**os.environ, **authority}
            )
            assert await health.wait() == 0, name
    strangers = (None, Tls(ca=root.ca), Tls(ca=machine.secrets / "admin" / "users.pem"))
    for stranger in strangers:
        async with ClusterClient(name_server, tls=stranger) as cluster:
            with pytest.raises(ArianeError):
                await cluster.list_brokers()

    async with asyncio.timeout(PATIENCE_S), ClusterClient(name_server, tls=root) as cluster:
        while not any(each.filter_servers for each in await cluster.list_brokers()):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    made = await machine.command("topic", "create", "orders", "--queues", "1")
    assert made
    await machine.command("user", "create", "archive")
    keys = machine.secrets / "plain_acl.yml"
    keys.write_text("accounts:\n- accessKey: archive\n  secretKey: 12345678\n")
    await machine.command("credential", "import-rocketmq", str(keys))
    await machine.command("access", "grant", "archive", "SUBSCRIBE", "topic", "orders")
    await machine.command("access", "grant", "archive", "SUBSCRIBE", "group", "cooks")
    async with Producer(name_server, tls=root) as producer:
        await producer.send(Message("orders", b"one espresso"))
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                async with ReceiveConsumer(
                    name_server,
                    group="cooks",
                    subscriptions={"orders": "*"},
                    tls=machine.tls("archive"),
                ) as consumer:
                    [received] = await consumer.receive_batch(1, timeout_s=PATIENCE_S)
                    await consumer.ack(received)
                    break
            except ArianeError:  # Until the broker knows what the user may.
                await asyncio.sleep(0.1)
    assert received.body == b"one espresso"
    link = (await machine.command("user", "login-link"))["link"]
    async with browser(machine) as stranger:
        assert link.startswith(f"{stranger.base_url}/sign-in#")
        assert (await stranger.get("/topics")).status_code == 303
        assert (await stranger.get("/topics", headers={"host": "x.test"})).status_code == 400
    metrics = f"https://{machine.addresses['metrics']}/metrics"
    async with browser(machine, "prometheus") as prometheus:
        assert "ariane_" in (await prometheus.get(metrics)).text
    async with browser(machine) as stranger:
        with pytest.raises(httpx.HTTPError):
            await stranger.get(metrics)


def browser(machine: Machine, user: str = "") -> httpx.AsyncClient:
    """A client of pages; one of a user shows his certificate."""
    own = machine.secrets / f"user-{user or 'root'}"
    context = ssl.create_default_context(cafile=own / "members.pem")
    if user:
        context.load_cert_chain(own / "certificate.pem", own / "key.pem")
    url = f"https://{machine.addresses['console']}"
    return httpx.AsyncClient(base_url=url, verify=context, timeout=60)
