"""Faults that belong together: each alone is survived, and seldom they meet by chance.

A pattern says which promise it is after. All that it is made of are faults of the plan like others,
so that shrinking leaves out what a finding does not need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from played_world.ambushes import TRIGGERS, amount_of
from played_world.fault import Fault
from played_world.steps import FORMER, PRIMARY, REPLICA, SECOND_REPLICA
from played_world.wounds import BOOT_S_MAX, LONG_S

if TYPE_CHECKING:
    from random import Random

    from played_world.programs.stage import Role

LONG: Final = (8.0, 20.0)
"""How long somebody is away for others to do without: a lease is over then, and a silence."""

ONLY: Final[set[str]] = set()
"""What befalls a world, for who looks for something: names of ``PATTERNS``. All, and single faults,
if empty."""

MEMBERS_OF: Final = {"strict": 3}
"""How many members a group has, if not two."""

GONE: Final = ("power", "power", "freeze", "isolate")
"""How brokers go so that others take over."""

Pattern = Callable[["Random", float, str, str], Iterator[Fault]]
"""Faults from a time on, of a broker and of a client that may leave, by name."""


def _fault(at_s: float, kind: str, target: str, seconds: float, amount: float) -> Fault:
    return Fault(at_s, kind, target, "name-1", seconds, amount)


def _in_a_slow_flush(chance: Random, at_s: float, broker: str, member: str) -> Iterator[Fault]:
    """What waits for the disk is not acknowledged yet."""
    del member
    slow_s = chance.uniform(4.0, 12.0)
    yield _fault(at_s, "slow-disk", broker, slow_s, chance.uniform(0.2, 1.0))
    for _ in range(3):
        # Again and again: of what a flush has not reached, a loss of power may still leave all.
        at_s += chance.uniform(0.5, slow_s / 2)
        kind = chance.choice(("power", "power", "power", "kill"))
        yield _fault(at_s, kind, broker, 0.3, chance.random())


def _sent_again(chance: Random, at_s: float, broker: str, member: str) -> Iterator[Fault]:
    """What was stored, and its answer lost, is sent again."""
    del member
    slow_s = chance.uniform(2.0, 8.0)
    kind = chance.choice(("slow-disk", "slow-network", "loss"))
    yield _fault(at_s, kind, broker, slow_s, chance.uniform(0.2, 1.0))
    for _ in range(3):
        at = at_s + chance.uniform(0.2, slow_s)
        yield _fault(at, "reset", broker, 0.0, chance.uniform(0.5, 1.0))


def _just_promised(chance: Random, at_s: float, broker: str, member: str) -> Iterator[Fault]:
    """What was just promised is kept."""
    del member
    for _ in range(2):
        trigger = chance.choice(sorted(TRIGGERS.keys() - {"started", "works"}))
        seconds = chance.choice(LONG) * chance.uniform(0.5, 1.0)
        yield Fault(at_s, "ambush", broker, trigger, seconds, chance.random())
        at_s += chance.uniform(2.0, 10.0)


def _in_work(chance: Random, at_s: float, broker: str, member: str) -> Iterator[Fault]:
    """What a listener has in work is not done."""
    yield _fault(at_s, "drag", member, 20.0, chance.random())
    for _ in range(2):
        at_s += chance.uniform(0.0, 6.0)
        yield Fault(at_s, "ambush", broker, "works", 2.0, chance.random())
    yield _fault(at_s + chance.uniform(1.0, 9.0), "kill", member, 0.0, 0.0)


def _out_of_touch(chance: Random, at_s: float, broker: str, member: str) -> Iterator[Fault]:
    """Who hears of nobody for long owns nothing any more, whatever it still has in work."""
    del broker
    seconds = chance.uniform(20.0, 60.0)
    yield _fault(at_s, "drag", member, seconds, chance.uniform(0.4, 1.0))
    kind = chance.choice(("isolate", "isolate", "freeze", "starve"))
    # By then a slow listener has more in hand than it is done with before others take its queues.
    yield _fault(at_s + chance.uniform(2.0, 15.0), kind, member, seconds, chance.random())


def _comings_and_goings(chance: Random, at_s: float, broker: str, member: str) -> Iterator[Fault]:
    """Queues go from member to member, each of which has something in work."""
    del broker
    stem = member.rpartition("-")[0]
    for number in (1, 2):
        yield _fault(at_s, "drag", f"{stem}-{number}", 30.0, chance.random())
    for _ in range(3):
        kind, away_s = chance.choice(("leave", "kill")), chance.uniform(0.5, 6.0)
        yield _fault(at_s, kind, f"{stem}-{chance.choice((1, 2))}", away_s, chance.random())
        at_s += chance.uniform(1.0, 8.0)


def _nobody_there(chance: Random, at_s: float, broker: str, member: str) -> Iterator[Fault]:
    """A whole group is away while topics change."""
    del broker
    stem = member.rpartition("-")[0]
    # Producers use new queues once they have asked for routes again, every 30 s.
    away_s = chance.uniform(15.0, 60.0)
    for number in (1, 2, 3)[: MEMBERS_OF.get(stem, 2)]:
        yield _fault(at_s, "leave", f"{stem}-{number}", away_s, chance.random())


def _in_a_slow_act(chance: Random, at_s: float, broker: str, member: str) -> Iterator[Fault]:
    """What is sent while an operator's act waits for the disk is not forgotten."""
    del member
    for _ in range(3):
        amount = amount_of("slow-disk", chance.uniform(0.0, 0.02))
        yield Fault(at_s, "ambush", broker, "acts", chance.uniform(3.0, 8.0), amount)
        at_s += chance.uniform(4.0, 10.0)


