"""One seed: a cluster, its clients, what befalls them, and the verdict."""

from __future__ import annotations

import gc
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TextIO

from ariane_sdk import Averaging, Sticky
from played_world.autopsy import autopsy
from played_world.fault import Fault
from played_world.faults import befall, draw_plan, heal
from played_world.mistakes import hear_logs
from played_world.oracle import anomalies
from played_world.programs import clients, operators, receivers, services, transactors
from played_world.programs.members import Member, push_consumer
from played_world.programs.operators import DELETED_TOPIC
from played_world.programs.stage import Role, Stage
from played_world.world import World

BEGIN_S: Final = 5.0
"""When faults begin."""

DISTURBED_S: Final = 150.0

PROBE_S: Final = 20.0
"""How long producers go on when the world is whole again."""

MORE_S_MAX: Final = 90.0
"""How much longer they go on where faults have left too few messages for a seed that counts."""

DRAIN_S_MAX: Final = 240.0
"""How long a world has, once it is whole again, until all is consumed: longer than every lease,
silence and back-off of the house."""

SETTLE_S: Final = 20.0
"""How long it goes on once all is consumed: what comes twice comes by then."""

TOLD_S: Final = 90.0
"""Until brokers must say that groups have nothing left: what a group has got may come again, with a
wait or an invisible time, and members store offsets a while later."""

FAULTS_MAX: Final = 20

DRIFTING: Final = 0.25
"""Share of worlds whose clocks go at different rates."""

RATES: Final = (0.98, 1.02)
"""How fast clocks go: two of them differ by 4 %, and leases count on 5 % at most."""

LOCK_LEASES_S: Final = (15.0, 60.0)
PRIMARY_LEASES_S: Final = (2.0, 5.0, 5.0)
"""Leases; short ones end within more of what befalls their holders."""

STUBBORN_WORLDS: Final = 0.25
"""Share of worlds with messages on which listeners fail again and again."""

HOLD_UP: Final = frozenset({"freeze", "starve", "drag", "isolate", "cut", "slow-network", "loss"})
"""What may hold up a client that has got messages."""

BROKERS_MIN, CLIENTS_MIN, ACKNOWLEDGED_MIN, FAULTS_MIN, KINDS_MIN = 3, 8, 2000, 5, 3


@dataclass(slots=True)
class Verdict:
    """What came of a seed."""

    seed: int
    outcome: str
    """One of "ok", "unknown" (it shows nothing) or "anomaly"."""
    words: list[str]
    """Why."""
    plan: list[Fault]
    acknowledged: int
    virtual_s: float
    cpu_s: float
    digest: str
    drained_after_s: float
    met: dict[str, int] = field(default_factory=dict)
    """How often each fault met each step; see ``steps.table``."""
    changes: dict[str, int] = field(default_factory=dict)
    """How often operators have done what."""
    repeats: dict[str, int] = field(default_factory=dict)
    """How often each group got again what lies in one place."""


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
    hear_logs(world, stage.history)
    _cast(stage)
    _set_clocks(stage)
    end_s = BEGIN_S + DISTURBED_S * scale
    if plan is None:
        chance = world.timeline.chance("plan")
        # Short worlds have fewer, but closer together: else nothing would be done between them.
        count = round(chance.randint(8, FAULTS_MAX) * min(1.0, scale) ** 0.5)
        roles = list(stage.roles.values())
        plan = draw_plan(chance, roles, BEGIN_S, end_s, count=count, is_set=stage.is_set)
    for role in stage.roles.values():
        role.start()
    for fault in plan:
        world.timeline.at(fault.at_s, befall, stage, fault)
    world.timeline.run(end_s)
    drained, drained_after_s = _play_out(stage, ACKNOWLEDGED_MIN if scale >= 1.0 else 0)
    stage.history.was_held_up = not HOLD_UP.isdisjoint(stage.befallen)
    words = anomalies(stage.history) + world.findings + autopsy(stage)
    shutil.rmtree(stage.scratch)
    if not drained and not any(word.startswith("lost") for word in words):
        words.append("stuck: some outcomes are not known after healing")
    acknowledged = len(stage.history.acknowledged)
    outcome = "anomaly" if words else "ok"
    if not words and scale >= 1.0:
        words = _too_little(stage, acknowledged)
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
        dict(stage.met),
        dict(stage.history.changes),
        stage.history.repeats,
    )


def _play_out(stage: Stage, acknowledged_min: int) -> tuple[bool, float]:
    """Heal a world and play it to its end; return whether all was consumed, and how soon."""
    timeline = stage.world.timeline
    heal(stage)
    healed_s = timeline.now
    timeline.run(healed_s + PROBE_S)
    more_s = timeline.now + MORE_S_MAX
    while len(stage.history.acknowledged) < acknowledged_min and timeline.now < more_s:
        timeline.run(timeline.now + 1.0)
    stage.wants_more = False
    while not stage.is_drained and timeline.now < healed_s + DRAIN_S_MAX:
        timeline.run(timeline.now + 1.0)
    drained = stage.is_drained
    drained_after_s = timeline.now - healed_s
    timeline.run(timeline.now + SETTLE_S)
    stage.is_settled = True
    told_s = timeline.now + TOLD_S
    while stage.history.lags != {} and timeline.now < told_s:
        timeline.run(timeline.now + 0.2)
    return drained, drained_after_s


