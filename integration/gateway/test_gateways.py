"""Three gateways behind a balancer that deals out every call, and one of them is killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from actors import started
from balancer import Balancer
from official import NEWEST
from stage import (
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

from ariane_servicekit.running.processes import ServiceProcess
from ariane_testkit.programs.line_program import Refused

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

GATEWAYS = 3
GOES_ON_S_MAX = 10.0
SAY_WHY = {"go", "node"}
"""Clients whose error says why they do not start; others log it."""


@contextmanager
def three(stage: Stage, first: int) -> Iterator[list[ServiceProcess]]:
    """Three gateways of their own."""
    cluster = stage.cluster
    gateways = [gateway_process(cluster, first + number) for number in range(GATEWAYS)]
    for each in gateways:
        cluster.call_blocking(each.start)
    try:
        yield gateways
    finally:
        for each in gateways:
            if each.running:
                cluster.call_blocking(each.stop)


@pytest.mark.parametrize("name", NEWEST)
def test_any_gateway_takes_any_call(name, stage, tmp_path):
    topic = stage.topic(f"dealt-{name}")
    ordered = stage.topic(f"dealt-ordered-{name}", fifo=True)
    in_order = stage.group(f"dealt-ordered-{name}", in_order=True)
    with three(stage, 100) as gateways, Balancer([each.address for each in gateways]) as balancer:
        actor = started(name, balancer.address, stage, tmp_path)
        try:
            dealt(actor, topic)
            if actor.can("push"):
                heard_in_order(actor, ordered, in_order)
        finally:
            actor.program.end()
    assert all(balancer.dealt), balancer.dealt


def dealt(actor: Actor, topic: str) -> None:
    """Everything that takes two calls."""
    said = [message(topic, f"{n}", tag="t") for n in range(20)]
    sent = sending(actor, topic, said)
    committed = message(topic, "committed")
    began = actor.ask("begin", topic=topic, messages=[committed])
    actor.ask("commit", topic=topic, numbers=[began["number"]])
    sent.append(as_received(committed, began["id"]))
    if actor.can("recall"):
        late = message(topic, "taken back", deliver_in_ms=8000)
        [receipt] = actor.ask("send", topic=topic, messages=[late])
        actor.ask("recall", topic=topic, recall=receipt["recall"])
    asked = {"topic": topic, "group": f"{topic}-simple"}
    check_received(actor, receive(actor, len(sent), **asked), sent)
    if actor.can("extend"):
        # A client that finds a broker empty waits there for 5 s, some times in a row.
        asked = {"topic": topic, "group": f"{topic}-longer", "invisible_ms": 60_000}
        came = receive(actor, len(sent), ack=False, **asked)
        held = {"topic": topic, "group": asked["group"], "numbers": [e["number"] for e in came]}
        actor.ask("extend", invisible_ms=90_000, **held)
        actor.ask("ack", **held)
    if actor.can("push"):
        group = f"{topic}-push"
        actor.ask("listen", topic=topic, group=group)
        check_received(actor, hear(actor, group, lambda heard: len(heard) >= len(sent)), sent)
        actor.ask("leave", group=group)


def heard_in_order(actor: Actor, topic: str, group: str) -> None:
    sent = sending(actor, topic, [message(topic, f"{n}", group="table-7") for n in range(5)])
    actor.ask("listen", topic=topic, group=group)
    heard = hear(actor, group, lambda heard: len(heard) >= len(sent))
    actor.ask("leave", group=group)
    assert [text(each) for each in heard] == [str(n) for n in range(5)]


def sending(actor: Actor, topic: str, said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    receipts = actor.ask("send", topic=topic, messages=said)
    return [as_received(each, r["id"]) for each, r in zip(said, receipts, strict=True)]


@pytest.mark.parametrize("name", [each for each in NEWEST if each != "rust"])
def test_listeners_go_on_when_a_gateway_is_killed(name, stage, tmp_path):
    topic = stage.topic(f"killed-{name}")
    group = f"killed-{name}"
    with three(stage, 200) as gateways, Balancer([each.address for each in gateways]) as balancer:
        actor = started(name, balancer.address, stage, tmp_path)
        try:
            actor.ask("listen", topic=topic, group=group)
            ids = steadily(actor, topic, 0)
            first = hear(actor, group, lambda heard: len(heard) >= len(ids))
            gateways[0].kill()
            # What is handed to a dying gateway comes again, but only when it is visible again.
            stage.cluster.call_blocking(gateways[0].wait)
            killed_ms = time.time() * 1000
            ids |= steadily(actor, topic, 1)
            heard = hear(actor, group, lambda heard: ids <= {e["id"] for e in first + heard})
        finally:
            actor.program.end()
    assert {each["id"] for each in first + heard} == ids
    later = [each["at_ms"] - killed_ms for each in heard if text(each).startswith("1 ")]
    assert max(later) < GOES_ON_S_MAX * 1000, later


@pytest.mark.parametrize("name", [each for each in NEWEST if each != "rust"])
def test_a_listener_whose_group_cannot_be_does_not_start(name, stage, gateway, tmp_path):
    topic = stage.topic(f"cannot-{name}")
    actor = started(name, gateway, stage, tmp_path)
    try:
        # To clients it is a group as any other.
        with pytest.raises(Refused) as refused:
            actor.ask("listen", topic=topic, group="CID_RMQ_SYS_listener")
    finally:
        actor.program.end()
    if name in SAY_WHY:
        assert "belongs to the system" in str(refused.value)


def steadily(actor: Actor, topic: str, round_number: int) -> set[str]:
    """Send some, one after the other; a send that fails is sent again, as an application would."""
    ids = set()
    for number in range(20):
        said = message(topic, f"{round_number} {number}")
        [receipt] = actor.ask("send", topic=topic, messages=[said])
        ids.add(receipt["id"])
        time.sleep(0.05)
    return ids
