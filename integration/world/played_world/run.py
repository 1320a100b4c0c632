"""One seed: a cluster, its clients, what befalls them, and the verdict."""

from __future__ import annotations

import gc
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TextIO

from played_world import clients, programs, receivers, transactors
from played_world.faults import Fault, befall, draw_plan, heal
from played_world.oracle import anomalies
from played_world.stage import Stage
from played_world.world import World

BEGIN_S: Final = 5.0
"""When faults begin."""

DISTURBED_S: Final = 150.0

PROBE_S: Final = 20.0
"""How long producers go on when the world is whole again."""

DRAIN_S_MAX: Final = 240.0
"""How long a world has, once it is whole again, until all is consumed: longer than every lease,
silence and back-off of the house."""

SETTLE_S: Final = 30.0
"""How long it goes on once all is consumed: what comes twice comes by then."""

BROKERS_MIN, CLIENTS_MIN, ACKNOWLEDGED_MIN, FAULTS_MIN, KINDS_MIN = 3, 8, 2000, 5, 3


@dataclass(slots=True)
class Verdict:
    """What came of a seed.

    Attributes:
        outcome: "ok", "unknown" (it shows nothing) or "anomaly".
        words: Why.
    """

    seed: int
    outcome: str
    words: list[str]
    plan: list[Fault]
    acknowledged: int
    virtual_s: float
    cpu_s: float
    digest: str
    drained_after_s: float
    met: dict[str, int] = field(default_factory=dict)


def play(
    seed: int, plan: list[Fault] | None = None, trace: TextIO | None = None, scale: float = 1.0
) -> Verdict:
    """Play a seed from its beginning to its verdict, in this process, which should end then.

    Args:
        seed: Which world.
        plan: The faults; None for those that the seed draws.
        trace: Where each line of the trace goes.
        scale: How long it is disturbed, 1 for as long as a seed that counts.
    """
    gc.disable()  # Collections at other times would let clients go at other times.
    begin_cpu = time.process_time()
    world = World(seed, trace)
    stage = Stage(world)
    _cast(stage)
    end_s = BEGIN_S + DISTURBED_S * scale
    if plan is None:
        chance = world.timeline.chance("plan")
        count = chance.randint(FAULTS_MIN, 14)
        plan = draw_plan(chance, list(stage.roles.values()), BEGIN_S, end_s, count)
    for role in stage.roles.values():
        role.start()
    for fault in plan:
        world.timeline.at(fault.at_s, befall, stage, fault)
    world.timeline.run(end_s)
    heal(stage)
    healed_s = world.timeline.now
    world.timeline.run(healed_s + PROBE_S)
    stage.wants_more = False
    while not stage.is_drained and world.timeline.now < healed_s + DRAIN_S_MAX:
        world.timeline.run(world.timeline.now + 1.0)
    drained = stage.is_drained
    drained_after_s = world.timeline.now - healed_s
    world.timeline.run(world.timeline.now + SETTLE_S)

    words = anomalies(stage.history) + world.findings
    if not drained and not any(word.startswith("lost") for word in words):
        words.append("stuck: some outcomes are not known after healing")
    acknowledged = len(stage.history.acknowledged)
    outcome = "anomaly" if words else "ok"
    if not words and scale >= 1.0:
        words = _too_little(stage, plan, acknowledged)
        outcome = "unknown" if words else "ok"
    return Verdict(
        seed,
        outcome,
        words,
        plan,
        acknowledged,
        world.timeline.now,
        time.process_time() - begin_cpu,
        world.timeline.digest,
        drained_after_s,
        dict(Counter(fault.kind for fault in plan)),
    )


def _cast(stage: Stage) -> None:
    """Who is in a world: name servers, brokers, and clients of each kind."""
    for number in (1, 2):
        stage.add(f"name-{number}", "name server", programs.name_server)
    chance = stage.world.timeline.chance("cast")
    is_set = stage.world.seed % 2 == 0
    for number in (1, 2, 3):
        named: dict[str, Any] = {
            "broker_name": f"broker-{number}",
            "name_servers": stage.name_servers,
            "flush_mode": "sync",
            "default_queue_count": chance.choice((1, 2, 4)),
        }
        if is_set:
            named |= {
                "broker_name": "set",
                "broker_id": number - 1,
                "replica_set_url": f"sqlite:///{stage.scratch}/set.db",
                "in_sync_min": 2,
                "default_queue_count": 4,
            }
        stage.add(f"broker-{number}", "broker", partial(programs.broker, **named))

    database = f"sqlite:///{stage.scratch}/checker.db"
    checking: dict[str, Any] = {"name_servers": stage.name_servers, "database_url": database}
    checker = partial(programs.checker, **checking)
    stage.add("checker", "checker", checker)

    def add_client(name: str, program: programs.Program) -> None:
        stage.add(name, "client", lambda _: program)

    for number, groups in ((1, 0), (2, 5), (3, 1)):
        name = f"producer-{number}"
        topic = "orders" if number > 1 else "events"
        made = clients.producer(stage, name, topic, pause_s=0.4, groups=groups)
        add_client(name, made)
    add_client("transactor-1", transactors.transactor(stage, "transactor-1", "deals", pause_s=0.8))
    add_client("transactor-2", transactors.transactor(stage, "transactor-2", "deals", pause_s=0.8))
    add_client("delayer", transactors.delayer(stage, "delayer", "later", pause_s=0.8))
    others = ["deals", "later"]
    stage.history.take_part("takers", ["orders", *others], ordered=False)
    for number in (1, 2):
        name = f"taker-{number}"
        made = receivers.receive_consumer(stage, name, "takers", ["orders", *others])
        add_client(name, made)
    for group, topics, ordered in (
        ("plain", ["events", *others], False),
        ("strict", ["orders"], True),
    ):
        stage.history.take_part(group, topics, ordered=ordered)
        for number in (1, 2):
            name = f"{group}-{number}"
            made = clients.push_consumer(stage, name, group, topics, ordered=ordered)
            add_client(name, made)


def _too_little(stage: Stage, plan: list[Fault], acknowledged: int) -> list[str]:
    """Why a seed shows nothing."""
    counts = (
        ("brokers", len(stage.of_kind("broker")), BROKERS_MIN),
        ("clients", len(stage.of_kind("client")), CLIENTS_MIN),
        ("acknowledged messages", acknowledged, ACKNOWLEDGED_MIN),
        ("faults", len(plan), FAULTS_MIN),
        ("kinds of faults", len({fault.kind for fault in plan}), KINDS_MIN),
    )
    return [f"only {count} {what}" for what, count, least in counts if count < least]
