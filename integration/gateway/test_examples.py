"""The examples that packages of RocketMQ's clients carry, behind our gateway; not of lite topics.

Java's are classes of the jar and run as they are: a file of hosts leads to our gateway from the
host that they name. Those of Go are built from the sources in the module, with our address, topics
and groups where theirs have placeholders; those of Rust from the sources in the crate, with our
address. The packages for Python and Node have none: README.md says which test makes the calls of
those in their repository, and what no other test does is done here.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from actors import started
from official import OFFICIAL, run
from stage import (
    PATIENCE_S,
    Actor,
    Stage,
    as_received,
    check_received,
    gateway_process,
    hear,
    message,
    receive,
    text,
)

from ariane_servicekit import Address
from ariane_servicekit.running.processes import ServiceProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

HOST = "foobar.com"
"""Where the examples of Java call, at port 8080."""
AT = Address("127.0.0.77", 8080)
"""A host of loopback that nobody else takes the port of; it is compiled into the examples."""
COUNT = 20

JAVA_PRODUCERS = {
    "AsyncProducerExample": "yourTopic",
    "ProducerNormalMessageExample": "yourNormalTopic",
    "ProducerDelayMessageExample": "yourDelayTopic",
    "ProducerFifoMessageExample": "yourFifoTopic",
    "ProducerPriorityMessageExample": "yourPriorityTopic",
    "ProducerTransactionMessageExample": "yourTransactionTopic",
}
JAVA_CONSUMERS = ("SimpleConsumerExample", "PushConsumerExample", "AsyncSimpleConsumerExample")
GO_MODULE = "github.com/apache/rocketmq-clients/golang/v5"
GO_PRODUCERS = {
    "normal": COUNT // 2,
    "async": COUNT // 2,
    "delay": COUNT // 2,
    "delay_recall": 0,
    "fifo": COUNT // 2,
    "priority": 3,
    "transaction": COUNT // 2,
}
"""With how many messages arrive; ``delay_recall`` sends for 10 minutes later."""
GO_CONSUMERS = ("simple_consumer", "push_consumer")
RUST_PRODUCERS = {
    "producer": "test_topic",
    "delay_producer": "delay_test",
    "fifo_producer": "fifo_test",
    "transaction_producer": "transaction_test",
}
RUST_ENDPOINT = "localhost:8081"
"""Where the examples of Rust call."""


@pytest.fixture(scope="module")
def examples_gateway(stage) -> Iterator[ServiceProcess]:
    """A gateway where the examples look for one."""
    usual = gateway_process(stage.cluster, 300)
    process = ServiceProcess(
        "gateway-examples", "ariane_gateway", usual.arguments, usual.log_path, AT
    )
    stage.cluster.call_blocking(process.start)
    yield process
    stage.cluster.call_blocking(process.stop)


@pytest.fixture(scope="module")
def ours(stage, tmp_path_factory) -> Iterator[Actor]:
    """Our own SDK, which reads what examples sent and sends what they are to read."""
    actor = started("ariane", "", stage, tmp_path_factory.mktemp("ours"))
    yield actor
    actor.program.end()


@contextmanager
def playing(command: list[str], log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """An example at work; most of them never end."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={**os.environ, "HOME": str(log.parent), **environment},
            start_new_session=True,
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wanting(name: str) -> Path:
    """The folder of a client's driver; skips where its toolchain is missing."""
    client = OFFICIAL[name]
    if client.missing:
        pytest.skip(f"{client.missing} is not on this machine")
    return client.made()


def topic_of(stage: Stage, name: str, *, fifo: bool = False) -> str:
    """A topic, which other examples may have, too."""
    stage.client.create_topic(name, queue_count=2, fifo=fifo, exists_ok=True)
    return name


def wait_until_consumed(stage: Stage, topic: str, group: str) -> None:
    """Wait until a group has settled all messages of a topic."""
    end = time.monotonic() + PATIENCE_S
    while True:
        lags = stage.client.consumer_lag(group, topic)
        if lags and not any(each.message_count for each in lags):
            return
        assert time.monotonic() < end, lags
        time.sleep(0.2)