def _born_again(chance: Random, at_s: float, broker: str, member: str) -> Iterator[Fault]:
    """Who recovers is killed again."""
    del member
    yield _fault(at_s, chance.choice(("power", "kill")), broker, 1.0, chance.random())
    for _ in range(2):
        amount = amount_of("kill-at-disk", chance.random())
        yield Fault(at_s, "ambush", broker, "started", 1.0, amount)


def _not_copied(chance: Random, at_s: float, *_: str) -> Iterator[Fault]:
    """A primary whose replicas lack the newest records is gone; it comes back with them."""
    slow_s = chance.uniform(1.0, 4.0)
    kind = chance.choice(("part", "part", "slow-network"))
    yield _fault(at_s, kind, PRIMARY, slow_s, chance.uniform(0.4, 1.0))
    kind, away_s = chance.choice(GONE), chance.uniform(8.0, 20.0)
    at_s += chance.uniform(0.3, 1.0) * slow_s
    yield _fault(at_s, kind, PRIMARY, away_s, chance.random())
    yield Fault(at_s + 0.1, "ambush", FORMER, "started", 1.0, chance.random())


def _not_in_sync(chance: Random, at_s: float, *_: str) -> Iterator[Fault]:
    """A replica that lacks much is back, and all others are gone."""
    away_s = chance.uniform(8.0, 16.0)
    kind = chance.choice(("power", "isolate", "freeze", "part"))
    yield _fault(at_s, kind, REPLICA, away_s, chance.random())
    at_s += away_s + chance.uniform(-0.5, 1.0)
    gone_s = chance.uniform(10.0, 25.0)
    for part in (SECOND_REPLICA, PRIMARY):
        yield _fault(at_s, chance.choice(GONE), part, gone_s, chance.random())


