"""Processes that the demo starts beside the cluster: they speak in lines of JSON on both ends.

A child leads its own session, so that Ctrl-C reaches the demo alone, which then ends its children
in order. A child ends by itself when its standard input does: it never outlives the demo.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from flight_demo.errors import ChildFailed

_STOP_SECONDS = 10.0
_LINE_BYTES_MAX = 1 << 20
_LAST_LINES = 5
_FAILED = "failed"


class Child:
    """A running child."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log_path: Path) -> None:
        self.name = name
        self._process = process
        self._log_path = log_path

    async def tell(self, word: str) -> None:
        """Send one line.

        Raises:
            ChildFailed: The child is gone.
        """
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(word.encode() + b"\n")
            await stdin.drain()
        except ConnectionError as error:
            raise await self._failure() from error

    async def hear(self) -> Mapping[str, Any]:
        """Return the next line.

        Raises:
            ChildFailed: The child ended instead.
        """
        stdout = self._process.stdout
        assert stdout is not None
        line = await stdout.readline()
        if not line:
            raise await self._failure()
        heard: Mapping[str, Any] = json.loads(line)
        if heard["event"] == _FAILED:
            raise ChildFailed(f"{self.name} failed: {heard['reason']}")
        return heard

    async def hear_until(self, event: str) -> AsyncIterator[Mapping[str, Any]]:
        """Yield lines up to and with the first one whose ``event`` is `event`.

        Raises:
            ChildFailed: The child ended before.
        """
        while True:
            line = await self.hear()
            yield line
            if line["event"] == event:
                return

    async def stop(self) -> None:
        """End the child: first by the end of its input, then by signals to its whole session."""
        process = self._process
        if process.stdin is not None:
            process.stdin.close()
        for sent in (None, signal.SIGTERM, signal.SIGKILL):
            if sent is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, sent)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_SECONDS):
                    await process.wait()
                    break
        # What the child itself started and left (a Java machine, say) bears its session's number.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    async def _failure(self) -> ChildFailed:
        status = await self._process.wait()
        lines = self._log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        last = " / ".join(line.strip() for line in lines[-_LAST_LINES:] if line.strip())
        return ChildFailed(f"{self.name} ended with status {status}: {last or 'it left no word'}")


@asynccontextmanager
async def child(
    name: str,
    module: str,
    arguments: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[Child]:
    """Run ``python -m module`` while the block runs.

    Args:
        name: For messages, and for the log file in `folder`.
        module: A module of this package.
        arguments: Its command line.
        folder: Its working directory; its errors go to ``<name>.log`` in it.
        environment: Variables on top of this process's own.
    """
    log_path = folder / f"{name}.log"
    import_path = str(Path(__file__).parent.parent)
    inherited = os.environ.get("PYTHONPATH")
    with log_path.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            module,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            limit=_LINE_BYTES_MAX,
            cwd=folder,
            start_new_session=True,
            env={
                **os.environ,
                **(environment or {}),
                "PYTHONPATH": f"{import_path}{os.pathsep}{inherited}" if inherited else import_path,
            },
        )
    running = Child(name, process, log_path)
    try:
        yield running
    finally:
        await asyncio.shield(running.stop())


def perform(work: Callable[[], None]) -> None:
    """In a child: do its work; of an error the demo hears one line, the log has the trace."""
    try:
        work()
    except Exception as error:
        traceback.print_exc()
        say(_FAILED, reason=_one_line(error))
        raise SystemExit(1) from error


def _one_line(error: Exception) -> str:
    """Return what went wrong; of a trace within the text, as Spark has it, only the last word."""
    first, *others = str(error).splitlines() or [""]
    causes = [line for line in others if re.match(r"[\w.]+: \S", line)]
    words = [first.removesuffix("Traceback (most recent call last):").strip(), *causes[-1:]]
    return f"{type(error).__name__}: {' '.join(words)}"


def say(event: str, **fields: object) -> None:
    """In a child: write one line to the demo."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()
