"""The databases of a world: real ones, on ways that may be long, cut, or cut behind an answer.

They are on a machine of their own, from which others may be parted as from any.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from played_world.machines.machine import Machine
    from played_world.machines.network import Network
    from played_world.machines.process import Process

DATABASE: Final = "database"
"""The name of their machine."""

SILENCE_S: Final = 15.0
"""How long a client waits for a server that is cut off: see ``DEAD_SERVER_OPTIONS`` of the kit."""

_T = TypeVar("_T")


class DatabaseWay:
    """What is between processes and their databases."""

    def __init__(self, chance: Random, network: Network, machine: Machine) -> None:
        self._chance = chance
        self._network = network
        self._machine = machine
        self.late_s = 0.0
        """The longest that a call is under way, or its answer."""
        self.lost = 0.0
        """Share of calls that never arrive."""
        self.unanswered = 0.0
        """Share of calls that are done, and not answered."""

    def heal(self) -> None:
        """Let all calls through."""
        self.late_s = self.lost = self.unanswered = 0.0

    def call(self, process: Process, work: Callable[[], _T]) -> _T:
        """Make a call, in a thread of a process.

        Raises:
            sqlite3.OperationalError: It has got no answer.
        """
        late_s, share = self.late_s * self._chance.random(), self._chance.random()
        if late_s:
            process.block(late_s * share)
        is_lost = self._chance.random() < self.lost
        if is_lost or self._network.is_cut(process.machine, self._machine):
            self._give_up(process)
        result = work()
        if late_s:
            process.block(late_s * (1.0 - share))
        is_unanswered = self._chance.random() < self.unanswered
        if is_unanswered or self._network.is_cut(self._machine, process.machine):
            self._give_up(process)
        return result

    def _give_up(self, process: Process) -> None:
        process.block(SILENCE_S)
        raise sqlite3.OperationalError("the server does not answer")
