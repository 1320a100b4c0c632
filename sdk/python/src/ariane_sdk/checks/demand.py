"""The level that a sender demands before its messages are acknowledged."""

from __future__ import annotations

from typing import NamedTuple

from ariane_sdk.errors import IllegalArgument
from ariane_sdk.message import AcknowledgedLevel


class Demand(NamedTuple):
    """The demand on an acknowledgement beyond the broker's own level."""

    level: AcknowledgedLevel
    """The level that a message must reach."""
    in_sync_min: int
    """How many brokers must be in sync and have the message, the primary included; 0 for the
    default of the level."""


def demand_of(level: AcknowledgedLevel | None, in_sync_min: int | None) -> Demand | None:
    """The demand of a sender; None for the broker's own level.

    Raises:
        IllegalArgument: The two values contradict each other.
    """
    if level is None and in_sync_min is None:
        return None
    if in_sync_min is not None and in_sync_min < 1:
        raise IllegalArgument(f"in_sync_min {in_sync_min}: 1 is the primary alone")
    if in_sync_min is not None and level not in {None, AcknowledgedLevel.REPLICATED}:
        raise IllegalArgument("in_sync_min speaks of replicas: it goes with the level REPLICATED")
    if level is AcknowledgedLevel.REPLICATED and in_sync_min == 1:
        raise IllegalArgument("in_sync_min 1 is the primary alone: replicated begins at 2")
    return Demand(level or AcknowledgedLevel.UNSPECIFIED, in_sync_min or 0)
