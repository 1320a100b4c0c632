"""The rules by which a user can give the start or end of a read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from ariane_sdk import MessageQueue
from ariane_spark.positions.offsets import Positions


class Edge(Enum):
    """One of the two ends of a queue: its oldest message, or its next offset."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first message stored at or after a time."""

    timestamp_ms: int
    """Milliseconds since the epoch."""
    strict: bool = False
    """Whether a queue without such a message is an error; else its end is used."""


@dataclass(frozen=True, slots=True)
class AtTimes:
    """The same with a time for each queue."""

    timestamps_ms: Mapping[MessageQueue, int]
    """Milliseconds since the epoch."""
    strict: bool = False
    """As above."""


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """Given positions; -1 means the latest, -2 the earliest."""

    positions: Positions


@dataclass(frozen=True, slots=True)
class AtGroup:
    """The offsets of a consumer group."""

    group: str
    """The group."""
    otherwise: PositionRule
    """The rule for queues without an offset of the group."""


PositionRule: TypeAlias = "Edge | AtTime | AtTimes | AtOffsets | AtGroup"
"""A user's rule for the start or end of a read."""
