"""Filters by tag.

A tag expression has tags joined by ``||``; ``*`` or an empty text means all messages. Entries of
the consume queue have hashes of tags, and two tags may have the same hash: if the reader does not
compare the tags themselves, the filter does, in the records.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_broker.errors.public_errors import filter_expression_invalid
from ariane_record import PropertyName, tag_code
from ariane_record.control_characters import holds_control_character
from ariane_record.decoding.columns import RecordColumns
from ariane_storage.queues.consume_queue_entry import Entries

ALL_TAGS: Final = "*"
EXPRESSION_LENGTH_MAX: Final = 4096
TAGS_MAX: Final = 128

_OR: Final = "||"
_FEW: Final = 8
"""Up to so many tags, comparing one after the other is faster than a set."""


class TagFilter:
    """A filter of messages with one of some tags: the broker's ``Filter`` for tag expressions."""

    def __init__(self, tags: frozenset[str], *, exact: bool) -> None:
        self.looks_per_record = int(exact)
        """1 if the tags themselves are compared, 0 if only their hashes are."""
        self._tags = tags
        self.tag_codes = frozenset(map(tag_code, tags))
        """The hashes of the tags."""
        self._codes = np.array(sorted(self.tag_codes), np.int64)

    def entries_mask(self, entries: Entries) -> NDArray[np.bool_]:
        """As ``Filter``: by the hashes of the tags."""
        codes = entries["tags_code"]
        if len(self._codes) > _FEW:
            return np.isin(codes.astype(np.int64), self._codes)
        first, *others = self._codes.tolist()
        mask: NDArray[np.bool_] = codes == first
        for code in others:
            mask |= codes == code
        return mask

    def records_mask(self, records: RecordColumns) -> NDArray[np.bool_]:
        """As ``Filter``: by the tags."""
        properties = records.properties
        pairs = properties.pair_of_each_row(PropertyName.TAGS)
        mask: NDArray[np.bool_] = pairs >= 0
        found = pairs[mask]
        if len(self._tags) > _FEW:
            is_wanted = map(self._tags.__contains__, properties.texts(found))
            mask[mask] = np.fromiter(is_wanted, np.bool_, len(found))
            return mask
        matches = np.zeros(len(found), np.bool_)
        for tag in self._tags:
            matches |= properties.values_equal(found, tag)
        mask[mask] = matches
        return mask


@lru_cache(maxsize=1024)
def parse_tags(text: str) -> frozenset[str] | None:
    """The tags of an expression, or None if it means all messages.

    Raises:
        ServiceError: FILTER_EXPRESSION_INVALID.
    """
    if len(text) > EXPRESSION_LENGTH_MAX:
        raise filter_expression_invalid(
            text, EXPRESSION_LENGTH_MAX, f"longer than {EXPRESSION_LENGTH_MAX} characters"
        )
    if text.strip() in {"", ALL_TAGS}:
        return None
    tags: set[str] = set()
    position = 0
    for part in text.split(_OR):
        tag = part.strip()
        if not tag:
            raise filter_expression_invalid(text, position, "a tag is missing")
        if tag == ALL_TAGS:
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
