"""Levels of acknowledgement on the wire, and demands for them."""

from __future__ import annotations

from typing import Final

from ariane.common.v1.message_pb2 import (
    ACKNOWLEDGED_LEVEL_FLUSHED,
    ACKNOWLEDGED_LEVEL_MEMORY,
    ACKNOWLEDGED_LEVEL_REPLICATED,
    ACKNOWLEDGED_LEVEL_UNSPECIFIED,
)
from ariane_broker.log.promise import AcknowledgedLevel, Demand
from ariane_servicekit.errors import field_invalid

LEVELS: Final = {
    None: ACKNOWLEDGED_LEVEL_UNSPECIFIED,
    AcknowledgedLevel.MEMORY: ACKNOWLEDGED_LEVEL_MEMORY,
    AcknowledgedLevel.FLUSHED: ACKNOWLEDGED_LEVEL_FLUSHED,
    AcknowledgedLevel.REPLICATED: ACKNOWLEDGED_LEVEL_REPLICATED,
}

IN_SYNC_MIN: Final = 2
"""Brokers in sync for a demand of "replicated" without a number: the primary and one more."""

_DEMANDED: Final[dict[int, AcknowledgedLevel]] = {
    ACKNOWLEDGED_LEVEL_UNSPECIFIED: AcknowledgedLevel.MEMORY,
    **{number: level for level, number in LEVELS.items() if level is not None},
}


def demand_of(required_level: int, in_sync_min: int) -> Demand | None:
    """The level wanted beyond the broker's own promise; None for no demand.

    Raises:
        ServiceError: A field is invalid.
    """
    if not required_level and not in_sync_min:
        return None
    level = _DEMANDED.get(required_level)
    if level is None:
        raise field_invalid("required_level", "must be a level that there is", required_level)
    if in_sync_min < 0:
        raise field_invalid("in_sync_min", "must be at least 0", in_sync_min)
    if level is AcknowledgedLevel.REPLICATED:
        return Demand(level, in_sync_min or IN_SYNC_MIN)
    return Demand(level, max(1, in_sync_min))
