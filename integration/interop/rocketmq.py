"""Apache RocketMQ as a process beside the tests: fetched by its coordinates, started on loopback.

Nothing of it is kept in this repository. Maven resolves it once into ``.cache/rocketmq``.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ariane_testkit.free_ports import free_port
from ariane_testkit.programs import maven

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache" / "rocketmq"
JAVA_FLAGS = [
    "-Xms512m",
    "-Xmx1g",
    "-XX:MaxDirectMemorySize=512m",
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in ("java.nio", "sun.nio.ch", "java.lang")
    ),
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
]


def class_path() -> str:
    """Fetch RocketMQ's jars; returns a Java class path. Skips where they cannot be had."""
    try:
        return maven.class_path(HERE / "java" / "pom.xml", CACHE)
    except maven.MavenUnavailable as missing:
        pytest.skip(str(missing))


@contextmanager
def java_process(
    main: str, arguments: Sequence[str], home: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Java main class until the context ends; its output goes to a file in ``home``."""
    (home / "conf").mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "ROCKETMQ_HOME": str(home), "HOME": str(home)}
    log = home / f"{main.rsplit('.', 1)[-1]}.log"
    command = ["java", *JAVA_FLAGS, f"-Duser.home={home}", "-cp", class_path(), main, *arguments]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, cwd=home
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for_port(port: int, process: subprocess.Popen[bytes], *, seconds: float = 180) -> None:
    """Wait until somebody listens on a loopback port."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"process ended with status {process.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"nobody listens on port {port}")


@contextmanager
def rocketmq(store: Path, home: Path, settings: dict[str, Any]) -> Iterator[str]:
    """Run a name server and a broker of Apache RocketMQ on a store; yields the former's address."""
    home.mkdir(parents=True, exist_ok=True)
    name_port, broker_port = free_port(), free_port(4) + 2
    (home / "namesrv.conf").write_text(f"listenPort={name_port}\n")
    broker_settings = {
        "brokerClusterName": "DefaultCluster",
        "brokerName": "broker-java",
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "listenPort": broker_port,
        "haListenPort": broker_port + 1,
        "namesrvAddr": f"127.0.0.1:{name_port}",
        "storePathRootDir": store,
        "storePathCommitLog": store / "commitlog",
        "autoCreateTopicEnable": "true",
        "diskMaxUsedSpaceRatio": 99,
        **settings,
    }
    lines = [f"{name}={value}" for name, value in broker_settings.items()]
    (home / "broker.conf").write_text("\n".join(lines) + "\n")
    with java_process(
        "org.apache.rocketmq.namesrv.NamesrvStartup", ["-c", str(home / "namesrv.conf")], home
    ) as name_server:
        wait_for_port(name_port, name_server)
        with java_process(
            "org.apache.rocketmq.broker.BrokerStartup", ["-c", str(home / "broker.conf")], home
        ) as broker:
            wait_for_port(broker_port, broker)
            yield f"127.0.0.1:{name_port}"


def run_java_tool(source: str, arguments: Sequence[str], *, seconds: float = 120) -> list[Any]:
    """Run one of the Java sources beside this file; returns the JSON lines it printed."""
    command = ["java", "-cp", class_path(), str(HERE / "java" / source), *arguments]
    done = subprocess.run(command, capture_output=True, timeout=seconds, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr.decode()[-3000:])
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")]


@contextmanager
def proxy(name_server: str, home: Path, settings: Mapping[str, Any]) -> Iterator[str]:
    """Run RocketMQ's proxy before a name server's brokers; yields its endpoint."""
    port = free_port()
    proxy_settings = {
        "proxyMode": "CLUSTER",
        "rocketMQClusterName": "DefaultCluster",
        "namesrvAddr": name_server,
        "localServeAddr": "127.0.0.1",
        "grpcServerPort": port,
        "remotingListenPort": free_port(),
        **settings,
    }
    path = home / "proxy.json"
    path.write_text(json.dumps(proxy_settings))
    with java_process(
        "org.apache.rocketmq.proxy.ProxyStartup", ["-pc", str(path)], home
    ) as process:
        wait_for_port(port, process)
        yield f"127.0.0.1:{port}"
