"""What goes wrong in a world: a plan that is drawn before it begins, and can be shortened."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

from played_world.ambushes import TRIGGERS, lie_in_wait
from played_world.fault import Fault
from played_world.machines.played_database import DATABASE
from played_world.patterns import BY_PART, ONLY, draw_patterns
from played_world.steps import PARTS, resolved, step_of
from played_world.wounds import forget_flushes, rot, take_back

if TYPE_CHECKING:
    from played_world.programs.stage import Role, Stage

OF_SETS: Final = frozenset({"take-back", "forgetful-disk", "rot", "part"})
"""What only a replica set is promised to survive, or can meet."""

ALL: Final = frozenset({"broker", "name server", "checker", "client"})
"""Programs of every kind."""

SECONDS: Final = (0.05, 0.5, 2.0, 8.0, 20.0, 45.0)
"""How long a fault lasts: what is just noticed, and what is longer than each time-out."""


FOLLOWS: Final = 0.35
"""Share of faults that follow another one of the same program."""

FOLLOWS_S: Final = 4.0
"""How soon after the other one has ended: programs start, and sets elect, in such a time."""

WITHIN: Final = 0.4
"""Share of those that come while the other one lasts."""

SINGLE_MIN: Final = 4
"""Faults beside those of patterns, at least."""

Act = Callable[["Stage", Fault, "Role"], bool]
"""Returns whether anything has come of it: who is down, say, cannot be killed."""


def _kill(stage: Stage, fault: Fault, role: Role) -> bool:
    del stage, fault
    process = role.process
    if process is None or process.is_dead:
        return False
    process.kill("by a fault")
    return True


def _kill_at_disk(stage: Stage, fault: Fault, role: Role) -> bool:
    process = role.process
    if process is None or process.is_dead:
        return False
    calls = 1 + int(fault.amount * 40)

    def die() -> None:
        stage.befallen[fault.kind] += 1

    process.die_at_disk_call(process.disk_calls + calls, die)
    return False  # It counts once the process comes there.


def _stop(stage: Stage, fault: Fault, role: Role) -> bool:
    del stage, fault
    if role.process is None or not role.is_running:
        return False
    return role.service.ask_to_stop(role.process)


def _power(stage: Stage, fault: Fault, role: Role) -> bool:
    had_power = role.machine.is_up
    role.machine.lose_power()

    def boot() -> None:
        if not role.machine.is_up:
            role.machine.boot()
            role.start()

    stage.world.timeline.after(fault.seconds, boot)
    return had_power


def _freeze(stage: Stage, fault: Fault, role: Role) -> bool:
    del stage
    process = role.process
    if process is None or process.is_dead:
        return False
    process.freeze(fault.seconds)
    return True


def _starve(stage: Stage, fault: Fault, role: Role) -> bool:
    process = role.process
    if process is None or process.is_dead:
        return False
    process.pauses += 1
    process.slowness = 10.0 ** (1 + 2 * fault.amount)

    def recover() -> None:
        process.slowness = 1.0

    stage.world.timeline.after(fault.seconds, recover)
    return True


def _slow_disk(stage: Stage, fault: Fault, role: Role) -> bool:
    health = role.machine.health
    health.slow_s = 2.0 * fault.amount
    health.is_stuttering = fault.amount > 0.7
    stage.world.timeline.after(fault.seconds, health.heal)
    return True


def _leave(stage: Stage, fault: Fault, role: Role) -> bool:
    del stage
    return role.leave(fault.seconds)


def _full_disk(stage: Stage, fault: Fault, role: Role) -> bool:
    health = role.machine.health
    health.full = True
    stage.world.timeline.after(fault.seconds, health.heal)
    return True


def _flush_error(stage: Stage, fault: Fault, role: Role) -> bool:
    del stage, fault
    role.machine.health.flush_errors = 1
    return True


def _clock_jump(stage: Stage, fault: Fault, role: Role) -> bool:
    sign = 1 if fault.amount < 0.5 else -1
    role.machine.clock.ahead_ms += sign * round(fault.seconds * 1000)
    if sign > 0 and role.kind == "broker":
        stage.history.set_ahead_s += fault.seconds
    return True


def _cut(stage: Stage, fault: Fault, role: Role) -> bool:
    network = stage.world.network
    network.cut(role.name, fault.other)
    stage.world.timeline.after(fault.seconds, network.mend, role.name, fault.other)
    if fault.amount < 0.6:
        network.cut(fault.other, role.name)
        stage.world.timeline.after(fault.seconds, network.mend, fault.other, role.name)
    return fault.other != role.name


def _isolate(stage: Stage, fault: Fault, role: Role) -> bool:
    network = stage.world.network
    for other in stage.world.machines:
        if other != role.name:
            for one, two in ((role.name, other), (other, role.name)):
                network.cut(one, two)
                stage.world.timeline.after(fault.seconds, network.mend, one, two)
    return True


def _part(stage: Stage, fault: Fault, role: Role) -> bool:
    """Part a broker from the others, and perhaps from the database, but from nobody else."""
    network = stage.world.network
    others = [other.name for other in stage.of_kind("broker") if other is not role]
    if fault.amount >= 0.5:
        others.append(DATABASE)
    for other in others:
        for one, two in ((role.name, other), (other, role.name)):
            network.cut(one, two)
            stage.world.timeline.after(fault.seconds, network.mend, one, two)
    return True


def _blackout(stage: Stage, fault: Fault, role: Role) -> bool:
    """All brokers lose power at once, and have it again one after the other."""
    del role
    for place, other in enumerate(stage.of_kind("broker"), 1):
        _power(stage, fault._replace(seconds=fault.seconds * (fault.amount * place % 1.0)), other)
    return True


def _drag(stage: Stage, fault: Fault, role: Role) -> bool:
    """Let the listeners of a client take long."""
    process = role.process
    if process is None or process.is_dead:
        return False
    process.drags_s = 1.0 + 9.0 * fault.amount

    def recover() -> None:
        process.drags_s = 0.0

    stage.world.timeline.after(fault.seconds, recover)
    return True


def _ambush(stage: Stage, fault: Fault, role: Role) -> bool:
    del role
    return lie_in_wait(stage, fault, befall)


def _reset(stage: Stage, fault: Fault, role: Role) -> bool:
    network = stage.world.network
    if fault.amount < 0.5 and fault.other in stage.roles:
        return network.reset(role.name, fault.other)
    count = sum(network.reset(role.name, other) for other in stage.roles)
    return count > 0


def _loss(stage: Stage, fault: Fault, role: Role) -> bool:
    del role
    network = stage.world.network
    network.loss = 0.3 * fault.amount

    def mend() -> None:
        network.loss = 0.0

    stage.world.timeline.after(fault.seconds, mend)
    return True


def _slow_network(stage: Stage, fault: Fault, role: Role) -> bool:
    del role
    network = stage.world.network
    network.slowness = 10.0 ** (1 + 2 * fault.amount)

    def mend() -> None:
        network.slowness = 1.0

    stage.world.timeline.after(fault.seconds, mend)
    return True


def _database(stage: Stage, fault: Fault, role: Role) -> bool:
    del role
    way = stage.world.databases
    way.late_s = 10.0 * fault.amount if fault.amount < 0.3 else 0.0
    way.lost = 1.0 if 0.3 <= fault.amount < 0.6 else 0.0
    way.unanswered = 0.5 if fault.amount >= 0.6 else 0.0
    stage.world.timeline.after(fault.seconds, way.heal)
    return True


KINDS: Final[dict[str, tuple[Act, frozenset[str]]]] = {
    "kill": (_kill, ALL),
    "kill-at-disk": (_kill_at_disk, frozenset({"broker"})),
    "leave": (_leave, frozenset({"client"})),
    "take-back": (take_back, frozenset({"broker"})),
    "forgetful-disk": (forget_flushes, frozenset({"broker"})),
    "rot": (rot, frozenset({"broker"})),
    "stop": (_stop, frozenset({"broker", "name server", "checker"})),
    "power": (_power, ALL),
    "blackout": (_blackout, frozenset({"broker"})),
    "freeze": (_freeze, ALL),
    "starve": (_starve, ALL),
    "slow-disk": (_slow_disk, frozenset({"broker"})),
    "full-disk": (_full_disk, frozenset({"broker"})),
    "flush-error": (_flush_error, frozenset({"broker"})),
    "clock-jump": (_clock_jump, ALL),
    "cut": (_cut, ALL),
    "isolate": (_isolate, ALL),
    "part": (_part, frozenset({"broker"})),
    "drag": (_drag, frozenset({"client"})),
    "ambush": (_ambush, frozenset({"broker"})),
    "reset": (_reset, ALL),
    "database": (_database, frozenset({"broker"})),
    "loss": (_loss, frozenset({"broker"})),
    "slow-network": (_slow_network, frozenset({"broker"})),
}
"""Each kind of fault: what it does, and whom it befalls."""


def draw_plan(
    chance: Random, roles: list[Role], begin_s: float, end_s: float, *, count: int, is_set: bool
) -> list[Fault]:
    """Draw faults of some time: some of patterns, some of a few kinds, at any time."""
    possible = sorted(KINDS if is_set else KINDS.keys() - OF_SETS)
    kinds = chance.sample(possible, k=chance.randint(4, 9))
    if ONLY:
        return sorted(draw_patterns(chance, roles, begin_s, end_s, count=count // 3, is_set=is_set))
    plan = draw_patterns(chance, roles, begin_s, end_s, count=count // 5, is_set=is_set)
    for _ in range(max(SINGLE_MIN, count - len(plan))):
        kind = chance.choice(kinds)
        befallen = [role for role in roles if role.kind in KINDS[kind][1]]
        if kind in ("leave", "drag"):
            befallen = [role for role in befallen if role.can_leave]
        target = chance.choice(befallen)
        if target.kind == "client" and chance.random() < 0.5:
            target = chance.choice([r for r in befallen if r.kind == "broker"] or befallen)
        name = target.name
        if is_set and target.kind == "broker" and chance.random() < BY_PART:
            name = chance.choice(PARTS)
        other = chance.choice([role.name for role in roles if role is not target])
        at_s = chance.uniform(begin_s, end_s)
        seconds = chance.choice(SECONDS) * chance.uniform(0.5, 1.5)
        before = chance.choice(plan) if plan and chance.random() < FOLLOWS else None
        if before is not None and _may_befall(before.target, befallen):
            # Who has just come back, or is just about to, or suffers already, is befallen again.
            name = before.target
            wait_s = chance.uniform(0.0, FOLLOWS_S)
            is_within = chance.random() < WITHIN
            wait_s = before.seconds * wait_s / FOLLOWS_S if is_within else before.seconds + wait_s
            at_s = min(end_s, before.at_s + wait_s)
        if kind == "ambush":
            other = chance.choice(sorted(TRIGGERS))
        plan.append(Fault(at_s, kind, name, other, seconds, chance.random()))
    return sorted(plan)


def _may_befall(name: str, befallen: list[Role]) -> bool:
    if name in PARTS:
        return any(role.kind == "broker" for role in befallen)
    return any(role.name == name for role in befallen)


def befall(stage: Stage, fault: Fault) -> None:
    """Let a fault happen."""
    role = resolved(stage, fault.target)
    if role is None:
        stage.world.timeline.note(f"fault {fault}: nobody has this part")
        return
    step = step_of(stage, role)
    stage.world.timeline.note(f"fault {fault} {step}")
    stage.met[f"{fault.kind}/{role.kind}/{step}"] += 1
    if KINDS[fault.kind][0](stage, fault, role):
        stage.befallen[fault.kind] += 1


def heal(stage: Stage) -> None:
    """Let nothing be wrong any more, except clocks that are ahead or behind."""
    stage.world.timeline.note("heal")
    stage.is_disturbed = False
    stage.world.network.mend_all()
    stage.world.databases.heal()
    for role in stage.roles.values():
        role.machine.health.heal()
        if role.machine.health.lies:
            role.machine.make_true()
        process = role.process
        if process is not None:
            process.dies_at_disk_call = None
            process.slowness, process.drags_s = 1.0, 0.0
            process.thaw()
        if not role.machine.is_up:
            role.machine.boot()
        role.come_back()
