"""Filters as clients write them."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from apache.rocketmq.v2.definition_pb2 import SQL, Code, FilterExpression, Resource
from ariane_gateway.brokers.portrait import Wanted
from ariane_gateway.rpc.caller import topic_of
from ariane_gateway.rpc.statuses import Illegal

_ALL_TAGS: Final = frozenset({"", "*"})

FILTER_LENGTH_MAX: Final = 4096
"""As brokers have it; what a client wants is kept as long as its stream is open."""


def wanted_of(topic: Resource, expression: FilterExpression) -> Wanted:
    """Which messages of a topic a consumer wants.

    Raises:
        Illegal: The topic is missing, or the filter too long.
    """
    is_condition = expression.type == SQL
    text = expression.expression
    if len(text) > FILTER_LENGTH_MAX:
        raise Illegal(
            Code.ILLEGAL_FILTER_EXPRESSION,
            f"a filter has at most {FILTER_LENGTH_MAX} characters, not {len(text)}",
        )
    if not is_condition:
        text = _tags(text)
    return Wanted(topic_of(topic), text, is_condition and bool(text))


@lru_cache(maxsize=1024)
def _tags(text: str) -> str:
    """A list of tags without its empty places, which RocketMQ passes over; empty for all tags."""
    if text.strip() in _ALL_TAGS:
        return ""
    return "||".join(filter(None, map(str.strip, text.split("||")))) or text
