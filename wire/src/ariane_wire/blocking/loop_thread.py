"""The event loop of all blocking channels of a process, in a thread of its own."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable
from typing import Any, Final

from ariane_wire.loops import new_event_loop

EXIT_S_MAX: Final = 1.0
"""How long the exit of the process waits for the loop."""


class LoopThread:
    """The loop and its thread; both end when the interpreter does.

    A loop in C that went on while the interpreter is taken down would call into it at the next
    event, and crash the process.
    """

    def __init__(self) -> None:
        self.generation = 0
        """Counts the forks between the first process and this one: what another generation has made
        belongs to another process."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self.has_ended = False
        """Whether the interpreter ends: no call begins any more."""
        self._left_behind: list[Any] = []

    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop; it is made and begins to run when it is first needed.

        Raises:
            RuntimeError: The interpreter ends.
        """
        if self.has_ended:
            raise RuntimeError("the interpreter ends: no call begins any more")
        loop = self._loop
        if loop is None:
            with self._lock:
                loop = self._loop
                if loop is None:
                    loop = new_event_loop()
                    self._thread = threading.Thread(
                        target=_run, args=(loop,), name="ariane-wire-loop", daemon=True
                    )
                    self._thread.start()
                    self._loop = loop
        return loop

    def end(self) -> None:
        """Stop the loop for good, and wait for its thread for a moment."""
        with self._lock:
            self.has_ended = True
            loop, thread = self._loop, self._thread
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(EXIT_S_MAX)

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Have a function called on the loop, soon."""
        self.loop().call_soon_threadsafe(function, *arguments)

    def leave_behind(self, what: object) -> None:
        """Keep something of the parent's: its destructor would speak to what the parent uses."""
        self._left_behind.append(what)

    def enter_child(self) -> None:
        """This process was forked: the thread is not here, and the loop is the parent's."""
        self.generation += 1
        self._lock = threading.Lock()
        self.leave_behind(self._loop)
        self._loop = self._thread = None


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()


THREAD: Final = LoopThread()
os.register_at_fork(after_in_child=THREAD.enter_child)
atexit.register(THREAD.end)
