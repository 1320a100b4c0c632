"""The ways in which a user can give the begin or end of a read."""

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
    """The first message stored at or after a time.

    Attributes:
        timestamp_ms: Milliseconds since the epoch.
        strict: Whether a queue without such a message is an error; else its end is meant.
    """

    timestamp_ms: int
    strict: bool = False


@dataclass(frozen=True, slots=True)
class AtTimes:
    """The same with a time for each queue.

    Attributes:
        timestamps_ms: Milliseconds since the epoch.
        strict: As above.
    """

    timestamps_ms: Mapping[MessageQueue, int]
    strict: bool = False


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """Certain positions; -1 stands for the latest, -2 for the earliest."""

    positions: Positions


@dataclass(frozen=True, slots=True)
class AtGroup:
    """Where a consumer group stands.

    Attributes:
        group: The group.
        otherwise: Where queues start that it has no offset for.
    """

    group: str
    otherwise: PositionRule


PositionRule: TypeAlias = "Edge | AtTime | AtTimes | AtOffsets | AtGroup"
"""A user's rule for the begin or end of a read."""
