"""RocketMQ's own clients, as published: fetched once into a cache folder, with a driver each.

A driver is a small program that acts with one client and is spoken to by lines of JSON; README.md
has the commands. Nothing of a client is kept in the repository, and nothing is installed by hand:
each language's own package manager fetches what its driver names, at the first use.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ariane_testkit.programs.line_program import LineProgram
from tools.workspace import ROOT

DRIVERS: Final = Path(__file__).parent / "drivers"
CACHE: Final = ROOT / ".cache" / "gateway"
BUILD_S_MAX: Final = 1800

WORDS: Final[dict[str, Any]] = {
    "endpoints": "",
    "tls": False,
    "key": "",
    "secret": "",
    "namespace": "",
    "timeout_ms": 10_000,
    "topic": "",
    "group": "",
    "tags": "",
    "sql": "",
    "messages": [],
    "recall": "",
    "max": 32,
    "invisible_ms": 30_000,
    "numbers": [],
    "fail": 0,
    "take_ms": 0,
    "answer": "unknown",
    "at_once": False,
    "cached_max": 0,
}
"""What a command says where a test says nothing."""


class DriverFailed(Exception):
    """A toolchain said no; its words are the message."""


@dataclass(frozen=True)
class Official:
    """A client of RocketMQ, and how its driver is had."""

    name: str
    """In tests: the language, with the version where there are several."""
    version: str
    """As it is published."""
    sources: str
    """The folder below ``drivers``."""
    tools: tuple[str, ...]
    """Programs that a machine needs."""
    build: Callable[[Official, Path], None]
    """Makes the driver in a folder that already has its sources."""
    command: Callable[[Path], list[str]]
    """Starts the driver that was made in a folder."""
    lacks: frozenset[str] = field(default_factory=frozenset)
    """Features that this version has not."""
    blind: frozenset[str] = field(default_factory=frozenset)
    """Words of a received message that this version does not tell."""

    @property
    def folder(self) -> Path:
        """Where its driver is made."""
        return CACHE / self.name

    @property
    def missing(self) -> str:
        """What this machine lacks for it; empty when it has all."""
        return " and ".join(tool for tool in self.tools if shutil.which(tool) is None)

    def made(self) -> Path:
        """Make the driver, unless it was made of these very sources; return its folder.

        One process at a time does, and others wait for it.

        Raises:
            DriverFailed: Something could not be had, or does not compile.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "made").open("a+") as last:
            fcntl.flock(last, fcntl.LOCK_EX)
            last.seek(0)
            wanted = self._digest()
            if last.read() == wanted:
                return self.folder
            last.truncate(0)
            for path in (DRIVERS / self.sources).iterdir():
                if path.is_file():
                    shutil.copy(path, self.folder)
            self.build(self, self.folder)
            last.write(wanted)
        return self.folder

    def start(self, home: Path) -> LineProgram:
        """Start the driver; its client's logs go below ``home``."""
        folder = self.made()
        home.mkdir(parents=True, exist_ok=True)
        environment = {"HOME": str(home), "rocketmq.client.logRoot": str(home / "logs")}
        command = self.command(folder)
        if command[0] == "java":
            command.insert(1, f"-Duser.home={home}")
        return LineProgram(
            self.name,
            command,
            environment=environment,
            words=WORDS,
            log_path=home / "driver.log",
        )

    def _digest(self) -> str:
        whole = hashlib.sha256(self.version.encode())
        for path in sorted((DRIVERS / self.sources).iterdir()):
            if path.is_file():
                whole.update(f"{path.name}\n".encode() + path.read_bytes())
        return whole.hexdigest()


def run(*command: str, place: Path, **environment: str) -> None:
    """Run a tool in a folder.

    Raises:
        DriverFailed: With what it printed.
    """
    done = subprocess.run(
        command,
        cwd=place,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_S_MAX,
    )
    if done.returncode:
        said = (done.stdout + done.stderr).strip()
        raise DriverFailed(f"{command[0]} ended with status {done.returncode}: {said[-3000:]}")