def sent_by(ours: Actor, topic: str, **words: Any) -> None:
    said = [message(topic, f"{n}", **words) for n in range(COUNT)]
    ours.ask("send", topic=topic, messages=said)


def java(name: str, folder: Path, home: Path) -> list[str]:
    """The command of an example in the jar."""
    hosts = home / "hosts"
    hosts.write_text(f"{AT.host} {HOST}\n127.0.0.1 localhost {socket.gethostname()}\n")
    return [
        *("java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-XX:+UseSerialGC"),
        *(f"-Duser.home={home}", f"-Djdk.net.hosts.file={hosts}", "-cp", f"{folder}/jars/*"),
        f"org.apache.rocketmq.client.java.example.{name}",
    ]


@pytest.mark.parametrize("name", JAVA_PRODUCERS)
def test_messages_of_examples_in_java_arrive(name, stage, examples_gateway, ours, tmp_path):
    topic = topic_of(stage, JAVA_PRODUCERS[name], fifo="Fifo" in name)
    with playing(java(name, wanting("java"), tmp_path), tmp_path / "out"):
        [came] = receive(ours, 1, topic=topic, group=f"reads-{topic}")
    assert text(came).endswith("message for Apache RocketMQ")
    assert (came["tag"], bool(came["keys"])) == ("yourMessageTagA", True)


@pytest.mark.parametrize("name", JAVA_CONSUMERS)
def test_examples_of_java_consume(name, stage, examples_gateway, ours, tmp_path):
    topic, group = topic_of(stage, "yourTopic"), "yourConsumerGroup"
    with playing(java(name, wanting("java"), tmp_path), tmp_path / "out"):
        sent_by(ours, topic, tag="yourMessageTagA")
        wait_until_consumed(stage, topic, group)


@pytest.fixture(scope="module")
def go_examples() -> Path:
    """The folder with the examples of Go, built."""
    folder = wanting("go")
    found = subprocess.run(
        ("go", "list", "-m", "-f", "{{.Dir}}", GO_MODULE),
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    package = Path(found.stdout.strip()) / "example"
    for source in package.glob("*/*/main.go"):
        name = source.parent.name
        if name in GO_PRODUCERS or name in GO_CONSUMERS:
            own = folder / "examples" / name / "main.go"
            own.parent.mkdir(parents=True, exist_ok=True)
            own.write_text(with_our_names(source.read_text(), name))
    built = folder / "built"
    built.mkdir(exist_ok=True)
    run("go", "build", "-o", f"{built}/", "./examples/...", place=folder, GOFLAGS="-mod=mod")
    return built


def with_our_names(source: str, name: str) -> str:
    """An example of Go with our address, topic and group in its constants."""
    ours = {"Endpoint": str(AT), "Topic": f"go-{name}", "ConsumerGroup": f"go-{name}"}
    for constant, value in ours.items():
        source = re.sub(rf'(?m)^(\s{constant}\s+= )"[^"]*"', rf'\1"{value}"', source)
    return source


@pytest.mark.parametrize("name", GO_PRODUCERS)
def test_messages_of_examples_in_go_arrive(
    name, go_examples, stage, examples_gateway, ours, tmp_path
):
    topic, count = topic_of(stage, f"go-{name}", fifo=name == "fifo"), GO_PRODUCERS[name]
    with playing([str(go_examples / name)], tmp_path / "out") as process:
        receive(ours, count, topic=topic, group=f"reads-{topic}")
        assert process.wait(PATIENCE_S) == 0
    said = (tmp_path / "out").read_text()
    assert "Failed" not in said
    assert ("recalled successfully" in said) == (name == "delay_recall")


@pytest.mark.parametrize("name", GO_CONSUMERS)
def test_examples_of_go_consume(name, go_examples, stage, examples_gateway, ours, tmp_path):
    topic = topic_of(stage, f"go-{name}")
    sent_by(ours, topic)
    with playing([str(go_examples / name)], tmp_path / "out"):
        wait_until_consumed(stage, topic, f"go-{name}")


@pytest.fixture(scope="module")
def rust_examples() -> Path:
    """The folder with the examples of Rust, built."""
    folder = wanting("rust")
    asked = ("cargo", "metadata", "--format-version", "1")
    found = subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=True)
    packages = {
        each["name"]: each["manifest_path"] for each in json.loads(found.stdout)["packages"]
    }
    examples = folder / "examples"
    examples.mkdir(exist_ok=True)
    for source in (Path(packages["rocketmq"]).parent / "examples").glob("*.rs"):
        own = source.read_text()
        assert RUST_ENDPOINT in own
        (examples / source.name).write_text(own.replace(RUST_ENDPOINT, str(AT)))
    run("cargo", "build", "--quiet", "--examples", place=folder)
    return folder / "target" / "debug" / "examples"


