"""What a process gets from its machine, beside its disk and its settings."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from random import Random, SystemRandom

from ariane_servicekit.clock import Clock, SystemClock
from ariane_servicekit.security.caller import Identify, anonymous
from ariane_wire.transport.ports import Ports


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine; without arguments, the one that this process runs on."""

    clock: Clock = field(default_factory=SystemClock)
    """Its clock."""
    chance: Random = field(default_factory=SystemRandom)
    """Draws ids: those of two processes never agree."""
    process_id: int = field(default_factory=os.getpid)
    """The number of the process."""
    ports: Ports | None = None
    """Where it listens; None for the real ones."""
    identify: Identify = anonymous
    """Finds who calls its services."""

    def new_id(self) -> str:
        """An id that nobody else has: 16 hexadecimal digits."""
        return new_id(self.chance)


def new_id(chance: Random) -> str:
    """Draw an id of 16 hexadecimal digits."""
    return f"{chance.getrandbits(64):016x}"
