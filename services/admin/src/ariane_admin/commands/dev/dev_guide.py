"""What ``ariane dev`` says when everything runs: where it is, and what to try next.

Every line to try is made to be copied: a test runs them all as they are printed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ariane_admin.asking.connection import (
    ADMIN_VARIABLE,
    CHECKER_VARIABLE,
    DEFAULT_ADMIN,
    DEFAULT_CHECKER,
    DEFAULT_NAME_SERVERS,
    NAME_SERVERS_VARIABLE,
)

_PYTHON_EXAMPLE = """{python} -c '
from ariane_sdk.sync import Message, Producer
with Producer("{name_servers}", group="trial") as producer:
    print(producer.send(Message("hello", b"Bonjour from Python")))
'"""


@dataclass(frozen=True, slots=True)
class DevGuide:
    """A cluster that runs."""

    name_servers: str
    checker: str
    """Where the transaction checker is."""

    admin: str
    """Address of admin."""

    console: str
    """Its page for browsers."""

    services: tuple[tuple[str, str, int], ...]
    """Name, address and process id."""

    store_path: Path
    temporary: bool

    seconds: float
    """How long the start took."""

    def commands(self) -> list[str]:
        """Return what to try next, each to be pasted into a shell."""
        ariane = _as_typed("ariane", Path(sys.argv[0]))
        python = _as_typed("python", Path(sys.executable))
        first = (
            []
            if self.name_servers == DEFAULT_NAME_SERVERS
            else [f"export {NAME_SERVERS_VARIABLE}={self.name_servers}"]
        )
        if self.checker != DEFAULT_CHECKER:
            first.append(f"export {CHECKER_VARIABLE}={self.checker}")
        if self.admin != DEFAULT_ADMIN:
            first.append(f"export {ADMIN_VARIABLE}={self.admin}")
        return [
            *first,
            f"{ariane} topic create hello",
            f"echo 'Bonjour' | {ariane} produce hello",
            _PYTHON_EXAMPLE.format(python=python, name_servers=self.name_servers),
            f"{ariane} consume hello --from earliest --count 2",
        ]

    def as_text(self) -> str:
        """Return the guide for people."""
        width = max(len(name) for name, _, _ in self.services)
        address_width = max(len(address) for _, address, _ in self.services)
        services = "\n".join(
            f"  {name:<{width}}  {address:<{address_width}}   process {pid}"
            for name, address, pid in self.services
        )
        fate = "temporary, gone afterwards; --data DIR keeps one" if self.temporary else "kept"
        return (
            f"ArianeMQ runs on this machine, ready in {self.seconds:.1f} s.\n\n"
            f"{services}\n\n"
            f"  console: {self.console}\n"
            f"  store: {self.store_path} ({fate})\n\n"
            "Try next, in another terminal:\n\n"
            + "\n\n".join(self.commands())
            + "\n\nCtrl-C stops the cluster."
        )

    def as_row(self) -> Mapping[str, object]:
        """Return the guide for programs."""
        return {
            "event": "ready",
            "name_servers": self.name_servers,
            "checker": self.checker,
            "admin": self.admin,
            "console": self.console,
            "services": [
                {"name": name, "address": address, "pid": pid}
                for name, address, pid in self.services
            ],
            "store_path": str(self.store_path),
            "temporary": self.temporary,
            "seconds": round(self.seconds, 3),
            "try_next": self.commands(),
        }


def _as_typed(word: str, program: Path) -> str:
    """Return `word` if typing it runs `program`, else a path that does."""
    found = shutil.which(word)
    # Not resolved: the interpreter of a virtual environment is a link to one that is not in it.
    if found is not None and Path(found).absolute() == program.absolute():
        return word
    if program.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m {program.parent.name}"
    path = Path(os.path.relpath(program))
    return shlex.quote(str(path) if len(path.parts) < len(program.parts) else str(program))
