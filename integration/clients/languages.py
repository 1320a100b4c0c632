"""Programs that play scenarios, one for each language: started, and spoken to by lines of JSON."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ariane_testkit.programs.line_program import LineProgram, Refused
from tools import clients
from tools.workspace import ROOT

SDK: Final = ROOT / "sdk"
JAVA_CLASSES: Final = (
    SDK / "java" / "target" / "classes",
    SDK / "java" / "target" / "test-classes",
    SDK / "java" / "target" / "lib" / "*",
)

__all__ = ["COMMANDS", "JAVA_CLASSES", "Refused", "Worker", "build", "missing"]

COMMANDS: Final[dict[str, list[str]]] = {
    "python": [sys.executable, str(Path(__file__).with_name("python_worker.py"))],
    "go": [str(SDK / "go" / "bin" / "conformance")],
    "java": [
        *("java", "-XX:TieredStopAtLevel=1", "-cp", ":".join(map(str, JAVA_CLASSES))),
        "mq.ariane.client.conformance.Worker",
    ],
    "typescript": ["node", str(SDK / "typescript" / "dist" / "conformance" / "worker.js")],
}


class Worker(LineProgram):
    """The program of one language; any number of threads may ask it things at a time."""

    def __init__(
        self,
        language: str,
        *,
        try_ms: int = 30_000,
        call_ms: int = 90_000,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start it.

        Args:
            language: Of the program.
            try_ms: What a try of a call takes at most that is not held by a broker.
            call_ms: What a call takes with all tries.
            environment: More for its environment.
        """
        self.language = language
        times = {"TRY_MS": str(try_ms), "CALL_MS": str(call_ms)}
        super().__init__(
            language,
            COMMANDS[language],
            environment={**times, **(environment or {})},
            words=NOTHING,
        )


NOTHING: Final[dict[str, Any]] = {
    "name_servers": [],
    "token": "",
    "messages": [],
    "topic": "",
    "group": "",
    "tags": "",
    "sql": "",
    "more": {},
    "by_priority": False,
    "compression": "",
    "max": 32,
    "wait_ms": 0,
    "invisible_ms": 60_000,
    "delay_ms": 0,
    "dead_letter": False,
    "numbers": [],
    "answer": "unknown",
    "count": 1,
    "batch": 1,
    "in_flight": 1,
    "timeout_ms": 30_000,
    "address": "",
    "act": "",
    "queues": 1,
    "to_ms": 0,
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
