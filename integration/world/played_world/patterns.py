"""Faults that belong together: each alone is survived, and seldom they meet by chance.

A pattern says which promise it is after. All that it is made of are faults of the plan like others,
so that shrinking leaves out what a finding does not need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from played_world.ambushes import TRIGGERS
from played_world.fault import Fault
from played_world.steps import FORMER, PRIMARY, REPLICA, SECOND_REPLICA
from played_world.wounds import BOOT_S_MAX, LONG_S

if TYPE_CHECKING:
    from random import Random

    from played_world.programs.stage import Role

LONG: Final = (8.0, 20.0)
"""How long somebody is away for others to do without: a lease is over then, and a silence."""

ALL_LEAVE: Final = 0.4
"""How often a whole group leaves, where members of it come and go."""

MEMBERS_OF: Final = {"strict": 3}
"""How many members a group has, if not two."""

Pattern = Callable[["Random", float, "Role", "Role"], Iterator[Fault]]
"""Faults from a time on, of a broker and of a client that may leave."""


def _fault(at_s: float, kind: str, target: str, seconds: float, amount: float) -> Fault:
    return Fault(at_s, kind, target, "name-1", seconds, amount)


def _in_a_slow_flush(chance: Random, at_s: float, broker: Role, member: Role) -> Iterator[Fault]:
    """What waits for the disk is not acknowledged yet."""
    del member
    slow_s = chance.uniform(4.0, 12.0)
    yield _fault(at_s, "slow-disk", broker.name, slow_s, chance.uniform(0.2, 1.0))
    for _ in range(3):
        # Again and again: of what a flush has not reached, a loss of power may still leave all.
        at_s += chance.uniform(0.5, slow_s / 2)
        kind = chance.choice(("power", "power", "power", "kill"))
        yield _fault(at_s, kind, broker.name, 0.3, chance.random())


def _sent_again(chance: Random, at_s: float, broker: Role, member: Role) -> Iterator[Fault]:
    """What was stored, and its answer lost, is sent again."""
    del member
    slow_s = chance.uniform(2.0, 8.0)
    kind = chance.choice(("slow-disk", "slow-network", "loss"))
    yield _fault(at_s, kind, broker.name, slow_s, chance.uniform(0.2, 1.0))
    for _ in range(3):
        at = at_s + chance.uniform(0.2, slow_s)
        yield _fault(at, "reset", broker.name, 0.0, chance.uniform(0.5, 1.0))


def _just_promised(chance: Random, at_s: float, broker: Role, member: Role) -> Iterator[Fault]:
    """What was just promised is kept."""
    del member
    for _ in range(2):
        trigger = chance.choice(sorted(TRIGGERS.keys() - {"started", "works"}))
        seconds = chance.choice(LONG) * chance.uniform(0.5, 1.0)
        yield Fault(at_s, "ambush", broker.name, trigger, seconds, chance.random())
        at_s += chance.uniform(2.0, 10.0)


def _in_work(chance: Random, at_s: float, broker: Role, member: Role) -> Iterator[Fault]:
    """What a listener has in work is not done."""
    yield _fault(at_s, "drag", member.name, 20.0, chance.random())
    for _ in range(2):
        at_s += chance.uniform(0.0, 6.0)
        yield Fault(at_s, "ambush", broker.name, "works", 2.0, chance.random())
    yield _fault(at_s + chance.uniform(1.0, 9.0), "kill", member.name, 0.0, 0.0)


def _out_of_touch(chance: Random, at_s: float, broker: Role, member: Role) -> Iterator[Fault]:
    """Who hears of nobody for long owns nothing any more, whatever it still has in work."""
    del broker
    seconds = chance.uniform(20.0, 60.0)
    yield _fault(at_s, "drag", member.name, seconds, chance.uniform(0.4, 1.0))
    kind = chance.choice(("isolate", "isolate", "freeze", "starve"))
    yield _fault(at_s + chance.uniform(0.0, 5.0), kind, member.name, seconds, chance.random())


def _comings_and_goings(chance: Random, at_s: float, broker: Role, member: Role) -> Iterator[Fault]:
    """Queues go from member to member, each of which has something in work."""
    del broker
    stem = member.name.rpartition("-")[0]
    if chance.random() < ALL_LEAVE:
        # Topics change meanwhile, and nobody of the group is there to see it.
        away_s = chance.uniform(15.0, 40.0)
        for number in (1, 2, 3)[: MEMBERS_OF.get(stem, 2)]:
            yield _fault(at_s, "leave", f"{stem}-{number}", away_s, chance.random())
        return
    for number in (1, 2):
        yield _fault(at_s, "drag", f"{stem}-{number}", 30.0, chance.random())
    for _ in range(3):
        kind, away_s = chance.choice(("leave", "kill")), chance.uniform(0.5, 6.0)
        yield _fault(at_s, kind, f"{stem}-{chance.choice((1, 2))}", away_s, chance.random())
        at_s += chance.uniform(1.0, 8.0)


def _born_again(chance: Random, at_s: float, broker: Role, member: Role) -> Iterator[Fault]:
    """Who recovers is killed again."""
    del member
    yield _fault(at_s, chance.choice(("power", "kill")), broker.name, 1.0, chance.random())
    for _ in range(2):
        # So that a kill at a call of the disk comes, among the harms.
        yield Fault(at_s, "ambush", broker.name, "started", 1.0, chance.uniform(0.5, 0.66))


def _not_copied(chance: Random, at_s: float, *_: Role) -> Iterator[Fault]:
    """A primary whose replicas lack the newest records is gone; it comes back with them."""
    slow_s = chance.uniform(1.0, 4.0)
    kind = chance.choice(("part", "part", "slow-network"))
    yield _fault(at_s, kind, PRIMARY, slow_s, chance.uniform(0.4, 1.0))
    kind, away_s = chance.choice(("power", "power", "isolate", "freeze")), chance.uniform(8.0, 20.0)
    at_s += chance.uniform(0.3, 1.0) * slow_s
    yield _fault(at_s, kind, PRIMARY, away_s, chance.random())
    yield Fault(at_s + 0.1, "ambush", FORMER, "started", 1.0, chance.random())


def _not_in_sync(chance: Random, at_s: float, *_: Role) -> Iterator[Fault]:
    """A replica that lacks much is back, and all others are gone."""
    away_s = chance.uniform(8.0, 16.0)
    kind = chance.choice(("power", "isolate", "freeze", "part"))
    yield _fault(at_s, kind, REPLICA, away_s, chance.random())
    at_s += away_s + chance.uniform(-0.5, 1.0)
    gone_s = chance.uniform(10.0, 25.0)
    for part in (SECOND_REPLICA, PRIMARY):
        kind = chance.choice(("power", "isolate", "freeze"))
        yield _fault(at_s, kind, part, gone_s, chance.random())


def _wounded(chance: Random, at_s: float, *_: Role) -> Iterator[Fault]:
    """A replica with a wounded disk is back, and all others are gone."""
    kind = chance.choice(("take-back", "take-back", "rot", "forgetful-disk"))
    wound = _fault(at_s, kind, REPLICA, chance.uniform(1.0, 4.0), chance.random())
    yield wound
    wait_s = 0.0 if kind == "rot" else LONG_S + wound.seconds * wound.amount
    at_s += wait_s + min(wound.seconds, BOOT_S_MAX) + chance.uniform(-0.5, 1.0)
    gone_s = chance.uniform(10.0, 25.0)
    for part in (SECOND_REPLICA, PRIMARY):
        kind = chance.choice(("power", "isolate", "freeze"))
        yield _fault(at_s, kind, part, gone_s, chance.random())


def _late_answers(chance: Random, at_s: float, *_: Role) -> Iterator[Fault]:
    """A primary whose database answers late cannot be sure of its lease."""
    late_s = chance.uniform(10.0, 20.0)
    yield _fault(at_s, "database", PRIMARY, late_s, chance.uniform(0.15, 0.29))
    kind = chance.choice(("isolate", "freeze", "part", "starve"))
    at_s += chance.uniform(1.0, late_s)
    yield _fault(at_s, kind, PRIMARY, chance.uniform(4.0, 10.0), chance.random())


ANYWHERE: Final[tuple[Pattern, ...]] = (
    _in_a_slow_flush,
    _sent_again,
    _just_promised,
    _in_work,
    _out_of_touch,
    _comings_and_goings,
    _born_again,
)
"""Those of every world."""

OF_A_SET: Final[tuple[Pattern, ...]] = (_not_copied, _not_in_sync, _wounded, _late_answers)
"""Those of replica sets, beside."""


def draw_patterns(
    chance: Random, roles: list[Role], begin_s: float, end_s: float, *, count: int, is_set: bool
) -> list[Fault]:
    """Draw some patterns; what would come after the end is left out."""
    brokers = [role for role in roles if role.kind == "broker"]
    members = [role for role in roles if role.can_leave]
    possible = [*ANYWHERE, *OF_A_SET, *OF_A_SET] if is_set else list(ANYWHERE)
    plan: list[Fault] = []
    for _ in range(max(1, count)):
        pattern = chance.choice(possible)
        at_s = chance.uniform(begin_s, begin_s + 0.7 * (end_s - begin_s))
        plan += pattern(chance, at_s, chance.choice(brokers), chance.choice(members))
    return [fault for fault in plan if fault.at_s < end_s]
