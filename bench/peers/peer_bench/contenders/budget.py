"""What a broker may take of the CPU: a figure that was agreed on, and nobody who runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from peer_bench.errors import DriverFailed
from peer_bench.loads import Leg, Load, Usage
from peer_bench.peers import Part, Peer, Target

ALLOWED_US: Final = 3.0
"""Microseconds of CPU a message; 1 is aimed at, so the goal is a ratio of 3."""
_AT_ONCE_S: Final = 1e-3


class Budget:
    """Takes exactly what is allowed."""

    def __init__(self) -> None:
        self.name = "-"
        self.settings: dict[str, Any] = {"microseconds a message": ALLOWED_US}
        self.versions: dict[str, str] = {}

    def produce(self, load: Load) -> Leg:
        """Nothing is sent."""
        return Leg(load.count, _AT_ONCE_S, server=Usage(cpu_s=load.count * ALLOWED_US / 1e6))

    def consume(self, load: Load) -> Leg:
        """Nothing was sent.

        Raises:
            DriverFailed: Always.
        """
        raise DriverFailed(f"a budget has no messages of {load.topic} to consume")

    def exchange(self, load: Load) -> Leg:
        """There is nobody.

        Raises:
            DriverFailed: Always.
        """
        raise DriverFailed(f"a budget has nobody to exchange messages of {load.topic} with")


@contextmanager
def running(_data_path: Path) -> Iterator[Budget]:
    """Nothing has to run."""
    yield Budget()


PEER: Final = Peer(
    key="budget",
    running=running,
    parts={"broker-cpu": Part(Target(1.0, 3.0), consume=None, quick=True)},
)
