"""A lock on a file of a disk in memory."""

from __future__ import annotations


class HeldLock:
    """A lock on a file, held until it is released.

    Attributes:
        exclusive: Whether nobody else may hold one.
    """

    def __init__(self, held: list[HeldLock], *, exclusive: bool) -> None:
        self._held = held
        self.exclusive = exclusive

    def release(self) -> None:
        """Give the lock back."""
        if self in self._held:
            self._held.remove(self)
