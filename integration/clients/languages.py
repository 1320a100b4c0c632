"""Programs that play scenarios, one for each language: started, and spoken to by lines of JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Final, Self

from tools import clients
from tools.workspace import ROOT

SDK: Final = ROOT / "sdk"
JAVA_CLASSES: Final = (
    SDK / "java" / "target" / "classes",
    SDK / "java" / "target" / "test-classes",
    SDK / "java" / "target" / "lib" / "*",
)

COMMANDS: Final[dict[str, list[str]]] = {
    "python": [sys.executable, str(Path(__file__).with_name("python_worker.py"))],
    "go": [str(SDK / "go" / "bin" / "conformance")],
    "java": [
        *("java", "-XX:TieredStopAtLevel=1", "-cp", ":".join(map(str, JAVA_CLASSES))),
        "mq.ariane.client.conformance.Worker",
    ],
    "typescript": ["node", str(SDK / "typescript" / "dist" / "conformance" / "worker.js")],
}


ANSWER_S: Final = 240.0
"""How long an answer is waited for: programs give up before."""


class Refused(Exception):
    """What a client raised."""

    def __init__(self, language: str, error: dict[str, Any]) -> None:
        super().__init__(f"{language}: {error['text']}")
        self.reason: str = error["reason"]
        self.outcome_unknown: bool = error["outcome_unknown"]


class Worker:
    """One program; any number of threads may ask it things at a time."""

    def __init__(self, language: str, *, try_ms: int = 30_000) -> None:
        """Start it; a try of a call that is not held by a broker takes ``try_ms`` at most."""
        self.language = language
        self._process = subprocess.Popen(
            COMMANDS[language],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TRY_MS": str(try_ms)},
        )
        self._lock = Lock()
        self._asked: dict[int, Future[Any]] = {}
        self._numbers = count()
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()

    def ask(self, do: str, **words: Any) -> Any:
        """Have it do something; return what it says."""
        with self._lock:
            if not self._listener.is_alive():
                raise ConnectionError(f"the program of {self.language} has ended")
            call = next(self._numbers)
            answer: Future[Any] = Future()
            self._asked[call] = answer
            command = {"call": call, "do": do, **NOTHING, **words}
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
        return answer.result(ANSWER_S)

    def _listen(self) -> None:
        for line in self._process.stdout:
            said = json.loads(line)
            answer = self._asked.pop(said["call"])
            if said.get("error") is not None:
                answer.set_exception(Refused(self.language, said["error"]))
            else:
                answer.set_result(said.get("ok"))
        with self._lock:
            for answer in self._asked.values():
                answer.set_exception(ConnectionError(f"the program of {self.language} has ended"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            self._process.stdin.close()
            try:
                self._process.wait(60)
            finally:
                self._process.kill()


NOTHING: Final[dict[str, Any]] = {
    "name_servers": [],
    "messages": [],
    "topic": "",
    "group": "",
    "tags": "",
    "sql": "",
    "compression": "",
    "max": 32,
    "wait_ms": 0,
    "invisible_ms": 60_000,
    "delay_ms": 0,
    "dead_letter": False,
    "numbers": [],
    "answer": "unknown",
}
"""What a command says where a step says nothing."""


def missing(language: str) -> str:
    """What this machine lacks for a language; empty when it has all."""
    if language == "python":
        return ""
    return " and ".join(clients.missing_tools(language))


def build(language: str) -> None:
    """Build a client, unless it is up to date.

    Raises:
        ClientFailed: Its toolchain said no.
    """
    if language != "python":
        clients.build(language)
