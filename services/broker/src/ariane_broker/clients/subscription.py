"""The subscription of a consumer group to a topic."""

from __future__ import annotations

from dataclasses import dataclass

from ariane_broker.filters.expression import ALL_MESSAGES, FilterExpression


@dataclass(frozen=True, slots=True)
class Subscription:
    """The subscription of a consumer group to one topic."""

    topic: str
    """The topic."""
    filter: FilterExpression = ALL_MESSAGES
    """The filter of its messages."""
