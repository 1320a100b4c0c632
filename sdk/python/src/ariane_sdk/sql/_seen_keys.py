"""A cache in front of the inbox: it may forget, it may never invent."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from threading import Lock
from typing import Protocol


class SeenKeys(Protocol):
    """Knows keys whose rows are committed. A key that it names is skipped without a question."""

    def known(self, consumer: str, keys: Collection[str]) -> Iterable[str]:
        """Those of these keys that surely came before."""

    def remember(self, consumer: str, keys: Collection[str]) -> None:
        """Their rows are committed now."""

    def forget(self, consumer: str, keys: Collection[str]) -> None:
        """They are to be fresh again."""


class LatestKeys:
    """The latest keys in the memory of this process; safe from several threads."""

    def __init__(self, count_max: int = 100_000) -> None:
        """Know nothing yet, and never more than ``count_max`` keys."""
        self._count_max = count_max
        self._keys: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._lock = Lock()

    def known(self, consumer: str, keys: Collection[str]) -> list[str]:
        """Those that are held."""
        with self._lock:
            return [key for key in keys if (consumer, key) in self._keys]

    def remember(self, consumer: str, keys: Collection[str]) -> None:
        """Hold them, and let go of the oldest."""
        with self._lock:
            for key in keys:
                self._keys[consumer, key] = None
                self._keys.move_to_end((consumer, key))
            while len(self._keys) > self._count_max:
                self._keys.popitem(last=False)

    def forget(self, consumer: str, keys: Collection[str]) -> None:
        """Let go of them."""
        with self._lock:
            for key in keys:
                self._keys.pop((consumer, key), None)
