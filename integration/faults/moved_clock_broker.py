"""A broker in a process of its own whose clock a test sets: ``python -m moved_clock_broker``.

It is the real broker, composed with a clock that adds to the machine's wall clock what the file
named by ``MOVED_CLOCK`` says: eight bytes, milliseconds as i64, little-endian. The steady clock is
left alone, as it is on a machine whose clock is set. Loops take their turns all the time, so that a
test does not wait for them. Only this module knows of it: no broker that operators run does.
"""

from __future__ import annotations

import mmap
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from struct import Struct
from typing import Final

from ariane_broker.app import compose_from
from ariane_broker.broker_life import BrokerLife
from ariane_broker.environment import Environment, Threads
from ariane_broker.settings import BrokerSettings
from ariane_servicekit import StopRequest, SystemClock, main
from ariane_storage.disk.clock import SystemClock as StoreSystemClock
from ariane_storage.disk.os_disk import OsDisk

VARIABLE: Final = "MOVED_CLOCK"
TURN_SECONDS_MAX: Final = 0.2
_AHEAD: Final = Struct("<q")


class ClockHand:
    """How far a clock is ahead; set in one process and read in another."""

    def __init__(self, path: Path) -> None:
        """Share a file; made if it is not there."""
        self.path = path
        """The file that says so."""
        if not path.exists():
            path.write_bytes(_AHEAD.pack(0))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _AHEAD.size)

    @property
    def ahead_ms(self) -> int:
        """Milliseconds; negative when it is behind."""
        ahead_ms: int = _AHEAD.unpack_from(self._memory)[0]
        return ahead_ms

    @ahead_ms.setter
    def ahead_ms(self, ahead_ms: int) -> None:
        _AHEAD.pack_into(self._memory, 0, ahead_ms)


class MovedClock(SystemClock):
    """The broker's clock."""

    def __init__(self, hand: ClockHand) -> None:
        self._hand = hand

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return super().now_ms() + self._hand.ahead_ms

    async def sleep(self, seconds: float) -> None:
        """Wait for a span, but not for long."""
        await super().sleep(min(seconds, TURN_SECONDS_MAX))


class MovedStoreClock(StoreSystemClock):
    """The store's clock: the same."""

    def __init__(self, hand: ClockHand) -> None:
        self._hand = hand

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return super().now_ms() + self._hand.ahead_ms


def compose(settings: BrokerSettings, stop: StopRequest) -> BrokerLife:
    """Build a broker by that clock."""
    hand = ClockHand(Path(os.environ[VARIABLE]))
    threads = Threads(*(ThreadPoolExecutor(1) for _ in range(4)))
    clock = MovedClock(hand)
    return compose_from(
        Environment(settings, stop, clock, OsDisk(), threads, MovedStoreClock(hand))
    )


if __name__ == "__main__":
    sys.exit(main(BrokerSettings, compose, sys.argv[1:], os.environ))
