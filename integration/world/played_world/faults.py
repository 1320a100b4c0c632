"""What goes wrong in a world: a plan that is drawn before it begins, and can be shortened."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from played_world.steps import step_of
from played_world.wounds import forget_flushes, rot, take_back

if TYPE_CHECKING:
    from played_world.programs.stage import Role, Stage

OF_SETS: Final = frozenset({"take-back", "forgetful-disk", "rot"})
"""What only a replica set is promised to survive."""

ALL: Final = frozenset({"broker", "name server", "checker", "client"})
"""Programs of every kind."""

SECONDS: Final = (0.05, 0.5, 2.0, 8.0, 20.0, 45.0)
"""How long a fault lasts: what is just noticed, and what is longer than each time-out."""


FOLLOWS: Final = 0.35
"""Share of faults that follow another one of the same program."""

FOLLOWS_S: Final = 4.0
"""How soon after the other one has ended: programs start, and sets elect, in such a time."""


class Fault(NamedTuple):
    """One fault."""

    at_s: float
    """When."""
    kind: str
    """Its name in ``KINDS``."""
    target: str
    """The role that it befalls."""
    other: str
    """Another role, for what lies between two."""
    seconds: float
    """How long it lasts."""
    amount: float
    """How bad it is, 0 to 1."""

    def __str__(self) -> str:
        return (
            f"{self.at_s:8.3f} s  {self.kind:<16} {self.target:<12} {self.other:<12} "
            f"{self.seconds:5.2f} s  {self.amount:.3f}"
        )


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
    return True


def _isolate(stage: Stage, fault: Fault, role: Role) -> bool:
    network = stage.world.network
    for other in stage.world.machines:
        if other != role.name:
            for one, two in ((role.name, other), (other, role.name)):
                network.cut(one, two)
                stage.world.timeline.after(fault.seconds, network.mend, one, two)
    return True


def _reset(stage: Stage, fault: Fault, role: Role) -> bool:
    return stage.world.network.reset(role.name, fault.other)


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
    "freeze": (_freeze, ALL),
    "starve": (_starve, ALL),
    "slow-disk": (_slow_disk, frozenset({"broker"})),
    "full-disk": (_full_disk, frozenset({"broker"})),
    "flush-error": (_flush_error, frozenset({"broker"})),
    "clock-jump": (_clock_jump, ALL),
    "cut": (_cut, ALL),
    "isolate": (_isolate, ALL),
    "reset": (_reset, ALL),
    "database": (_database, frozenset({"broker"})),
    "loss": (_loss, frozenset({"broker"})),
    "slow-network": (_slow_network, frozenset({"broker"})),
}
"""Each kind of fault: what it does, and whom it befalls."""


def draw_plan(
    chance: Random, roles: list[Role], begin_s: float, end_s: float, *, count: int, is_set: bool
) -> list[Fault]:
    """Draw faults of some time."""
    possible = sorted(KINDS if is_set else KINDS.keys() - OF_SETS)
    kinds = chance.sample(possible, k=chance.randint(4, 9))
    plan: list[Fault] = []
    for _ in range(count):
        kind = chance.choice(kinds)
        befallen = [role for role in roles if role.kind in KINDS[kind][1]]
        if kind == "leave":
            befallen = [role for role in befallen if role.can_leave]
        target = chance.choice(befallen)
        if target.kind == "client" and chance.random() < 0.5:
            target = chance.choice([r for r in befallen if r.kind == "broker"] or befallen)
        other = chance.choice([role for role in roles if role is not target])
        at_s = chance.uniform(begin_s, end_s)
        seconds = chance.choice(SECONDS) * chance.uniform(0.5, 1.5)
        before = chance.choice(plan) if plan and chance.random() < FOLLOWS else None
        if before is not None and any(role.name == before.target for role in befallen):
            # Who has just come back, or is just about to, is befallen again.
            target_name = before.target
            at_s = min(end_s, before.at_s + before.seconds + chance.uniform(0.0, FOLLOWS_S))
        else:
            target_name = target.name
        if other.name == target_name:
            other = next(role for role in roles if role.name != target_name)
        plan.append(Fault(at_s, kind, target_name, other.name, seconds, chance.random()))
    return sorted(plan)


def befall(stage: Stage, fault: Fault) -> None:
    """Let a fault happen."""
    role = stage.roles[fault.target]
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
            process.slowness = 1.0
            process.thaw()
        if not role.machine.is_up:
            role.machine.boot()
        role.come_back()
