"""What happens to a group of brokers, and when: drawn from a seed."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

QUIET_CHANCE: Final = 0.25
"""In so many of its periods nothing is done: recovery is tested, too."""

PRIMARY_CHANCE: Final = 0.6
"""How often the primary is meant, whoever that is then."""

PROCESS_WEIGHT: Final = 2
"""How much likelier what happens to a process is than each of the many kinds of cuts."""

TOGETHER_CHANCE: Final = 0.6
"""How often the next fault begins before the one before has ended."""


class FaultKind(enum.StrEnum):
    """What can happen to a broker."""

    KILL = "kill"
    PAUSE = "pause"
    POWER = "power loss"
    LOSES_FILE = "loses a file while it is down"
    DAMAGED = "has a damaged file when it comes back"
    OTHER_SET = "comes back with a store of another set"
    OLDER = "comes back with an older store while all others are down"
    FULL_DISK = "has a full disk"
    ISOLATED = "cut off from all"
    FROM_PEERS = "cut off from its peers"
    FROM_ONE_PEER = "cut off from one peer"
    DEAF_TO_PEERS = "hears no peer"
    MUTE_TO_PEERS = "heard by no peer"
    FROM_DATABASE = "cut off from the database"
    DEAF_TO_DATABASE = "does not hear the database"
    FROM_NAME_SERVER = "cut off from the name server"
    FROM_CLIENTS = "cut off from clients"

    @property
    def is_of_process(self) -> bool:
        """Whether it happens to the process, not to its connections."""
        stops = {FaultKind.KILL, FaultKind.PAUSE, FaultKind.POWER}
        return self in stops or self.is_of_files or self is FaultKind.FULL_DISK

    @property
    def is_of_files(self) -> bool:
        """Whether it happens to the files of a broker that is down."""
        return self in {
            FaultKind.LOSES_FILE,
            FaultKind.DAMAGED,
            FaultKind.OTHER_SET,
            FaultKind.OLDER,
        }

    @property
    def needs_disk(self) -> bool:
        """Whether it needs a disk that this process has made."""
        return self in {FaultKind.POWER, FaultKind.FULL_DISK}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault."""

    kind: FaultKind
    """What happens."""
    begin_s: float
    """When, from the beginning of the run."""
    duration_s: float
    """How long until it is over; a killed process is started again then."""
    place: int | None
    """Which broker, from 0; None: the primary of that moment."""
    peer: int
    """Which of its peers, where one is meant: 0 or 1."""

    def __str__(self) -> str:
        whom = "primary" if self.place is None else f"broker {self.place}"
        return f"{self.begin_s:.1f} s: {whom} {self.kind}, {self.duration_s:.1f} s"


def schedule(
    seed: int, *, length_s: float, lease_s: float, brokers: int, kinds: Collection[FaultKind]
) -> list[Fault]:
    """The faults of a run, by their begin; there is at least one.

    Args:
        seed: Where all chance comes from.
        length_s: None begins later.
        lease_s: Durations are around this: some faults end before anybody is elected.
        brokers: How many there are.
        kinds: Of which kinds.
    """
    return sorted(_faults(Random(seed), length_s, lease_s, brokers, sorted(kinds)), key=_begin)


def _faults(
    chance: Random, length_s: float, lease_s: float, brokers: int, kinds: list[FaultKind]
) -> Iterator[Fault]:
    now_s = chance.uniform(0.2, 1.0)
    while now_s < length_s:
        duration_s = lease_s * chance.uniform(0.2, 2.4)
        place = None if chance.random() < PRIMARY_CHANCE else chance.randrange(brokers)
        weights = [PROCESS_WEIGHT if kind.is_of_process else 1 for kind in kinds]
        [kind] = chance.choices(kinds, weights)
        yield Fault(kind, now_s, duration_s, place, chance.randrange(2))
        if chance.random() < TOGETHER_CHANCE:
            now_s += chance.uniform(0.0, duration_s)
        else:
            now_s += duration_s + chance.uniform(0.2, 1.0)
        if chance.random() < QUIET_CHANCE:
            now_s += lease_s


def _begin(fault: Fault) -> float:
    return fault.begin_s
