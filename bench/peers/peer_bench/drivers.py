"""A client in a process of its own: asked and answering in lines of JSON.

It lives over all pairs of a run, so that what is compiled and connected stays so.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from peer_bench.errors import DriverFailed
from peer_bench.processes.process_group import ProcessGroup

ANSWER_S_MAX: Final = 300.0
STOP_S_MAX: Final = 10.0
_LOG_CHARACTERS_SHOWN: Final = 2000


class Driver:
    """A client's process. Use it as a context.

    Args:
        name: For errors and the log's name.
        command: How it is started.
        log_path: Where its standard error goes.
        environment: Beside what this process has.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log_path: Path,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._name = name
        self._command = list(command)
        self._log_path = log_path
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[str] | None = None
        self._group: ProcessGroup | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._running.pid

    def __enter__(self) -> Self:
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        with self._log_path.open("ab") as log:
            try:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    env=self._environment,
                    process_group=0,
                )
            except OSError as error:
                raise DriverFailed(f"{self._name} cannot be started: {error}") from error
        self._group = ProcessGroup(self._process)
        self._reader.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process = self._running
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        assert self._group is not None
        self._group.end(STOP_S_MAX)
        self._reader.join()

    def ask(self, what: str, *, seconds: float = ANSWER_S_MAX, **arguments: Any) -> dict[str, Any]:
        """Ask for something, and wait for the answer.

        Raises:
            DriverFailed: It said that it failed, ended, or did not answer in time.
        """
        process = self._running
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps({"do": what, **arguments}) + "\n")
            process.stdin.flush()
        except OSError as error:
            raise self._failure(f"{error}") from error
        while True:
            try:
                line = self._lines.get(timeout=seconds)
            except queue.Empty:
                raise self._failure(f"did not answer within {seconds:.0f} s: {what}") from None
            if line is None:
                raise self._failure(f"ended with status {process.wait()}")
            # Java libraries print banners; an answer is an object.
            if line.startswith("{"):
                break
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise self._failure(str(answer["error"]))
        return answer

    def _read(self) -> None:
        process = self._running
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self._lines.put(line)
        self._lines.put(None)

    @property
    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise DriverFailed(f"{self._name} was not started")
        return self._process

    def _failure(self, message: str) -> DriverFailed:
        shown = self._log_path.read_text(errors="replace")[-_LOG_CHARACTERS_SHOWN:]
        return DriverFailed(f"{self._name}: {message}; the end of {self._log_path}:\n{shown}")
