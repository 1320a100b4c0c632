"""Which broker of each replica set should be primary: the preferred one, on machines alike.

Primaries do most of the work, so machines are alike when each has as many of them. Only a replica
in sync that follows its primary can take over without a failed send; a set without a primary is
left alone. Preference goes before balance: a set moves among those that are preferred alike::

    before   machine a: x y z    machine b: -        all four sets have brokers on both
    after    machine a: x y      machine b: z
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SetStanding:
    """One replica set."""

    name: str
    """The broker's name."""
    primary_id: int
    """Broker id of the primary."""
    machines: Mapping[int, str]
    """By broker id, the machine of each that could be primary now, and of the primary."""
    preferences: Mapping[int, int]
    """How much each is preferred."""

    @property
    def best(self) -> list[int]:
        """The most preferred ones, by id."""
        most = max(self.preferences[one] for one in self.machines)
        return sorted(one for one in self.machines if self.preferences[one] == most)


@dataclass(frozen=True, slots=True)
class Move:
    """A switchover that would do good."""

    name: str
    """The broker's name."""
    from_id: int
    """Broker id of the present primary."""
    to_id: int
    """Broker id of the next one."""
    from_machine: str
    """The machine of the present primary."""
    to_machine: str
    """The machine of the next one."""


def moves_of(sets: Sequence[SetStanding]) -> list[Move]:
    """Switchovers that give every set a preferred primary and level the machines.

    A primary that is as preferred as any stays, unless another machine has fewer by two or more.
    """
    chosen: dict[str, int] = {}
    load: Counter[str] = Counter()

    def choose(each: SetStanding, broker_id: int) -> None:
        if each.name in chosen:
            load[each.machines[chosen[each.name]]] -= 1
        chosen[each.name] = broker_id
        load[each.machines[broker_id]] += 1

    for each in sets:
        if each.primary_id in each.best:
            choose(each, each.primary_id)
    for each in sets:
        if each.name not in chosen:
            choose(each, min(each.best, key=lambda one: load[each.machines[one]]))
    # Each step makes the sum of squares smaller, so this ends.
    improved = True
    while improved:
        improved = False
        for each in sets:
            best = min(each.best, key=lambda one: load[each.machines[one]])
            if load[each.machines[chosen[each.name]]] - load[each.machines[best]] > 1:
                choose(each, best)
                improved = True
    return [
        Move(
            each.name,
            each.primary_id,
            chosen[each.name],
            each.machines[each.primary_id],
            each.machines[chosen[each.name]],
        )
        for each in sets
        if chosen[each.name] != each.primary_id
    ]
