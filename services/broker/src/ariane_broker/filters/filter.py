"""Makes the filter of a read from an expression."""

from __future__ import annotations

from ariane_broker.filters.expression import FilterExpression, FilterLanguage
from ariane_broker.filters.sql import sql_filter
from ariane_broker.filters.tags import TagFilter, parse_tags
from ariane_broker.filters.uploaded import parse_filter_version
from ariane_servicekit.errors import feature_not_available
from ariane_storage.reading.filter import Filter


def filter_for(expression: FilterExpression, *, exact: bool = True) -> Filter | None:
    """The filter of an expression; None if all messages match.

    Every read uses this one object: see ``ariane_storage.reading.filter`` for its two stages.

    Args:
        expression: The expression of a client.
        exact: Whether the tags themselves are compared. Without it, messages also match if only
            the hash of their tag is equal: for readers that compare tags anyway.

    Raises:
        ServiceError: FILTER_EXPRESSION_INVALID, or FEATURE_NOT_AVAILABLE for a language that
            this broker does not support.
    """
    match expression.language:
        case FilterLanguage.TAG:
            tags = parse_tags(expression.text)
            return None if tags is None else TagFilter(tags, exact=exact)
        case FilterLanguage.SQL92:
            return sql_filter(expression.text)
        case FilterLanguage.UPLOADED:
            parse_filter_version(expression.text)
            raise feature_not_available(
                "an uploaded filter at the broker itself, and not at a FilterServer of its route,"
            )


def check_filter(expression: FilterExpression) -> None:
    """Refuse an expression that neither this broker nor its FilterServers understand.

    Raises:
        ServiceError: FILTER_EXPRESSION_INVALID.
    """
    if expression.language is FilterLanguage.UPLOADED:
        parse_filter_version(expression.text)
    else:
        filter_for(expression)
