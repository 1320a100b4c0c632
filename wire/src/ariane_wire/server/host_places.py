"""Places that strangers may take, and of which one host cannot have all."""

from __future__ import annotations

from threading import Lock
from typing import Final

SHARE_MIN: Final = 16
"""Places that one host may have in any case: less would be useless."""


class HostPlaces:
    """Counts who has a place, by host; for any threads."""

    def __init__(self, count_max: int, of_host_max: int | None = None) -> None:
        """Nobody has one yet.

        Args:
            count_max: Places in all.
            of_host_max: Of these, how many one host may have; None for three quarters, and
                ``SHARE_MIN`` in any case.
        """
        self.count = 0
        """Places that are taken."""
        self._of_host: dict[str, int] = {}
        self._lock = Lock()
        self.change_count_max(count_max, of_host_max)

    def change_count_max(self, count_max: int, of_host_max: int | None = None) -> None:
        """Have more or fewer places from now on; nobody loses one. Arguments are as above."""
        self.count_max = count_max
        """Places in all."""
        self.of_host_max = of_host_max or max(SHARE_MIN, count_max * 3 // 4)
        """Of these, how many one host may have."""

    def taken_by(self, host: str) -> int:
        """How many places a host has."""
        return self._of_host.get(host, 0)

    def enter(self, host: str) -> bool:
        """Give a host, as ``host_of`` says it, one more place; whether there is one for it."""
        with self._lock:
            taken = self._of_host.get(host, 0)
            if self.count >= self.count_max or taken >= self.of_host_max:
                return False
            self.count += 1
            self._of_host[host] = taken + 1
            return True

    def leave(self, host: str) -> None:
        """Take one place of a host back."""
        with self._lock:
            self.count -= 1
            left = self._of_host[host] - 1
            if left:
                self._of_host[host] = left
            else:
                del self._of_host[host]
