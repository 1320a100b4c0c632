"""What a consumer group wants of a topic."""

from __future__ import annotations

from dataclasses import dataclass

from ariane_broker.filters.expression import ALL_MESSAGES, FilterExpression


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a consumer group wants of one topic.

    Attributes:
        topic: The topic.
        filter: Which of its messages.
    """

    topic: str
    filter: FilterExpression = ALL_MESSAGES
