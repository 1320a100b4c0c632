"""A worker's process, for its parent. Only this module uses processes and sockets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from dataclasses import dataclass
from typing import Protocol

from ariane_filter.jail.limits import FilterLanguage

_CPU_CLOCK = 2  # In Linux, the clock of a process is its inverted id, shifted, and this.


class WorkerProcess(Protocol):
    """The interface of a worker's process."""

    channel: socket.socket
    """The parent's end; does not block."""

    @property
    def pid(self) -> int:
        """Its process id."""
        ...

    def cpu_seconds(self) -> float:
        """Processor time that it has spent."""

    async def end(self) -> int:
        """Kill it if it lives; return its exit status, negative for a signal."""


@dataclass(frozen=True, slots=True)
class JailLauncher:
    """Starts workers. They die with the thread that calls this."""

    wrapper: tuple[str, ...] = ()
    """A command, with its path, that starts the command given to it."""

    async def __call__(self, language: FilterLanguage, memory_bytes: int) -> JailedProcess:
        """Start one."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)  # noqa: FBT003 - the parameter has no name
        with theirs:
            descriptor = theirs.fileno()
            process = await asyncio.create_subprocess_exec(
                *self.wrapper,
                *(sys.executable, "-I", "-m", "ariane_filter.jail.worker"),
                *(str(descriptor), str(int(language)), str(memory_bytes)),
                pass_fds=(descriptor,),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                cwd="/",
                env={"OPENBLAS_NUM_THREADS": "1"},
            )
        return JailedProcess(process, ours)


class JailedProcess:
    """A process that runs ``ariane_filter.jail.worker``."""

    def __init__(self, process: asyncio.subprocess.Process, channel: socket.socket) -> None:
        self._process = process
        self.channel = channel
        # Identifies this process and never another one. Killing by it does not collect the exit
        # status, unlike ``Process.kill``, which would take the status away from the loop.
        self._handle: int | None = None
        with contextlib.suppress(ProcessLookupError):  # The process has ended already.
            self._handle = os.pidfd_open(process.pid)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def cpu_seconds(self) -> float:
        """Processor time that it has spent; zero when it is gone."""
        try:
            return time.clock_gettime(~self._process.pid << 3 | _CPU_CLOCK)
        except OSError:
            return 0.0

    async def end(self) -> int:
        """Kill it if it lives; return its exit status, negative for a signal."""
        self.channel.close()
        if self._handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            os.close(self._handle)
            self._handle = None
        return await self._process.wait()
