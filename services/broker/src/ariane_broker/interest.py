"""What a reader waits for."""

from __future__ import annotations

from dataclasses import dataclass

from ariane_storage.reading.filter import Filter


@dataclass(frozen=True, slots=True)
class Interest:
    """Which messages of a queue matter to a reader: those with some tags, and what filters pass."""

    tag_codes: frozenset[int] = frozenset()
    """Hashes of tags."""
    filters: frozenset[Filter] = frozenset()
    """Filters, each the same object for all who want the same."""

    def __or__(self, other: Interest) -> Interest:
        return Interest(self.tag_codes | other.tag_codes, self.filters | other.filters)
