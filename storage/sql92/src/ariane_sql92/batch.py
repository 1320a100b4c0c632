"""The properties of a batch of messages that a condition uses, each found and read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ariane_record.decoding.property_columns import PropertyColumns
from ariane_sql92.numbers import Keys, number_keys
from ariane_sql92.syntax import Match, NumberKind

SEARCHES: Final[dict[Match, Callable[[str, str], bool]]] = {
    Match.CONTAINS: str.__contains__,
    Match.STARTS_WITH: str.startswith,
    Match.ENDS_WITH: str.endswith,
}
"""For each kind of search, a function that returns whether the first text has the second."""


def says_true(text: str) -> bool:
    """Whether Java reads a text as true."""
    return text.lower() == "true"


class Batch:
    """Values by name; every array has one element per message.

    For a message without the property, all results except ``present`` are meaningless.
    """

    def __init__(self, columns: PropertyColumns) -> None:
        self._columns = columns
        self._places: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        self._texts: dict[str, list[str]] = {}
        self._numbers: dict[tuple[str, NumberKind], tuple[Keys, NDArray[np.bool_]]] = {}
        self.message_count = columns.row_count

    def present(self, name: str) -> NDArray[np.bool_]:
        """Whether messages have the property."""
        rows, _ = self._rows_and_pairs(name)
        return self._spread(rows, np.True_)

    def equal(self, name: str, text: str) -> NDArray[np.bool_]:
        """Whether values equal this text."""
        rows, pairs = self._rows_and_pairs(name)
        return self._spread(rows, self._columns.values_equal(pairs, text))

    def same(self, name: str, other: str) -> NDArray[np.bool_]:
        """Whether two properties of messages have the same value."""
        columns = [np.empty(self.message_count, object) for _ in range(2)]
        for column, each in zip(columns, (name, other), strict=True):
            rows, _ = self._rows_and_pairs(each)
            column[rows] = self._texts_of(each)
        same: NDArray[np.bool_] = (columns[0] == columns[1]).astype(np.bool_)
        return same

    def among(self, name: str, texts: frozenset[str]) -> NDArray[np.bool_]:
        """Whether values are one of these."""
        rows, _ = self._rows_and_pairs(name)
        return self._spread(rows, _truths(map(texts.__contains__, self._texts_of(name)), rows))

    def matched(self, name: str, match: Match, text: str) -> NDArray[np.bool_]:
        """Whether a text is found in values."""
        rows, _ = self._rows_and_pairs(name)
        search = SEARCHES[match]
        found = map(search, self._texts_of(name), repeat(text))
        return self._spread(rows, _truths(found, rows))

    def truths(self, name: str) -> NDArray[np.bool_]:
        """Whether values are "true", in upper or lower case."""
        rows, _ = self._rows_and_pairs(name)
        found = map("true".__eq__, map(str.lower, self._texts_of(name)))
        return self._spread(rows, _truths(found, rows))

    def numbers(self, name: str, kind: NumberKind) -> tuple[Keys, NDArray[np.bool_]]:
        """The values as numbers; see ``number_keys``."""
        known = self._numbers.get((name, kind))
        if known is None:
            rows, _ = self._rows_and_pairs(name)
            found, numeric = number_keys(self._texts_of(name), kind)
            keys = np.zeros(self.message_count, np.int64)
            keys[rows] = found
            known = self._numbers[name, kind] = keys, self._spread(rows, numeric)
        return known

    def _rows_and_pairs(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The messages with the property, and their pairs."""
        places = self._places.get(name)
        if places is None:
            pairs = self._columns.pair_of_each_row(name)
            rows = np.flatnonzero(pairs >= 0)
            places = self._places[name] = rows, pairs[rows]
        return places

    def _texts_of(self, name: str) -> list[str]:
        texts = self._texts.get(name)
        if texts is None:
            _, pairs = self._rows_and_pairs(name)
            texts = self._texts[name] = self._columns.texts(pairs)
        return texts

    def _spread(
        self, rows: NDArray[np.int64], truths: NDArray[np.bool_] | np.bool_
    ) -> NDArray[np.bool_]:
        """Expand truths of some messages to truths of all."""
        spread = np.zeros(self.message_count, np.bool_)
        spread[rows] = truths
        return spread


def _truths(found: Iterator[bool], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.fromiter(found, np.bool_, len(rows))
