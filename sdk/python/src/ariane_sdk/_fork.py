"""Forks, noticed: a child inherits clients whose threads and connections stayed with its parent."""

from __future__ import annotations

import os

from ariane_sdk.errors import ClientForked

_generation = 0


def _count_fork() -> None:
    global _generation  # noqa: PLW0603 - one number of the process, changed in a fresh child only.
    _generation += 1


os.register_at_fork(after_in_child=_count_fork)


class ForkGuard:
    """Remembers in which process it was made."""

    __slots__ = ("_born",)

    def __init__(self) -> None:
        self._born = _generation

    def check(self) -> None:
        """Do nothing in the process that made this.

        Raises:
            ClientForked: This is a child of that process.
        """
        if self._born != _generation:
            raise ClientForked(
                "this client was made in the parent process; make clients after the fork,"
                ' or start processes by "spawn"'
            )
