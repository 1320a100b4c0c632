"""Programs of any language that a test speaks to: lines of JSON in, lines of JSON out.

A command is ``{"call": <number>, "do": <verb>, ...}``, and its answer ``{"call", "ok": ...}`` or
``{"call", "error": {"reason", "text", "outcome_unknown"}}``, in any order.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from threading import Lock, Thread
from typing import IO, Any, Final, Self, cast

ANSWER_S: Final = 240.0
"""How long an answer is waited for: programs give up before."""

_END_S_MAX: Final = 60.0


class Refused(Exception):
    """What a program said instead of doing what it was told."""

    def __init__(self, name: str, error: Mapping[str, Any]) -> None:
        super().__init__(f"{name}: {error['text']}")
        self.reason: str = error["reason"]
        """In the words of the program's language."""
        self.outcome_unknown: bool = error["outcome_unknown"]
        """Whether it may have happened all the same."""


class LineProgram:
    """One program; any number of threads may ask it things at a time.

    Args:
        name: Of the program, in errors.
        command: Starts it.
        environment: Is added to this process's own.
        words: What every command has, unless it says otherwise.
        log_path: A file for what it writes to standard error; unset: this process's own.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        words: Mapping[str, Any] | None = None,
        log_path: Path | None = None,
    ) -> None:
        self.name = name
        self._words = dict(words or {})
        with ExitStack() as stack:
            log = stack.enter_context(log_path.open("ab")) if log_path else None
            self._process = subprocess.Popen(  # noqa: S603 - a test's own program
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **(environment or {})},
            )
        self._input = cast("IO[str]", self._process.stdin)
        self._lock = Lock()
        self._asked: dict[int, Future[Any]] = {}
        self._numbers = count()
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ask(self, do: str, **words: Any) -> Any:
        """Have it do something; return what it says.

        Raises:
            Refused: It said that it could not.
            ConnectionError: It has ended.
            TimeoutError: It did not answer.
        """
        with self._lock:
            if not self._listener.is_alive():
                raise ConnectionError(f"the program {self.name} has ended")
            call = next(self._numbers)
            answer: Future[Any] = Future()
            self._asked[call] = answer
            command = {"call": call, "do": do, **self._words, **words}
            self._input.write(json.dumps(command) + "\n")
            self._input.flush()
        return answer.result(ANSWER_S)

    def end(self) -> None:
        """Close its input and wait until it has ended; kill it if it does not."""
        with self._process as process:
            self._input.close()
            try:
                process.wait(_END_S_MAX)
            finally:
                process.kill()

    def _listen(self) -> None:
        for line in cast("IO[str]", self._process.stdout):
            parsed = json.loads(line)
            answer = self._asked.pop(parsed["call"])
            if parsed.get("error") is not None:
                answer.set_exception(Refused(self.name, parsed["error"]))
            else:
                answer.set_result(parsed.get("ok"))
        with self._lock:
            for answer in self._asked.values():
                answer.set_exception(ConnectionError(f"the program {self.name} has ended"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
