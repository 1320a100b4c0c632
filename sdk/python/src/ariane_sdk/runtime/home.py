"""Where a client lives: its process, and from its start on, its event loop."""

from __future__ import annotations

import asyncio

from ariane_sdk.errors import ClientOnOtherLoop
from ariane_sdk.runtime.fork import ForkGuard


class HomeGuard:
    """Remembers the process that made a client, and the loop that started it."""

    __slots__ = ("_fork_guard", "_loop")

    def __init__(self) -> None:
        self._fork_guard = ForkGuard()
        self._loop: asyncio.AbstractEventLoop | None = None

    def settle(self) -> None:
        """Bind to the running loop.

        Raises:
            ClientForked: A parent process made the client.
            ClientOnOtherLoop: Another loop has started it.
        """
        self.check()
        self._loop = asyncio.get_running_loop()

    def leave(self) -> None:
        """Bind to no loop: the client has ended."""
        self._loop = None

    @property
    def in_its_process(self) -> bool:
        """Whether this is the process that made the client."""
        return self._fork_guard.is_here

    @property
    def is_here(self) -> bool:
        """Whether the caller runs on the loop of the client, or the client has none."""
        try:
            return self._loop is None or asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False  # No loop runs here.

    def check(self) -> None:
        """Check that this is the home of the client.

        Raises:
            ClientForked: A parent process made the client.
            ClientOnOtherLoop: Another loop has started it.
        """
        self._fork_guard.check()
        if not self.is_here:
            raise ClientOnOtherLoop(
                "another event loop has started this client: call it there"
                " (asyncio.run_coroutine_threadsafe), make one client for each loop, or use"
                " ariane_sdk.sync in threads"
            )
