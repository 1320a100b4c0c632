"""What is read from a leg, and stands in a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from peer_bench.loads import Leg


@dataclass(frozen=True, slots=True)
class Reading:
    """One figure of a leg."""

    of: Callable[[Leg], float]
    """Reads it."""
    unit: str
    """Its unit."""
    name: str = ""
    """Stands behind the work's name; may be empty."""
    less_is_better: bool = False
    """The ratio is then theirs over ours: above 1 is always better for us."""
    targeted: bool = True
    """Whether the work's floor and goal are for it."""


def _rate(leg: Leg) -> float:
    return leg.rate


def _ready_rate(leg: Leg) -> float:
    return leg.count / leg.ready_s


def _seconds(leg: Leg) -> float:
    return leg.seconds


def _server_us(leg: Leg) -> float:
    return leg.server.cpu_s / leg.count * 1e6


def _note(name: str, leg: Leg) -> float:
    return leg.notes[name]


def acknowledged(percentile: str) -> str:
    """The note of a percentile that counts to the acknowledgement, and not to the listener."""
    return f"{percentile} to the acknowledgement"


RATE: Final = Reading(_rate, "msg/s")
READY: Final = Reading(_ready_rate, "msg/s", "until all can be consumed")
ACKNOWLEDGED: Final = Reading(_rate, "msg/s", "until all is acknowledged", targeted=False)
SECONDS: Final = Reading(_seconds, "s", less_is_better=True)
SERVER_CPU: Final = Reading(_server_us, "us", less_is_better=True)
SERVERS_BESIDE: Final = Reading(
    _server_us, "us", "CPU of servers", less_is_better=True, targeted=False
)
_PERCENTILES: Final = ("p50", "p99", "p99.9", "max")
PERCENTILES: Final = tuple(
    Reading(partial(_note, name), "ms", name, less_is_better=True, targeted=name == "p99")
    for name in _PERCENTILES
)
ACKNOWLEDGEMENTS: Final = tuple(
    Reading(partial(_note, name), "ms", name, less_is_better=True, targeted=False)
    for name in map(acknowledged, _PERCENTILES)
)
