"""The event loop of one process in virtual time.

It runs callbacks in the order of asyncio, in turns. Between two turns some virtual time passes, as
much as the process is slow, and everybody else has theirs.
"""

from __future__ import annotations

import asyncio
import socket
from asyncio import events
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextvars import Context

    from played_world.machines.process import Process


class PlayedLoop(asyncio.BaseEventLoop):
    """What asyncio's loop is to a program, as far as the house uses it."""

    _ready: deque[events.Handle]

    def __init__(self, process: Process) -> None:
        self.process = process
        super().__init__()
        self.ready = self._ready
        """Callbacks of the next turn."""

    def __del__(self) -> None:
        """Leave it: a loop that was killed is not closed."""

    def time(self) -> float:
        """Virtual seconds."""
        return self.process.world.timeline.now

    def is_running(self) -> bool:
        """Whether it runs: as long as its process lives."""
        return not self.process.is_dead

    def get_debug(self) -> bool:
        """No."""
        return False

    def set_debug(self, enabled: bool) -> None:
        """Leave it."""
        self._debug = False

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> events.Handle:
        """Call in the next turn."""
        handle = events.Handle(callback, args, self, context)
        self.ready.append(handle)
        process = self.process
        if process.may_be_woken:
            process.wake()
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # There is one thread.

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> events.TimerHandle:
        """Call at a virtual time."""
        timer = events.TimerHandle(when, callback, args, self, context)
        self.process.world.timeline.at(when, self._due, timer)
        return timer

    def _due(self, timer: events.TimerHandle) -> None:
        if not timer.cancelled() and not self.process.is_dead:
            self.ready.append(timer)
            self.process.wake()

    def _timer_handle_cancelled(self, handle: events.TimerHandle) -> None:
        pass

    def run_ready(self) -> None:
        """Run what is ready now; what comes meanwhile waits for the next turn."""
        ready = self.ready
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:  # noqa: SLF001 - this is the loop.
                handle._run()  # noqa: SLF001

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """An error that nobody has taken is a finding."""
        self.process.world.finds(self.process, "unhandled", context)

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Play a thread of an executor."""
        return self.process.threads_of(executor).call(func, args)

    async def getaddrinfo(  # type: ignore[override]
        self, host: str, port: int, **_: Any
    ) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        """Each name is its address."""
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))]

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        **_: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect over the played network.

        Raises:
            OSError: Nobody listens there.
        """
        network = self.process.world.network
        return await network.connect(self.process, protocol_factory, (host, port))

    async def create_datagram_endpoint(  # type: ignore[override]
        self, *_: Any, **__: Any
    ) -> tuple[asyncio.DatagramTransport, asyncio.DatagramProtocol]:
        """Refuse: the house sends none.

        Raises:
            OSError: Always.
        """
        raise OSError("there are no datagrams here")
