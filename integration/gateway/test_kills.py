"""Brokers and gateways are killed under official clients: nothing acknowledged is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from actors import started
from balancer import Balancer
from stage import BROKER_FLAGS, Actor, Stage, gateway_process, message, side_by_side, text

from ariane.replication.v1.replica_set_service_pb2 import GetReplicaSetRequest
from ariane.replication.v1.replica_set_service_pb2_grpc import ReplicaSetServiceStub
from ariane_sdk.sync import ClusterClient
from ariane_servicekit.running.processes import LocalCluster, ServiceProcess
from ariane_testkit.closed_clusters import open_blocking_channel
from ariane_testkit.programs.line_program import Refused

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TOPIC = "jobs"
SENDING_S = 20.0
PAUSE_S = 0.25
PATIENCE_S = 300.0
TAKING_OVER = ("--primary-lease-s", "2.5", "--replica-behind-s-max", "2")


@contextmanager
def playing(
    stage: Stage, names: list[str], folder: Path
) -> Iterator[tuple[list[Actor], list[ServiceProcess]]]:
    """Clients behind two gateways and a balancer, and those gateways."""
    cluster = stage.cluster
    gateways = [gateway_process(cluster, number) for number in range(2)]
    actors: list[Actor] = []
    try:
        for each in gateways:
            cluster.call_blocking(each.start)
        with Balancer([each.address for each in gateways]) as balancer:
            actors.extend(started(n, balancer.address, stage, folder / n) for n in names)
            yield actors, gateways
            for each in actors:
                each.program.end()
    finally:
        for each in gateways:
            if each.running:
                cluster.call_blocking(each.stop)


def sending(actor: Actor, ended: Event) -> list[str]:
    """Send one after the other until told to end; returns what was acknowledged."""
    acknowledged = []
    number = 0
    while not ended.is_set():
        number += 1
        body = f"{actor.name} {number}"
        try:
            actor.ask("send", topic=TOPIC, messages=[message(TOPIC, body)])
        except Refused:
            continue
        acknowledged.append(body)
        time.sleep(PAUSE_S)
    return acknowledged


def receiving(actor: Actor, wanted: set[str]) -> None:
    """Receive until all that was acknowledged has come."""
    came: set[str] = set()
    end = time.monotonic() + PATIENCE_S
    while not wanted <= came:
        assert time.monotonic() < end, f"lost: {sorted(wanted - came)[:20]}"
        asked: dict[str, Any] = {"topic": TOPIC, "group": f"jobs-{actor.name}"}
        try:
            batch = actor.ask("receive", **asked)
            came |= {text(each) for each in batch}
            actor.ask("ack", numbers=[each["number"] for each in batch], **asked)
        except Refused:
            continue


def check_nothing_is_lost(actors: list[Actor], kills: Any) -> None:
    """All send while things are killed; then all receive what was acknowledged."""
    ended = Event()
    # Clients that start take seconds of a busy machine: all are there before anything is killed.
    first = {actor.name: f"{actor.name} 0" for actor in actors}
    side_by_side(
        "begin",
        actors,
        lambda each: each.ask("send", topic=TOPIC, messages=[message(TOPIC, first[each.name])]),
    )

    def killing() -> None:
        try:
            kills()
        finally:
            ended.set()

    killer = Actor("killer", None)
    played = side_by_side(
        "send",
        [*actors, killer],
        lambda actor: killing() if actor is killer else sending(actor, ended),
    )
    del played["killer"]
    assert all(len(each) > 20 for each in played.values()), {n: len(e) for n, e in played.items()}
    wanted = {body for own in (first.values(), *played.values()) for body in own}
    print(f"{len(wanted)} were acknowledged")
    side_by_side("receive", actors, lambda actor: receiving(actor, wanted))


def test_nothing_is_lost_when_brokers_and_a_gateway_are_killed(names, tmp_path):
    flags = {"brokers": 2, "flush_mode": "sync", "extra_broker_args": BROKER_FLAGS}
    with (
        LocalCluster(tmp_path, **flags) as cluster,
        ClusterClient(cluster.name_servers.split(",")) as client,
    ):
        client.create_topic(TOPIC, queue_count=2)
        with playing(Stage(cluster, client), names, tmp_path) as (actors, gateways):

            def kills() -> None:
                for process in (*cluster.brokers, gateways[0]):
                    time.sleep(SENDING_S / 4)
                    process.kill()
                    cluster.call_blocking(process.wait)
                    time.sleep(1)
                    cluster.call_blocking(process.start)
                time.sleep(SENDING_S / 4)

            check_nothing_is_lost(actors, kills)


def test_nothing_is_lost_when_a_replica_takes_over(names, tmp_path):
    flags = {"replicas": 1, "extra_broker_args": (*BROKER_FLAGS, *TAKING_OVER)}
    with (
        LocalCluster(tmp_path, **flags) as cluster,
        ClusterClient(cluster.name_servers.split(",")) as client,
    ):
        wait_in_sync(cluster)
        client.create_topic(TOPIC, queue_count=2)
        with playing(Stage(cluster, client), names, tmp_path) as (actors, _):

            def kills() -> None:
                time.sleep(SENDING_S / 4)
                [first] = cluster.brokers
                first.kill()
                cluster.call_blocking(first.wait)
                time.sleep(SENDING_S)

            check_nothing_is_lost(actors, kills)


def wait_in_sync(cluster: LocalCluster) -> None:
    with open_blocking_channel(cluster.brokers[0].address) as channel:
        stub = ReplicaSetServiceStub(channel)
        end = time.monotonic() + PATIENCE_S
        while len(stub.GetReplicaSet(GetReplicaSetRequest()).replica_set.in_sync_broker_ids) < 2:
            assert time.monotonic() < end
            time.sleep(0.1)