def build_python(client: Official, folder: Path) -> None:
    """An environment of its own: its grpcio and protobuf need not be ours."""
    run(sys.executable, "-m", "venv", "--clear", "venv", place=folder)
    quiet = ("--quiet", "--disable-pip-version-check")
    python = str(folder / "venv" / "bin" / "python")
    package = f"rocketmq-python-client=={client.version}"
    run(python, "-m", "pip", *quiet, "install", package, place=folder)


def build_python_beside_ours(client: Official, folder: Path) -> None:
    """The client alone, for the environment of this repository: quick, and they get on."""
    # A program finds what lies beside it.
    target = ("--no-deps", "--upgrade", "--target", ".")
    package = f"rocketmq-python-client=={client.version}"
    quiet = ("--quiet", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", *quiet, "install", *target, package, place=folder)


def build_go(client: Official, folder: Path) -> None:
    """The version is that of go.mod."""
    assert client.version in (folder / "go.mod").read_text()
    run("go", "build", "-o", "driver", ".", place=folder, GOFLAGS="-mod=mod")


def build_java(client: Official, folder: Path) -> None:
    """The jar has all that the client needs, under names of its own."""
    version = f"-Dclient.version={client.version}"
    fetch = ("dependency:copy-dependencies", "-DoutputDirectory=jars", "-DincludeScope=runtime")
    shutil.rmtree(folder / "jars", ignore_errors=True)
    run("mvn", "-q", "-B", version, *fetch, place=folder)
    run("javac", "-nowarn", "-cp", "jars/*", "-d", "classes", "Driver.java", place=folder)


def build_node(client: Official, folder: Path) -> None:
    """The version is that of package.json."""
    assert client.version in (folder / "package.json").read_text()
    run("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", place=folder)


def build_rust(client: Official, folder: Path) -> None:
    """The version is that of Cargo.toml; without optimization, which takes minutes."""
    assert client.version in (folder / "Cargo.toml").read_text()
    run("cargo", "build", "--quiet", place=folder)


def python(
    name: str,
    version: str,
    lacks: frozenset[str] = frozenset(),
    blind: frozenset[str] = frozenset(),
) -> Official:
    """A version of the Python client."""
    return Official(
        name,
        version,
        "python",
        (),
        build_python,
        lambda folder: [str(folder / "venv" / "bin" / "python"), str(folder / "driver.py")],
        lacks,
        blind,
    )


def java(name: str, version: str, lacks: frozenset[str] = frozenset()) -> Official:
    """A version of the Java client."""
    return Official(
        name,
        version,
        "java",
        ("java", "javac", "mvn"),
        build_java,
        lambda folder: [
            *("java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-XX:+UseSerialGC"),
            *("-cp", f"{folder / 'classes'}:{folder / 'jars'}/*", "Driver"),
        ],
        lacks,
    )


OFFICIAL: Final = {
    each.name: each
    for each in (
        python("python", "5.1.2"),
        java("java", "5.2.0"),
        Official("go", "5.1.4", "go", ("go",), build_go, lambda folder: [str(folder / "driver")]),
        Official(
            "node",
            "1.0.8",
            "node",
            ("node", "npm"),
            build_node,
            lambda folder: ["node", str(folder / "driver.mjs")],
        ),
        Official(
            "rust",
            "5.0.0",
            "rust",
            ("cargo",),
            build_rust,
            lambda folder: [str(folder / "target" / "debug" / "gateway-driver")],
            frozenset({"push", "priority", "recall", "extend"}),
        ),
        python("python-5.1.1", "5.1.1"),
        # It drops these of what it receives, and its listeners fail where metrics are off.
        python(
            "python-5.0.9",
            "5.0.9",
            frozenset({"priority", "push"}),
            frozenset({"keys", "properties"}),
        ),
        java("java-5.0.8", "5.0.8", frozenset({"priority"})),
    )
}
BESIDE_OURS: Final = Official(
    "python-beside-ours",
    OFFICIAL["python"].version,
    "python",
    (),
    build_python_beside_ours,
    lambda folder: [sys.executable, str(folder / "driver.py")],
)
"""The Python client in the environment of this repository, which is had in a second."""

NEWEST: Final = ("python", "java", "go", "node", "rust")
"""One version of each language."""
