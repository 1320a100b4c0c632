"""What a consumer wants of a topic: typed values, and what the broker makes of them.

A tag expression names tags joined by ``||``; ``*`` or nothing means all messages. The broker
compares hashes of tags, as they stand in the consume queue; two tags may share one, so the client
compares the names again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from ariane_broker.errors import filter_expression_invalid
from ariane_record import tag_code
from ariane_record.control_characters import holds_control_character
from ariane_servicekit.errors import feature_not_available

EXPRESSION_LENGTH_MAX: Final = 4096
TAGS_MAX: Final = 128

_ALL: Final = "*"
_OR: Final = "||"


class FilterLanguage(StrEnum):
    """The language of a filter expression."""

    TAG = "tag"
    SQL92 = "sql92"
    UPLOADED = "uploaded"


@dataclass(frozen=True, slots=True)
class FilterExpression:
    """A condition on messages.

    Attributes:
        language: How to read the text.
        text: The expression.
        version: Grows with each change by the same client.
    """

    language: FilterLanguage = FilterLanguage.TAG
    text: str = _ALL
    version: int = 0

    def meaning(self) -> object:
        """What two expressions have in common that let the same messages through.

        Raises:
            ServiceError: FILTER_EXPRESSION_INVALID.
        """
        if self.language is FilterLanguage.TAG:
            return self.language, parse_tags(self.text)
        return self.language, self.text


ALL_MESSAGES: Final = FilterExpression()


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a consumer group wants of one topic.

    Attributes:
        topic: The topic.
        filter: Which of its messages.
    """

    topic: str
    filter: FilterExpression = ALL_MESSAGES


def wanted_tag_codes(expression: FilterExpression) -> frozenset[int] | None:
    """Hashes of the tags that a filter lets through, or None when it lets all through.

    Raises:
        ServiceError: FILTER_EXPRESSION_INVALID, or FEATURE_NOT_AVAILABLE for a language that
            this broker does not speak.
    """
    if expression.language is not FilterLanguage.TAG:
        raise feature_not_available(f"a filter in {expression.language.value}")
    tags = parse_tags(expression.text)
    return None if tags is None else frozenset(map(tag_code, tags))


@lru_cache(maxsize=1024)
def parse_tags(text: str) -> frozenset[str] | None:
    """The tags that an expression names, or None when it means all messages.

    Raises:
        ServiceError: FILTER_EXPRESSION_INVALID.
    """
    if len(text) > EXPRESSION_LENGTH_MAX:
        raise filter_expression_invalid(
            text, EXPRESSION_LENGTH_MAX, f"longer than {EXPRESSION_LENGTH_MAX} characters"
        )
    if text.strip() in {"", _ALL}:
        return None
    tags: set[str] = set()
    position = 0
    for part in text.split(_OR):
        tag = part.strip()
        if not tag:
            raise filter_expression_invalid(text, position, "a tag is missing")
        if tag == _ALL:
            raise filter_expression_invalid(text, position, "'*' stands alone")
        if "|" in tag or holds_control_character(tag):
            raise filter_expression_invalid(
                text, position, "a tag holds '|' or a control character"
            )
        tags.add(tag)
        position += len(part) + len(_OR)
    if len(tags) > TAGS_MAX:
        raise filter_expression_invalid(text, 0, f"more than {TAGS_MAX} tags")
    return frozenset(tags)
