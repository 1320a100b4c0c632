"""Filters as clients write them."""

from __future__ import annotations

from typing import Final

from apache.rocketmq.v2.definition_pb2 import SQL, FilterExpression, Resource
from ariane_gateway.brokers.portrait import Wanted
from ariane_gateway.rpc.caller import topic_of

_ALL_TAGS: Final = frozenset({"", "*"})


def wanted_of(topic: Resource, expression: FilterExpression) -> Wanted:
    """Which messages of a topic a consumer wants.

    Raises:
        Illegal: The topic is missing.
    """
    is_condition = expression.type == SQL
    text = expression.expression
    if not is_condition and text.strip() in _ALL_TAGS:
        text = ""
    return Wanted(topic_of(topic), text, is_condition and bool(text))
