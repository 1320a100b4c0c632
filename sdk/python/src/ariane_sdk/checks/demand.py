"""How safe messages must be before they are acknowledged, as their sender says it."""

from __future__ import annotations

from typing import NamedTuple

from ariane_sdk.errors import IllegalArgument
from ariane_sdk.message import AcknowledgedLevel


class Demand(NamedTuple):
    """What is wanted of an acknowledgement beyond what the broker promises by itself.

    Attributes:
        level: How safe a message must be.
        in_sync_min: How many brokers must be in sync and have it, the primary included; 0: what
            the level means by itself.
    """

    level: AcknowledgedLevel
    in_sync_min: int


def demand_of(level: AcknowledgedLevel | None, in_sync_min: int | None) -> Demand | None:
    """What a sender wants; None for nothing beyond what the broker promises.

    Raises:
        IllegalArgument: It makes no sense.
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