def _wounded(chance: Random, at_s: float, *_: str) -> Iterator[Fault]:
    """A replica with a wounded disk is back, and all others are gone."""
    kind = chance.choice(("take-back", "take-back", "rot", "rot", "forgetful-disk"))
    # Who is away for longer than others wait has left the set before.
    wound = _fault(at_s, kind, REPLICA, chance.uniform(0.5, 3.0), chance.random())
    yield wound
    wait_s = 0.0 if kind == "rot" else LONG_S + wound.seconds * wound.amount
    at_s += wait_s + min(wound.seconds, BOOT_S_MAX) + chance.uniform(-0.5, 1.0)
    gone_s = chance.uniform(10.0, 25.0)
    for part in (SECOND_REPLICA, PRIMARY):
        yield _fault(at_s, chance.choice(GONE), part, gone_s, chance.random())


def _behind_an_act(chance: Random, at_s: float, *_: str) -> Iterator[Fault]:
    """A primary goes right behind an operator's act, which its replicas have heard of, or not."""
    slow_s = chance.uniform(2.0, 10.0)
    yield _fault(at_s, "slow-network", REPLICA, slow_s, chance.uniform(0.0, 1.0))
    for _time in range(2):
        at_s += chance.uniform(0.0, 4.0)
        amount = amount_of("power", chance.random())
        trigger = chance.choice(("acts", "acted"))
        yield Fault(at_s, "ambush", PRIMARY, trigger, chance.uniform(6.0, 15.0), amount)


def _unheard(chance: Random, at_s: float, *_: str) -> Iterator[Fault]:
    """A new primary of which no other broker has heard is gone, too."""
    away_s = chance.uniform(10.0, 20.0)
    yield _fault(at_s, "power", PRIMARY, away_s, chance.random())
    yield _fault(at_s, "part", chance.choice((REPLICA, SECOND_REPLICA)), away_s, chance.random())
    at_s += chance.uniform(3.0, 9.0)
    yield _fault(at_s, "power", PRIMARY, chance.uniform(6.0, 12.0), chance.random())


def _full(chance: Random, at_s: float, *_: str) -> Iterator[Fault]:
    """A replica whose disk is full for a while has all that its set has, or leaves it."""
    full_s = chance.uniform(8.0, 25.0)
    yield _fault(at_s, "full-disk", REPLICA, full_s, chance.random())
    at_s += full_s + chance.uniform(-2.0, 4.0)
    yield _fault(at_s, "power", PRIMARY, chance.uniform(6.0, 12.0), chance.random())


def _late_answers(chance: Random, at_s: float, *_: str) -> Iterator[Fault]:
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
    _nobody_there,
    _in_a_slow_act,
    _born_again,
)
"""Those of every world."""

OF_A_SET: Final[tuple[Pattern, ...]] = (
    _not_copied,
    _not_in_sync,
    _wounded,
    _behind_an_act,
    _unheard,
    _full,
    _late_answers,
)
"""Those of replica sets, beside."""

PATTERNS: Final = {each.__name__.strip("_"): each for each in (*ANYWHERE, *OF_A_SET)}
"""All, by name."""

BY_PART: Final = 0.5
"""Share of the patterns of a broker in a set that befall who is primary at that time."""


def draw_patterns(
    chance: Random, roles: list[Role], begin_s: float, end_s: float, *, count: int, is_set: bool
) -> list[Fault]:
    """Draw some patterns; what would come after the end is left out."""
    brokers = [role.name for role in roles if role.kind == "broker"]
    members = [role.name for role in roles if role.can_leave]
    possible = [*ANYWHERE, *OF_A_SET, *OF_A_SET] if is_set else list(ANYWHERE)
    if ONLY:
        possible = [each for each in possible if each.__name__.strip("_") in ONLY]
    plan: list[Fault] = []
    for _ in range(max(1, count) if possible else 0):
        pattern = chance.choice(possible)
        at_s = chance.uniform(begin_s, begin_s + 0.7 * (end_s - begin_s))
        broker = PRIMARY if is_set and chance.random() < BY_PART else chance.choice(brokers)
        plan += pattern(chance, at_s, broker, chance.choice(members))
    return [fault for fault in plan if fault.at_s < end_s]
