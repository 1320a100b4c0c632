"""Faults that wait: for an acknowledgement, an operator's act, a message in work, a start.

A fault at a time drawn beforehand seldom comes in the few milliseconds in which a promise was just
given and is not yet kept. One that waits for it does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from played_world.steps import resolved

if TYPE_CHECKING:
    from played_world.fault import Fault
    from played_world.programs.stage import Stage

TRIGGERS: Final = {
    "sent": 0.004,
    "settled": 0.004,
    "decided": 0.004,
    "acts": 0.3,
    "acted": 0.3,
    "works": 3.0,
    "started": 4.0,
}
"""What a fault may wait for, and the seconds at most until it comes then: a message that was
acknowledged, a receipt that was, a transaction that a broker has ended; an operator's act that
begins, or is done; a listener that begins; a program that starts."""

HARMS: Final = ("power", "power", "kill", "kill-at-disk", "isolate", "reset", "slow-disk")
"""What comes to a broker."""

CLIENT_HARMS: Final = ("kill", "kill", "freeze", "isolate", "reset")
"""What comes to a client."""


def amount_of(harm: str, share: float) -> float:
    """The amount of an ambush that brings a harm to a broker.

    Args:
        harm: One of ``HARMS``.
        share: How late it comes, 0 to 1: see ``TRIGGERS``.
    """
    return (HARMS.index(harm) + share) / len(HARMS)


def lie_in_wait(stage: Stage, fault: Fault, befall: Callable[[Stage, Fault], None]) -> bool:
    """Let a fault wait for what it names in place of another role.

    Args:
        stage: Where.
        fault: Its ``amount`` says what comes, and how soon.
        befall: Lets a fault happen.
    """

    def spring(name: str) -> bool:
        role = resolved(stage, fault.target)
        if fault.other == "started" and (role is None or role.name != name):
            return False
        target = name if name in stage.roles else fault.target
        harms = CLIENT_HARMS if fault.other == "works" else HARMS
        choice = fault.amount * len(harms)
        share = choice % 1.0
        timeline = stage.world.timeline
        at_s = timeline.now + TRIGGERS[fault.other] * share
        # Other digits of the same draw: how bad it is does not depend on how soon it comes.
        harm = fault._replace(
            at_s=at_s, kind=harms[int(choice)], target=target, amount=share * 1000 % 1.0
        )
        if stage.is_disturbed:
            timeline.at(at_s, _come, stage, harm, befall)
        return True

    stage.ambushes.setdefault(fault.other, []).append(spring)
    return False  # It counts once it comes.


def _come(stage: Stage, harm: Fault, befall: Callable[[Stage, Fault], None]) -> None:
    if stage.is_disturbed:
        befall(stage, harm)
