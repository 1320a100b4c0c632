"""Makes the filter of a read from an expression."""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_broker.errors.public_errors import filter_expression_invalid
from ariane_broker.filters.expression import FilterExpression, FilterLanguage
from ariane_broker.filters.tags import TagFilter, parse_tags
from ariane_broker.interest import Interest
from ariane_record.decoding.columns import RecordColumns
from ariane_servicekit.errors import feature_not_available
from ariane_sql92 import Condition, ConditionInvalid, compile_condition
from ariane_storage.queues.consume_queue_entry import Entries
from ariane_storage.reading.filter import Filter

CONDITIONS_KEPT: Final = 1024

KNOWN_MAX: Final = 32
"""How many results each condition keeps for readers that look at the same records soon: as many as
wait for arrivals with it."""

KNOWN_BYTES_MAX: Final = 64 << 10
"""The result of more records at once, as in a backlog, is not kept."""


class SqlFilter:
    """A filter of messages whose properties fulfil a condition."""

    def __init__(self, condition: Condition) -> None:
        self.looks_per_record = condition.part_count
        """As many as the condition has parts; entries do not contain properties."""
        self._condition = condition
        self._known: dict[bytes, NDArray[np.bool_]] = {}

    def entries_mask(self, entries: Entries) -> NDArray[np.bool_]:
        """As ``Filter``: all entries."""
        return np.ones(len(entries), np.bool_)

    def records_mask(self, records: RecordColumns) -> NDArray[np.bool_]:
        """As ``Filter``: by the condition, evaluated once for all who look at the same records."""
        if len(records.records) > KNOWN_BYTES_MAX:
            return self._condition.mask(records.properties)
        name = blake2b(records.records, digest_size=16).digest()
        mask = self._known.pop(name, None)
        if mask is None:
            mask = self._condition.mask(records.properties)
            mask.flags.writeable = False
            if len(self._known) == KNOWN_MAX:
                del self._known[next(iter(self._known))]
        self._known[name] = mask
        return mask


@lru_cache(maxsize=CONDITIONS_KEPT)
def sql_filter(text: str) -> SqlFilter:
    """The filter of a condition; the same one as long as the condition is in use.

    Raises:
        ServiceError: FILTER_EXPRESSION_INVALID.
    """
    try:
        return SqlFilter(compile_condition(text))
    except ConditionInvalid as error:
        raise filter_expression_invalid(text, error.position, error.reason) from error


@lru_cache(maxsize=CONDITIONS_KEPT)
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


def interest_of(wanted: Filter | None) -> Interest | None:
    """The messages that wake a reader with a filter; None: all."""
    match wanted:
        case TagFilter():
            return Interest(tag_codes=wanted.tag_codes)
        case SqlFilter():
            return Interest(filters=frozenset((wanted,)))
        case _:
            return None


def check_filter(expression: FilterExpression) -> None:
    """Refuse an expression that neither this broker nor its FilterServers understand.

    Raises:
        ServiceError: FILTER_EXPRESSION_INVALID.
    """
    if expression.language is FilterLanguage.UPLOADED:
        parse_filter_version(expression.text)
    else:
        filter_for(expression)


_FILTER_VERSION: Final = re.compile(r"[A-Za-z0-9_-]{1,120}@[0-9a-f]{12,64}", re.ASCII)


def parse_filter_version(text: str) -> str:
    """Return the text of a subscription if it is "name@version".

    Raises:
        ServiceError: FILTER_EXPRESSION_INVALID.
    """
    if not _FILTER_VERSION.fullmatch(text):
        raise filter_expression_invalid(
            text, 0, 'an uploaded filter is "name@version", with 12 to 64 hex digits of its version'
        )
    return text
