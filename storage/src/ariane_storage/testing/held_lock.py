"""A lock on a file of a disk in memory."""

from __future__ import annotations


class HeldLock:
    """A lock on a file, held until it is released."""

    def __init__(self, held: list[HeldLock], *, exclusive: bool) -> None:
        self._held = held
        self.exclusive = exclusive
        """Whether it excludes all other holders."""

    def release(self) -> None:
        """Release the lock."""
        if self in self._held:
            self._held.remove(self)
