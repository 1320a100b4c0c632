"""Filter expressions of clients."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ariane_broker.filters.tags import ALL_TAGS, parse_tags


class FilterLanguage(StrEnum):
    """The language of a filter expression."""

    TAG = "tag"
    SQL92 = "sql92"
    UPLOADED = "uploaded"


@dataclass(frozen=True, slots=True)
class FilterExpression:
    """A condition on messages."""

    language: FilterLanguage = FilterLanguage.TAG
    """The language of the text."""
    text: str = ALL_TAGS
    """The expression."""
    version: int = 0
    """Grows with each change by the same client."""

    @property
    def is_uploaded(self) -> bool:
        """Whether FilterServers apply it, and not the broker."""
        return self.language is FilterLanguage.UPLOADED

    def meaning(self) -> object:
        """A key that is equal for two expressions that let the same messages through.

        Raises:
            ServiceError: FILTER_EXPRESSION_INVALID.
        """
        if self.language is FilterLanguage.TAG:
            return self.language, parse_tags(self.text)
        return self.language, self.text


ALL_MESSAGES: Final = FilterExpression()