def _set_clocks(stage: Stage) -> None:
    """In some worlds, let clocks go at different rates, as far apart as leases allow for."""
    chance = stage.world.timeline.chance("rates")
    if chance.random() >= DRIFTING:
        return
    for role in stage.roles.values():
        role.machine.clock.rate = chance.uniform(*RATES)
    rates = [1.0, *(role.machine.clock.rate for role in stage.of_kind("broker"))]
    stage.history.pace = min(rates) / max(rates)


def _cast(stage: Stage) -> None:
    """Who is in a world: name servers, brokers, and clients of each kind."""
    for number in (1, 2):
        stage.add(f"name-{number}", "name server", services.name_server)
    chance = stage.world.timeline.chance("cast")
    is_set = stage.is_set = stage.world.seed % 2 == 0
    stage.primary_count = 1 if is_set else 3
    stage.are_stubborn = chance.random() < STUBBORN_WORLDS
    lock_lease_s, lease_s = chance.choice(LOCK_LEASES_S), chance.choice(PRIMARY_LEASES_S)
    for number in (1, 2, 3):
        named: dict[str, Any] = {
            "broker_name": f"broker-{number}",
            "name_servers": stage.name_servers,
            "flush_mode": "sync",
            "queue_lock_lease_s": lock_lease_s,
            "default_queue_count": chance.choice((1, 2, 4)),
        }
        if is_set:
            named |= {
                "broker_name": "set",
                "broker_id": number - 1,
                "replica_set_url": f"sqlite:///{stage.scratch}/set.db",
                "in_sync_min": 2,
                "primary_lease_s": lease_s,
                "default_queue_count": 4,
            }
        stage.add(f"broker-{number}", "broker", partial(services.broker, **named))

    database = f"sqlite:///{stage.scratch}/checker.db"
    checking: dict[str, Any] = {"name_servers": stage.name_servers, "database_url": database}
    checker = partial(services.checker, **checking)
    stage.add("checker", "checker", checker)

    def add_client(name: str, program: services.Program) -> Role:
        return stage.add(name, "client", lambda _: program)

    for number, topic, groups in (
        (1, "events", 0),
        (2, "orders", 5),
        (3, "orders", 1),
        (4, DELETED_TOPIC, 0),
    ):
        name = f"producer-{number}"
        made = clients.producer(stage, name, topic, pause_s=1.0, groups=groups)
        add_client(name, made)
    for number, topic in ((1, "deals"), (2, "deals"), (3, DELETED_TOPIC)):
        name = f"transactor-{number}"
        add_client(name, transactors.transactor(stage, name, topic, pause_s=1.6))
    add_client("delayer-1", transactors.delayer(stage, "delayer-1", "later", pause_s=1.6))
    made = transactors.delayer(stage, "delayer-2", DELETED_TOPIC, pause_s=4.0)
    add_client("delayer-2", made)
    stage.topics = ["events", "orders", "deals", "later"]
    _cast_groups(stage, add_client)
    operate = operators.operator(stage, is_set=is_set)
    stage.add("operator", "operator", lambda _: operate)


def _cast_groups(stage: Stage, add_client: Callable[[str, services.Program], Role]) -> None:
    chance = stage.world.timeline.chance("groups")
    others = ["deals", "later", DELETED_TOPIC]
    stage.history.take_part("takers", ["orders", *others], ordered=False)
    for number in (1, 2):
        name = f"taker-{number}"
        made = receivers.receive_consumer(stage, name, "takers", ["orders", *others])
        add_client(name, made).can_leave = True
    strategies = [chance.choice((Averaging, Sticky)) for _ in range(3)]
    batch_size = chance.choice((1, 32))
    for member, count in (
        (Member("plain", ["events", *others], strategies[0], is_plain=True), 2),
        (Member("strict", ["orders"], strategies[1], ordered=True, batch_size=batch_size), 3),
        (Member("late", ["events"], strategies[2], is_late=True), 2),
    ):
        stage.history.take_part(
            member.group, member.topics, ordered=member.ordered, is_late=member.is_late
        )
        for number in range(1, count + 1):
            name = f"{member.group}-{number}"
            made = push_consumer(stage, name, member)
            add_client(name, made).can_leave = True


def _too_little(stage: Stage, acknowledged: int) -> list[str]:
    """Why a seed shows nothing."""
    counts = (
        ("brokers", len(stage.of_kind("broker")), BROKERS_MIN),
        ("clients", len(stage.of_kind("client")), CLIENTS_MIN),
        ("acknowledged messages", acknowledged, ACKNOWLEDGED_MIN),
        ("faults", stage.befallen.total(), FAULTS_MIN),
        ("kinds of faults", len(stage.befallen), KINDS_MIN),
    )
    return [f"only {count} {what}" for what, count, least in counts if count < least]
