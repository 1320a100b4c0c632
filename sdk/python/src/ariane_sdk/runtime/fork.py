"""Detecting forks: a child inherits clients whose threads and connections stay in its parent.

gRPC itself does not survive a fork once it has been used: it may end the child at its first call,
even if everything was closed before. So a child whose parent has used a client cannot have a
client, and gets an error.
"""

from __future__ import annotations

import os
from typing import Final

from ariane_sdk.errors import ClientForked


class _ProcessState:
    """The state of this process with respect to forks.

    Attributes:
        generation: The number of forks between the first process and this one.
        grpc_used: Whether this process has used gRPC through this package.
        grpc_lost: Whether an ancestor had used it before it forked.
    """

    __slots__ = ("generation", "grpc_lost", "grpc_used")

    def __init__(self) -> None:
        self.generation = 0
        self.grpc_used = False
        self.grpc_lost = False

    def enter_child(self) -> None:
        self.generation += 1
        self.grpc_lost = self.grpc_lost or self.grpc_used


_process: Final = _ProcessState()
os.register_at_fork(after_in_child=_process.enter_child)


class ForkGuard:
    """Remembers in which process it was made."""

    __slots__ = ("_born",)

    def __init__(self) -> None:
        self._born = _process.generation

    def check(self) -> None:
        """Check that this is the process that made the guard.

        Raises:
            ClientForked: This is a child of that process.
        """
        if self._born != _process.generation:
            raise ClientForked(
                "this client was made in the parent process; make clients after the fork,"
                ' or start processes by "spawn"'
            )


def begin_to_use_grpc() -> None:
    """Note that this process uses gRPC from now on.

    Raises:
        ClientForked: Its parent had used gRPC before it forked this process.
    """
    if _process.grpc_lost:
        raise ClientForked(
            "the parent process had used a client before it forked this one, which gRPC does not"
            ' survive; fork before the first use, or start processes by "spawn"'
        )
    _process.grpc_used = True
