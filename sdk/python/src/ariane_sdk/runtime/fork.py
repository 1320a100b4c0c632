"""Which process this is, and whether it was forked.

A child inherits clients whose threads and connections stay in its parent.
"""

from __future__ import annotations

import os
from typing import Final

from ariane_sdk.errors import ClientForked


class _ProcessState:
    """The state of this process with respect to forks."""

    __slots__ = ("generation",)

    def __init__(self) -> None:
        self.generation = 0
        """The number of forks between the first process and this one."""

    def enter_child(self) -> None:
        self.generation += 1


PROCESS: Final = _ProcessState()
os.register_at_fork(after_in_child=PROCESS.enter_child)


def process_id() -> int:
    """The number of this process."""
    return os.getpid()


class ForkGuard:
    """Remembers in which process it was made."""

    __slots__ = ("_born",)

    def __init__(self) -> None:
        self._born = PROCESS.generation

    @property
    def is_here(self) -> bool:
        """Whether this is the process that made the guard."""
        return self._born == PROCESS.generation

    def check(self) -> None:
        """Check that this is the process that made the guard.

        Raises:
            ClientForked: This is a child of that process.
        """
        if self._born != PROCESS.generation:
            raise ClientForked(
                "this client was made in the parent process; make clients after the fork,"
                ' or start processes by "spawn"'
            )
