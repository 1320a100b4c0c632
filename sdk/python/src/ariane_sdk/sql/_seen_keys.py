"""A cache in front of the inbox. It may lack committed keys, but holds no others."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from threading import Lock
from typing import Protocol


class SeenKeys(Protocol):
    """Knows keys whose rows are committed. Messages with these keys are skipped without a query."""

    def known(self, consumer: str, keys: Collection[str]) -> Iterable[str]:
        """The given keys whose rows are committed."""

    def remember(self, consumer: str, keys: Collection[str]) -> None:
        """Add keys; their rows are committed now."""

    def forget(self, consumer: str, keys: Collection[str]) -> None:
        """Remove keys, which are to be fresh again."""


class LatestKeys:
    """The latest keys in the memory of this process; safe from several threads."""

    def __init__(self, count_max: int = 100_000) -> None:
        """Start empty, and never hold more than ``count_max`` keys."""
        self._count_max = count_max
        self._keys: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._lock = Lock()

    def known(self, consumer: str, keys: Collection[str]) -> list[str]:
        """The given keys that are held."""
        with self._lock:
            return [key for key in keys if (consumer, key) in self._keys]

    def remember(self, consumer: str, keys: Collection[str]) -> None:
        """Add keys, and drop the oldest."""
        with self._lock:
            for key in keys:
                self._keys[consumer, key] = None
                self._keys.move_to_end((consumer, key))
            while len(self._keys) > self._count_max:
                self._keys.popitem(last=False)

    def forget(self, consumer: str, keys: Collection[str]) -> None:
        """Remove keys."""
        with self._lock:
            for key in keys:
                self._keys.pop((consumer, key), None)
