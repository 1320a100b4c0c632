"""Which process is stopped when, and how: drawn from a seed, the same for the same seed.

Every kind of process is stopped in order and killed; a shuffled deck makes sure that a short run
meets all pairs. Brokers may lose power as well, and their clocks may jump. At most one process of a
kind is disturbed at a time: more is another promise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final


class Kind(StrEnum):
    """What is disturbed."""

    NAME_SERVER = "name server"
    BROKER = "broker"
    PRODUCER = "producer"
    CONSUMER = "consumer"


class Manner(StrEnum):
    """How it ends."""

    STOP = "SIGTERM"
    KILL = "SIGKILL"
    POWER = "power cut"
    JUMP = "clock jump"


Disturbed = tuple[Kind, Manner]
"""What was disturbed, and how."""

PAUSE_S: Final = (1.0, 5.0)
"""From one disturbance to the next, in seconds."""

DOWNTIME_S: Final = (0.0, 4.0)
"""How long a process stays away, in seconds."""


@dataclass(frozen=True, slots=True)
class Disturbance:
    """One process goes away and comes back, or the clock of brokers is wrong for a while."""

    after_s: float
    """Seconds since the one before."""
    kind: Kind
    """What kind of process."""
    number: int
    """Which of them."""
    manner: Manner
    """How it ends."""
    downtime_s: float
    """Seconds until it is started again, or right again."""

    def __str__(self) -> str:
        return f"{self.manner} to {self.kind} {self.number}, away for {self.downtime_s:.1f} s"


def disturbances(
    chance: Random, population: dict[Kind, int], more: Sequence[Disturbed] = ()
) -> Iterator[Disturbance]:
    """Draw for ever.

    Args:
        chance: Where they come from.
        population: How many processes of each kind there are.
        more: What happens besides stops and kills.
    """
    while True:
        deck = [(kind, manner) for kind in Kind for manner in (Manner.STOP, Manner.KILL)]
        deck += more
        chance.shuffle(deck)
        for kind, manner in deck:
            yield Disturbance(
                chance.uniform(*PAUSE_S),
                kind,
                chance.randrange(population[kind]),
                manner,
                chance.uniform(*DOWNTIME_S),
            )
