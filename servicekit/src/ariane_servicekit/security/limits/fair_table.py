"""A table of so many entries, which none of those whose entries they are fills for the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class FairTable(Generic[Key, Value]):
    """Entries of owners. Of one too many, the owner with most loses its entry unused for longest.

    Of owners with as many, it is the one that has had so many for longest. That takes no search,
    however many there are: who brings ever new entries costs as much as anybody else.
    """

    def __init__(self, count_max: int) -> None:
        """Nothing is in it.

        Args:
            count_max: Entries in all.
        """
        self._count_max = count_max
        self._values: dict[Key, Value] = {}
        self._by_owner: dict[str, dict[Key, None]] = {}
        """Keys, the one unused for longest first."""
        self._by_count: dict[int, dict[str, None]] = {}
        """Owners by how many entries they have."""
        self._most = 0

    def __len__(self) -> int:
        """How many entries there are."""
        return len(self._values)

    def items(self) -> Iterator[tuple[Key, Value]]:
        """All entries."""
        return iter(self._values.items())

    def get(self, key: Key) -> Value | None:
        """The value of a key, if it is there; that is no use of it."""
        return self._values.get(key)

    def use(self, owner: str, key: Key) -> Value | None:
        """The value of a key of an owner, if it is there: used now."""
        value = self._values.get(key)
        if value is not None:
            theirs = self._by_owner[owner]
            del theirs[key]
            theirs[key] = None
        return value

    def add(self, owner: str, key: Key, value: Value) -> None:
        """Take a new entry in, and make room for it."""
        self._values[key] = value
        theirs = self._by_owner.setdefault(owner, {})
        theirs[key] = None
        self._count(owner, len(theirs) - 1, len(theirs))
        if len(self._values) > self._count_max:
            self._drop_one()

    def _drop_one(self) -> None:
        owner = next(iter(self._by_count[self._most]))
        theirs = self._by_owner[owner]
        oldest = next(iter(theirs))
        del theirs[oldest], self._values[oldest]
        self._count(owner, len(theirs) + 1, len(theirs))
        if not theirs:
            del self._by_owner[owner]

    def _count(self, owner: str, before: int, after: int) -> None:
        if before:
            owners = self._by_count[before]
            del owners[owner]
            if not owners:
                del self._by_count[before]
        if after:
            self._by_count.setdefault(after, {})[owner] = None
        # One more or one less: the owner with most has as many, or one less.
        if after > self._most or self._most not in self._by_count:
            self._most = after
