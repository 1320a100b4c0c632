"""A piece of work as we do it, and how it is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from peer_bench.loads import Load, Shape
from peer_bench.readings import RATE, Reading

SCHEDULE_S: Final = 5.0
SCHEDULE_S_QUICK: Final = 1.5
SCHEDULE_WARM_UP_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Workload:
    """Messages that are sent, and then consumed; or sent on a schedule and consumed meanwhile."""

    key: str
    """Its name in code: peers say by it what they do instead."""
    title: str
    """Its name in results."""
    load: Load
    """How we send; the topic is filled in for each leg, and the count is the largest one: a leg
    takes no longer than it must."""
    try_count: int = 0
    """Messages of one round of the warm-up."""
    sent: tuple[Reading, ...] = (RATE,)
    """What is read from sending; nothing, if it only fills the topic."""
    consuming: Mapping[Shape, str] = field(default_factory=lambda: MappingProxyType({}))
    """Our ways of consuming that are measured, with their names in results."""
    received: tuple[Reading, ...] = (RATE,)
    """What is read from each of them."""
    sustained: bool = False
    """Whether legs are long: the faster side takes ``Extent.sustained_s`` at least."""
