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
    """A machine; without arguments, the one that this process runs on.

    Attributes:
        clock: Its clock.
        chance: Draws ids: those of two processes never agree.
        process_id: The number of the process.
        ports: Where it listens; None for the real ones.
        identify: Finds who calls its services.
    """

    clock: Clock = field(default_factory=SystemClock)
    chance: Random = field(default_factory=SystemRandom)
    process_id: int = field(default_factory=os.getpid)
    ports: Ports | None = None
    identify: Identify = anonymous

    def new_id(self) -> str:
        """An id that nobody else has: 16 hexadecimal digits."""
        return new_id(self.chance)


def new_id(chance: Random) -> str:
    """Draw an id of 16 hexadecimal digits."""
    return f"{chance.getrandbits(64):016x}"