@pytest.mark.parametrize("name", RUST_PRODUCERS)
def test_messages_of_examples_in_rust_arrive(
    name, rust_examples, stage, examples_gateway, ours, tmp_path
):
    topic = topic_of(stage, RUST_PRODUCERS[name], fifo=name == "fifo_producer")
    with playing([str(rust_examples / name)], tmp_path / "out") as process:
        [came] = receive(ours, 1, topic=topic, group=f"reads-{topic}")
        # Its status says nothing: that of the plain producer fails once all went well.
        process.wait(PATIENCE_S)
    assert text(came) == "hello world"
    assert f"message_id={came['id']}" in (tmp_path / "out").read_text()


def test_an_example_of_rust_consumes(rust_examples, stage, examples_gateway, ours, tmp_path):
    topic = topic_of(stage, "test_topic")
    # It receives once, from one broker.
    sent_by(ours, topic, tag="test_tag")
    with playing([str(rust_examples / "simple_consumer")], tmp_path / "out") as process:
        assert process.wait(PATIENCE_S) == 0
    said = (tmp_path / "out").read_text()
    assert "receive message" in said
    assert "ack message" not in said  # It says so only if one fails.


def test_the_asynchronous_calls_of_python(stage, actor):
    python, topic = actor("python"), stage.topic("python-at-once")
    said = [message(topic, f"{n}", tag="tag", keys=["keys"]) for n in range(COUNT)]
    receipts = python.ask("send", topic=topic, messages=said, at_once=True)
    sent = [as_received(each, r["id"]) for each, r in zip(said, receipts, strict=True)]
    came = receive(python, COUNT, topic=topic, group=topic, at_once=True)
    check_received(python, came, sent)
    wait_until_consumed(stage, topic, topic)


def test_a_listener_of_node_hears_message_groups_at_once(stage, actor):
    """Each in its own order."""
    node, topic = actor("node"), stage.topic("node-at-once", queues=1, fifo=True)
    group = stage.group(topic, in_order=True)
    said = [message(topic, f"{n}", group=f"{n % 2}") for n in range(COUNT)]
    node.ask("send", topic=topic, messages=said)
    node.ask("listen", topic=topic, group=group, at_once=True, take_ms=50)
    heard = [int(text(each)) for each in hear(node, group, lambda heard: len(heard) >= COUNT)]
    wait_until_consumed(stage, topic, group)
    node.ask("leave", group=group)
    for first in (0, 1):
        assert [n for n in heard if n % 2 == first] == list(range(first, COUNT, 2))


def test_a_listener_of_node_keeps_few_messages_before_it(stage, actor):
    """It asks for as many as it has room for, and for nothing while it is full."""
    node, topic = actor("node"), stage.topic("node-cached", queues=1)
    sent_by(node, topic)
    node.ask("listen", topic=topic, group=topic, cached_max=8, take_ms=50)
    heard = [text(each) for each in hear(node, topic, lambda heard: len(heard) >= COUNT)]
    wait_until_consumed(stage, topic, topic)
    node.ask("leave", group=topic)
    assert sorted(heard, key=int) == [str(n) for n in range(COUNT)]
