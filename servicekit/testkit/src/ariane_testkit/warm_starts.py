"""Services under test start as forks of a process that has imported them already.

Nearly all of a start is imports: most of a second of processor time for a broker, hundreds of times
in a run of the tests. A *template* imports a service once, and each start is a fork of it. A fork
is a process like any other: its own memory, files and signals. And it is a child of the tests'
process, not of the template, so that it is waited for, and ends with its parent, as any child.

The first start of each service is an ordinary one, and so is one that a template cannot stand for:
under another program, of a module that is not ours, or where a variable differs that is read while
modules are imported.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import signal
import socket
import subprocess
import sys
from array import array
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, cast

LAUNCHER: Final = "ariane_servicekit.running.launcher"
READ_BY_IMPORTS: Final = ("PYTHON", "GRPC_", "OTEL_", "OPENBLAS_", "OMP_")
"""What the names of variables begin with that count when modules are imported."""

CLONE_CALLS: Final = {"x86_64": 56, "aarch64": 220}
"""The number of Linux's ``clone`` by machine."""

REQUEST_BYTES_MAX: Final = 1 << 17


def can_start_warm() -> bool:
    """Whether this system can fork a child for another process."""
    return sys.platform == "linux" and platform.machine() in CLONE_CALLS


class WarmStarts:
    """Starts services; a start is what ``asyncio.create_subprocess_exec`` is to its callers."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._templates: dict[str, _Template] = {}

    async def start(self, *command: str, stderr: Any, **options: Any) -> asyncio.subprocess.Process:
        """Start a service by its command, warm where that is possible.

        Args:
            command: As of ``ServiceProcess``.
            stderr: The open file of its log.
            options: Those of ``asyncio.create_subprocess_exec``.
        """
        prefix = (sys.executable, "-m", LAUNCHER, str(os.getpid()))
        module = command[len(prefix)] if command[: len(prefix)] == prefix else ""
        if not module.startswith("ariane_") or module not in self._seen:
            self._seen.add(module)
            return await asyncio.create_subprocess_exec(*command, stderr=stderr, **options)
        template = self._templates.get(module)
        if template is None:
            template = self._templates[module] = _Template(module)
        if template.variables != _read_by_imports():
            return await asyncio.create_subprocess_exec(*command, stderr=stderr, **options)
        end, stdout = os.pipe()
        try:
            arguments = command[len(prefix) - 2 :]
            pid = await template.fork(arguments, (stdout, stderr.fileno()))
        finally:
            os.close(stdout)
        child = WarmChild(pid)
        await child.listen(end)
        return cast("asyncio.subprocess.Process", child)

    def close(self) -> None:
        """End the templates; what they forked goes on."""
        for template in self._templates.values():
            template.close()
        self._templates.clear()


class _Template:
    """A process that has imported a service."""

    def __init__(self, module: str) -> None:
        self.variables = _read_by_imports()
        # Linux takes the *thread* that started the template for the parent of what is forked, and
        # tells the children of its end: this one ends with the process only.
        self._thread = ThreadPoolExecutor(1, f"template-of-{module}")
        self._started = self._thread.submit(self._start, module)

    def _start(self, module: str) -> None:
        self._channel, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            command = (sys.executable, "-m", "ariane_testkit.warm_template", str(other.fileno()))
            # Threads of libraries do not survive a fork.
            environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter.
                (*command, module),
                env=environment,
                stdin=subprocess.DEVNULL,
                pass_fds=(other.fileno(),),
                start_new_session=True,
            )

    async def fork(self, arguments: Sequence[str], files: tuple[int, int]) -> int:
        """Let it fork a child with these files as output and errors; return the child's id."""
        request = {"argv": arguments, "env": dict(os.environ), "cwd": os.getcwd()}  # noqa: PTH109 - as Popen.
        return await asyncio.wrap_future(
            self._thread.submit(self._ask, json.dumps(request).encode(), files)
        )

    def _ask(self, request: bytes, files: tuple[int, int]) -> int:
        self._started.result()
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", files))]
        self._channel.sendmsg([request], ancillary)
        answer = self._channel.recv(64)
        if not answer:
            raise ChildProcessError("the template has ended")
        return int(answer)

    def close(self) -> None:
        """End it, once it has imported all."""
        self._started.result()
        self._channel.close()
        self._process.wait()
        self._thread.shutdown()


class WarmChild:
    """A forked child, as ``asyncio.subprocess.Process`` has it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdout = asyncio.StreamReader()
        self._over = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._descriptor = os.pidfd_open(pid)
        self._loop.add_reader(self._descriptor, self._reap)

    async def listen(self, end: int) -> None:
        """Read what it says from the end of a pipe."""
        self._output = _Output(self.stdout)
        pipe = os.fdopen(end, "rb", buffering=0)
        await self._loop.connect_read_pipe(lambda: self._output, pipe)

    def _reap(self) -> None:
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self._over.set()

    async def wait(self) -> int:
        """Wait until it has ended and all that it said is read; return its exit status."""
        await self._over.wait()
        await self._output.over.wait()
        assert self.returncode is not None  # noqa: S101 - it is over.
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal; harmless when it has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


class _Output(asyncio.StreamReaderProtocol):
    def __init__(self, reader: asyncio.StreamReader) -> None:
        super().__init__(reader)
        self.over = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.over.set()


def _read_by_imports() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if name.startswith(READ_BY_IMPORTS)}
