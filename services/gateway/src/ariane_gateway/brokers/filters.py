"""Filters of clients as brokers take them."""

from __future__ import annotations

from ariane.common.v1.subscription_pb2 import (
    FILTER_KIND_SQL92,
    FILTER_KIND_TAG,
    FilterExpression,
    Subscription,
)
from ariane_gateway.brokers.portrait import Wanted


def subscription_of(wanted: Wanted) -> Subscription:
    """What a consumer wants of a topic."""
    if not wanted.filter_text:
        return Subscription(topic=wanted.topic)
    kind = FILTER_KIND_SQL92 if wanted.is_condition else FILTER_KIND_TAG
    expression = FilterExpression(kind=kind, text=wanted.filter_text)
    return Subscription(topic=wanted.topic, filter=expression)
