"""Filters of messages by tag.

The broker compares hashes of tags, so other tags with the same hash pass; the client compares the
tags themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ariane.common.v1.subscription_pb2 import (
    FILTER_KIND_TAG,
    FilterExpression,
    Subscription,
)
from ariane_sdk.checks.limits import ALL_TAGS, TAG_SEPARATOR
from ariane_sdk.errors import FilterIllegal


@dataclass(frozen=True, slots=True)
class TagFilter:
    """A filter expression of tags."""

    tags: frozenset[str]
    """The tags; empty for all messages, including messages without a tag."""

    @classmethod
    def parse(cls, expression: str) -> Self:
        """Parse an expression: "*" or empty for all messages, or tags joined by "||".

        Raises:
            FilterIllegal: A tag is missing between separators, "*" is among tags, or a tag holds
                "|", which no message can have.
        """
        if not isinstance(expression, str):
            raise FilterIllegal(f"subscription expression {expression!r:.100}: a text is expected")
        if expression.strip() in ("", ALL_TAGS):
            return cls(frozenset())
        tags = [tag.strip() for tag in expression.split(TAG_SEPARATOR)]
        if "" in tags or ALL_TAGS in tags or any("|" in tag for tag in tags):
            raise FilterIllegal(
                f'{expression!r}: "*", or tags joined by "||"',
                metadata={"expression": expression},
            )
        return cls(frozenset(tags))

    @property
    def text(self) -> str:
        """The expression with sorted tags, so that equal filters have equal texts."""
        return f" {TAG_SEPARATOR} ".join(sorted(self.tags)) or ALL_TAGS

    def matches(self, tag: str) -> bool:
        """Whether a message with this tag matches."""
        return not self.tags or tag in self.tags

    def to_wire(self, topic: str) -> Subscription:
        """The subscription of a topic with this filter."""
        return Subscription(
            topic=topic, filter=FilterExpression(kind=FILTER_KIND_TAG, text=self.text)
        )
