"""Where scenarios play: a real cluster behind real gateways, and who sends and receives there."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

from google.protobuf.duration_pb2 import Duration

from ariane.broker.v1.group_service_pb2 import (
    ConsumerGroupChange,
    DelayTable,
    RetryPolicy,
    UpdateConsumerGroupRequest,
)
from ariane.broker.v1.group_service_pb2_grpc import GroupServiceStub
from ariane_sdk.sync import ClusterClient
from ariane_servicekit.running.processes import LocalCluster, ServiceProcess
from ariane_testkit.closed_clusters import (
    APP_KEY,
    all_are_closed,
    gateway_flags,
    open_blocking_channel,
)

PATIENCE_S = 120.0
BROKER_FLAGS = (
    *("--segment-bytes", str(64 << 20), "--no-auto-create-topics"),
    *("--disk-clean-ratio", "0.97", "--disk-force-ratio", "0.98", "--disk-refuse-ratio", "0.99"),
)


class Program(Protocol):
    """Whoever does what a driver does."""

    def ask(self, do: str, **words: Any) -> Any: ...

    def end(self) -> None: ...


@dataclass(frozen=True)
class Actor:
    """A client on the stage."""

    name: str
    """Its language, with the version where there are several."""
    program: Program
    """Acts with it."""
    lacks: frozenset[str] = field(default_factory=frozenset)
    """Features that it has not."""
    blind: frozenset[str] = field(default_factory=frozenset)
    """Words of a received message that it does not tell."""

    def ask(self, do: str, **words: Any) -> Any:
        began_s = time.monotonic()
        try:
            return self.program.ask(do, **words)
        finally:
            took_s = time.monotonic() - began_s
            if took_s > 1:
                print(f"{self.name}: {do} took {took_s:.1f} s")

    def can(self, *features: str) -> bool:
        return self.lacks.isdisjoint(features)


def gateway_process(cluster: LocalCluster, number: int = 0) -> ServiceProcess:
    """A gateway beside a cluster, not started yet."""
    name = f"gateway-{number}"
    flags = ("--name-servers", cluster.name_servers, *gateway_flags(cluster, name))
    log = cluster.data_path / "logs" / f"{name}.log"
    return ServiceProcess(name, "ariane_gateway", flags, log)


def signing() -> dict[str, str]:
    """What a driver is told to sign with: nothing where clusters are open."""
    return APP_KEY if all_are_closed() else {}


class Stage:
    """A cluster, its topics and groups."""

    def __init__(self, cluster: LocalCluster, client: ClusterClient) -> None:
        self.cluster = cluster
        self.client = client

    def topic(self, name: str, *, queues: int = 2, fifo: bool = False) -> str:
        """Create a topic on every broker."""
        self.client.create_topic(name, queue_count=queues, fifo=fifo)
        return name

    def group(
        self,
        name: str,
        *,
        in_order: bool = False,
        retries: int | None = None,
        delay_s: float | None = None,
    ) -> str:
        """Give a group rules of its own on every broker."""
        change = ConsumerGroupChange(consumer_group=name, receive_in_order=in_order)
        if retries is not None:
            change.attempts_max = change.ordered_attempts_max = retries
        if delay_s is not None:
            delay = Duration(nanos=round(delay_s % 1 * 1e9), seconds=int(delay_s))
            change.retry_policy.CopyFrom(RetryPolicy(table=DelayTable(delays=[delay])))
        request = UpdateConsumerGroupRequest(group=change, allow_missing=True)
        for broker in self.client.list_brokers():
            with open_blocking_channel(broker.address) as channel:
                GroupServiceStub(channel).UpdateConsumerGroup(request, timeout=30)
        return name


def message(topic: str, body: str | bytes, **words: Any) -> dict[str, Any]:
    """A message as drivers take it."""
    octets = body.encode() if isinstance(body, str) else body
    return {
        "topic": topic,
        "body": base64.b64encode(octets).decode(),
        "tag": "",
        "keys": [],
        "group": "",
        "properties": {},
        "deliver_in_ms": 0,
        "priority": None,
        **words,
    }


def text(said: dict[str, Any]) -> str:
    """The body of a message that came, as text."""
    return base64.b64decode(said["body"]).decode()


def as_received(sent: dict[str, Any], unique_id: str) -> dict[str, Any]:
    """What is to come of a message that was sent."""
    plain = {word: sent[word] for word in ("topic", "body", "tag", "group", "properties")}
    return {**plain, "keys": sorted(sent["keys"]), "id": unique_id}


def compared(actor: Actor, said: dict[str, Any]) -> dict[str, Any]:
    """What of a message that came must be as it was sent."""
    told = ("topic", "body", "tag", "group", "properties", "keys", "id")
    return {word: said[word] for word in told if word not in actor.blind}


def check_received(
    actor: Actor, came: Iterable[dict[str, Any]], expected: Iterable[dict[str, Any]]
) -> None:
    """Fail unless exactly these came, whole, in any order."""
    came = list(came)
    assert not any(each["corrupted"] for each in came), "the client found a wrong digest"
    found = sorted((compared(actor, each) for each in came), key=lambda each: each["id"])
    wanted = sorted((compared(actor, each) for each in expected), key=lambda each: each["id"])
    assert [each["id"] for each in found] == [each["id"] for each in wanted]
    assert found == wanted


def receive(actor: Actor, count: int, *, ack: bool = True, **words: Any) -> list[dict[str, Any]]:
    """Receive until so many have come, and acknowledge them."""
    came: list[dict[str, Any]] = []
    end = time.monotonic() + PATIENCE_S
    while len(came) < count:
        assert time.monotonic() < end, f"{len(came)} of {count} have come: {shown(came)}"
        batch = actor.ask("receive", **words)
        came += batch
        if ack and batch:
            numbers = [each["number"] for each in batch]
            actor.ask("ack", topic=words["topic"], group=words["group"], numbers=numbers)
    return came


def hear(actor: Actor, group: str, enough: Callable[[list[dict[str, Any]]], bool]) -> list[Any]:
    """What a listener heard, once that is enough."""
    heard: list[dict[str, Any]] = []
    end = time.monotonic() + PATIENCE_S
    while not enough(heard):
        assert time.monotonic() < end, f"{len(heard)} were heard: {shown(heard)}"
        if batch := actor.ask("heard", group=group):
            print(f"{actor.name} heard {shown(batch)}, {time.monotonic() - end + PATIENCE_S:.1f} s")
        heard += batch
        time.sleep(0.1)
    return heard


def shown(came: Sequence[dict[str, Any]]) -> list[str]:
    """Bodies of messages and which attempt each is, shortened, for people."""
    return [f"{each['body'][:24]}#{each['attempt']}" for each in came[:40]]


def side_by_side(
    title: str, actors: Sequence[Actor], part: Callable[[Actor], Any]
) -> dict[str, Any]:
    """What each actor makes of its part; all play at once.

    Raises:
        ExceptionGroup: Some failed; each failure says whose it is.
    """

    def play(actor: Actor) -> Any:
        began_s = time.monotonic()
        try:
            return part(actor)
        finally:
            print(f"{title}: {actor.name} took {time.monotonic() - began_s:.1f} s")

    with ThreadPoolExecutor(max(1, len(actors))) as pool:
        parts = {actor.name: pool.submit(play, actor) for actor in actors}
    failures = []
    for name, played in parts.items():
        if (error := played.exception()) is not None:
            error.add_note(f"{name}: {title}")
            failures.append(error)
    if failures:
        raise BaseExceptionGroup(f"{title}: {len(failures)} of {len(actors)} failed", failures)
    return {name: played.result() for name, played in parts.items()}
