"""Places that strangers may take, and of which one host cannot have all."""

from __future__ import annotations

from collections import Counter
from threading import Lock


class HostPlaces:
    """Counts who has a place, by host; for any threads."""

    def __init__(self, count_max: int, of_host_max: int) -> None:
        """Nobody has one yet.

        Args:
            count_max: Places in all.
            of_host_max: Of these, how many one host may have.
        """
        self._count_max = count_max
        self._of_host_max = of_host_max
        self._lock = Lock()
        self._count = 0
        self._of_host: Counter[str] = Counter()

    def enter(self, host: str) -> bool:
        """Give a host one more place, if there is one for it; whether there is."""
        with self._lock:
            if self._count >= self._count_max or self._of_host[host] >= self._of_host_max:
                return False
            self._count += 1
            self._of_host[host] += 1
            return True

    def leave(self, host: str) -> None:
        """Take one place of a host back."""
        with self._lock:
            self._count -= 1
            self._of_host[host] -= 1
            if not self._of_host[host]:
                del self._of_host[host]
